"""The arguments LOCATION and QUEUE, and the store that holds the queue: a folder or a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.begun import begun_in_cluster
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.options import Archive, Cluster, Namespace, Node, complete_business
from kvwal.cli.queue.cluster import ClusterReader
from kvwal.cli.queue.folder import QueueFolder
from kvwal.cli.queue.names import QueueName, names_of, queue_name
from kvwal.cli.queue.reader import QueueReader
from kvwal.errors import ConfigError, KvwalError
from kvwal.location.cluster import ClusterMaps
from kvwal.location.opening import Names, open_writer
from kvwal.location.parse import ArchiveLocation, ClusterLocation, parse_location
from kvwal.log.files.names import some
from kvwal.ports.disk import OS_DISK
from kvwal.store.options import archive_argument
from kvwal_archive.objects import without_credentials

QueueLocation = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION", help="The store: a folder, or a cluster as kvwal://host:port.", show_default=False
    ),
]


def complete_queue(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of QUEUE for the shell: the businesses, and behind a slash the queues of one business. Of a folder only."""
    business, slash, _ = incomplete.partition("/")
    if not slash:
        return complete_business(context, incomplete)
    try:
        with QueueFolder(context.params.get("location") or "").files() as store:
            names = names_of(business, store.read_business(business).queues())
    except KvwalError:
        return []
    return [name for name in names if name.startswith(incomplete)]


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
    """Bundle: the location of a store, and the names that select a part of it."""

    location: QueueLocation
    namespace: Namespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    def folder(self) -> QueueFolder | None:
        """The folder; None for a cluster. Raises `ConfigError` for an archive."""
        location = parse_location(OS_DISK, self.location)
        if isinstance(location, ArchiveLocation):
            raise ConfigError(
                f"{without_credentials(self.location)} is an archive, and `kvwal queue` works on folders and clusters.",
                hint="Name the folder or the cluster that archives there. Its queues are tables of `kvwal query`.",
            )
        if isinstance(location, ClusterLocation):
            return None
        return QueueFolder(self.location, self.namespace, self.cluster, self.node, self.archive)

    @contextmanager
    def members(self) -> Iterator[ClusterMaps]:
        """Connect to the cluster."""
        names = Names(self.namespace, self.cluster, self.node, archive_argument(self.archive))
        with open_writer(parse_location(OS_DISK, self.location), names) as store:
            assert isinstance(store, ClusterMaps)
            yield store

    @contextmanager
    def reader(self) -> Iterator[QueueReader]:
        """Open the store for reading."""
        folder = self.folder()
        if folder is not None:
            with folder.reader() as queues:
                yield queues
        else:
            with self.members() as store:
                yield ClusterReader(store)

    @contextmanager
    def existing(self, queue: QueueName, accept_clock: bool) -> Iterator[kvwal.Store | ClusterMaps]:
        """Open the store for changes of a queue. Raises `ConfigError` unless its business is there.

        In a cluster, a queue without items ends the command: see `nothing_in`.
        """
        folder = self.folder()
        if folder is not None:
            with folder.existing(queue.business, accept_clock) as store:
                yield store
            return
        with self.members() as members:
            self.check_has_items(members, queue)
            yield members

    @contextmanager
    def beginning(self, queue: QueueName, accept_clock: bool) -> Iterator[kvwal.Store | ClusterMaps]:
        """Open the store for puts. A note on standard error says at the end that the queue is new, if it is.

        In a cluster it says so of the business: its members do not know whether an empty queue ever held an item.
        """
        folder = self.folder()
        if folder is not None:
            with folder.beginning(queue, accept_clock) as store:
                yield store
            return
        with self.members() as members:
            begun = begun_in_cluster(self.cluster, queue.business, members.businesses(), what=f"queue {queue}")
            yield members
        if begun:
            show.note(f"kvwal: {begun}")

    def check_has_items(self, members: ClusterMaps, queue: QueueName) -> None:
        """End the command if the queue has no item in the cluster: see `nothing_in`. Raises `ConfigError` as `existing`."""
        queues = ClusterReader(members)
        if str(queue) not in queues.names(queue.business):
            note_nothing_in(queues, queue)
            raise typer.Exit(ABSENT)

    def check_archived(self, store: kvwal.Store | ClusterMaps) -> None:
        """See `LogSelection.check_archived`. The nodes of a cluster archive by themselves."""
        folder = self.folder()
        if folder is not None and isinstance(store, kvwal.Store):
            folder.logs().check_archived(store)

    def nothing_in(self, queue: QueueName) -> typer.Exit:
        """Open the store for `note_nothing_in`. Returns the exit of the command."""
        with self.reader() as queues:
            note_nothing_in(queues, queue)
        return typer.Exit(ABSENT)


def note_nothing_in(queues: QueueReader, queue: QueueName) -> None:
    """Say on standard error that the queue has no item, and which queues of its business have some.

    If it has items that cannot be taken now, say how many are in flight and how many are delayed.
    """
    names = queues.names(queue.business)
    if str(queue) not in names:
        show.note(f"kvwal: {queue} has no item (queues with items in {queue.business}: {some(names, str(queue))}).")
        return
    numbers = queues.numbers(queue)
    of_each = [(numbers.in_flight, "in flight"), (numbers.delayed, "delayed")]
    told = " and ".join(f"{number:,} {what}" for number, what in of_each if number)
    show.note(f"kvwal: {queue} has no item that can be taken now{f' ({told})' if told else ''}.")
