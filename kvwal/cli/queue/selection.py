"""The arguments ROOT and QUEUE, and the store that holds the queue."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.begun import begun_in_folder
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.options import Archive, Cluster, LogSelection, Namespace, Node, complete_business
from kvwal.errors import ConfigError, KvwalError
from kvwal.key_class import structure_of
from kvwal.location.parse import ClusterLocation, FolderLocation, parse_location
from kvwal.log.files.names import find_places, some
from kvwal.ports.disk import OS_DISK
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.queue.positions import queue_structure
from kvwal.structures.queue.queue import Queue
from kvwal_archive.layout import check_name
from kvwal_archive.objects import without_credentials


class QueueName(NamedTuple):
    """A queue as it is typed: `BUSINESS`, the business's own queue, or `BUSINESS/NAME`."""

    business: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.business}/{self.name}" if self.name else self.business

    @property
    def structure(self) -> str:
        """The structure of the queue in the log of its business."""
        return queue_structure(self.name)

    def of(self, store: kvwal.Store) -> Queue:
        """The queue in an open store."""
        return store.business(self.business).queue(self.name)


def queue_name(typed: str | QueueName) -> QueueName:
    """The queue that was typed. Raises `InvalidName`."""
    if isinstance(typed, QueueName):
        return typed
    business, slash, name = typed.partition("/")
    return QueueName(check_name("business", business), check_name("queue", name) if slash else "")


def name_of(business: str, structure: str) -> QueueName:
    """The queue of a structure of a business."""
    return QueueName(business, structure.partition("/")[2])


def names_of(business: str, structures: Iterable[str]) -> list[str]:
    """The queues of these structures as they are typed, sorted."""
    return [str(name) for name in sorted(name_of(business, structure) for structure in structures)]


def complete_queue(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of QUEUE for the shell: the businesses, and behind a slash the queues of one business."""
    business, slash, _ = incomplete.partition("/")
    if not slash:
        return complete_business(context, incomplete)
    try:
        with QueueStore(context.params.get("location") or "").files() as store:
            names = names_of(business, store.read_business(business).queues())
    except KvwalError:
        return []
    return [name for name in names if name.startswith(incomplete)]


QueueRoot = Annotated[str, typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False)]
QueueArgument = Annotated[
    QueueName,
    typer.Argument(
        metavar="QUEUE",
        help="The queue: BUSINESS, or BUSINESS/NAME.",
        show_default=False,
        parser=queue_name,
        autocompletion=complete_queue,
    ),
]


@dataclass(frozen=True)
class QueueStore:
    """Bundle: the folder of a store, and the names that select a part of it."""

    location: QueueRoot
    namespace: Namespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    def logs(self) -> LogSelection:
        """The logs of the folder. Raises `ConfigError` for a cluster and for an archive."""
        location = parse_location(OS_DISK, self.location)
        if not isinstance(location, FolderLocation):
            is_cluster = isinstance(location, ClusterLocation)
            what = "a cluster" if is_cluster else "an archive"
            raise ConfigError(
                f"{without_credentials(self.location)} is {what}, and the command line has queues of folders only.",
                hint="Use the queue of kvwal.connect in Python." if is_cluster else "Name the folder of the store.",
            )
        return LogSelection(location.root, self.namespace, self.cluster, self.node, self.archive)

    @contextmanager
    def files(self) -> Iterator[ReadOnlyStore]:
        """Open the store for reading its files, also while another process holds it."""
        with self.logs().open(read_only=True) as store:
            assert isinstance(store, ReadOnlyStore)
            yield store

    @contextmanager
    def existing(self, business: str, accept_clock: bool) -> Iterator[kvwal.Store]:
        """Open the store for changes of a business. Raises `ConfigError` unless the business is there."""
        folder = self.logs()
        folder.logs(business)
        with folder.open(accept_clock=accept_clock) as store:
            yield store

    @contextmanager
    def beginning(self, queue: QueueName, accept_clock: bool) -> Iterator[kvwal.Store]:
        """Open the store for puts. A note on standard error says at the end that the queue is new, if it is."""
        folder = self.logs()
        begun = self._begun(folder, queue)
        with folder.open(accept_clock=accept_clock) as store:
            yield store
        if begun:
            show.note(f"kvwal: {begun}")

    def note_nothing_in(self, queue: QueueName) -> None:
        """Say on standard error that the queue has no item, and which queues of its business have some."""
        with self.files() as store:
            items = store.read_business(queue.business).queue_items()
            names = names_of(queue.business, {structure_of(item.key_class) for item in items})
        show.note(f"kvwal: {queue} has no item (queues with items in {queue.business}: {some(names, str(queue))}).")

    def nothing_in(self, queue: QueueName) -> typer.Exit:
        """As `note_nothing_in`. Returns the exit of the command."""
        self.note_nothing_in(queue)
        return typer.Exit(ABSENT)

    def _begun(self, folder: LogSelection, queue: QueueName) -> str:
        """A sentence on what the first put of this queue begins; empty if the log knows the queue."""
        place = (folder.root, folder.namespace, folder.cluster, queue.business)
        if begun := begun_in_folder(OS_DISK, *place, what=f"queue {queue}"):
            return begun
        if not find_places(OS_DISK, *place, closed=set()):
            return ""
        with self.files() as store:
            business = store.read_business(queue.business)
            if business.knows_queue(queue.structure):
                return ""
            known = business.queues()
        there = some(names_of(queue.business, known), str(queue))
        return f"the queue {queue} is new in {queue.business} (there are: {there})."
