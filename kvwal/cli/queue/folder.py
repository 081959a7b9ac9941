"""The queues of a folder: the argument ROOT, the store that is opened there, and its files for what only reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.begun import begun_in_folder
from kvwal.cli.options import Archive, Cluster, LogSelection, Namespace, Node
from kvwal.cli.queue.names import QueueName, name_of, names_of
from kvwal.cli.queue.reader import Listed, Numbers
from kvwal.cli.survey import lock_holder
from kvwal.entry import DataEntry
from kvwal.errors import ConfigError
from kvwal.key_class import structure_of
from kvwal.location.parse import ClusterLocation, FolderLocation, parse_location
from kvwal.log.files.names import find_places, log_folder, some
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.queue.deliveries import Delivery
from kvwal.structures.queue.figures import figures_of
from kvwal.structures.queue.options import QueueOptions
from kvwal_archive.objects import without_credentials

QueueRoot = Annotated[str, typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False)]


class FolderReader:
    """See `QueueReader`. Files are read, also while another process holds the store; items in flight are among the others."""

    def __init__(self, logs: LogSelection, store: ReadOnlyStore) -> None:
        self._logs = logs
        self._store = store

    def businesses(self) -> list[str]:
        """See `QueueReader.businesses`. Raises `ConfigError` if there is none."""
        return sorted({place.business for place in self._logs.logs()})

    def listed(self, business: str) -> list[Listed]:
        """See `QueueReader.listed`."""
        groups = groupby(self._read(business).queue_items(), lambda item: structure_of(item.key_class))
        return sorted((name_of(business, structure), figures_of(items)) for structure, items in groups)

    def names(self, business: str) -> list[str]:
        """See `QueueReader.names`."""
        return names_of(business, {structure_of(item.key_class) for item in self._read(business).queue_items()})

    def items(self, queue: QueueName, most: int | None = None) -> Iterator[DataEntry]:
        """See `QueueReader.items`."""
        return islice(self._read(queue.business).queue_items(queue.structure), most)

    def count(self, queue: QueueName) -> int:
        """See `QueueReader.count`."""
        return sum(1 for _ in self.items(queue))

    def knows(self, queue: QueueName) -> bool:
        """See `QueueReader.knows`. A queue is also there if it held an item."""
        return self._read(queue.business).knows_queue(queue.structure)

    def deliveries(self, queue: QueueName) -> Mapping[bytes, Delivery]:
        """See `QueueReader.deliveries`."""
        return self._read(queue.business).queue_deliveries(queue.structure)

    def numbers(self, queue: QueueName) -> Numbers:
        """See `QueueReader.numbers`. None is in flight if no process holds the store, else their number is not known here."""
        held = any(lock_holder(log_folder(self._logs.root, place)) for place in self._logs.places(queue.business))
        return Numbers(None if held else 0, self._delayed(queue))

    def options(self, queue: QueueName) -> QueueOptions:
        """See `QueueReader.options`."""
        return self._read(queue.business).queue_options(queue.structure)

    def _delayed(self, queue: QueueName) -> int:
        """The number of items that are not due yet."""
        now_ms = SYSTEM.wall_ms()
        due = {key for key, known in self.deliveries(queue).items() if known.due > now_ms}
        return sum(1 for item in self.items(queue) if item.key in due) if due else 0

    def _read(self, business: str) -> ReadOnlyBusiness:
        return self._store.read_business(business)


@dataclass(frozen=True)
class QueueFolder:
    """Bundle: the folder of a store, and the names that select a part of it."""

    location: QueueRoot
    namespace: Namespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    def logs(self) -> LogSelection:
        """The logs of the folder. Raises `ConfigError` for a cluster and for an archive."""
        location = parse_location(OS_DISK, self.location)
        if isinstance(location, FolderLocation):
            return LogSelection(location.root, self.namespace, self.cluster, self.node, self.archive)
        is_cluster = isinstance(location, ClusterLocation)
        raise ConfigError(
            f"{without_credentials(self.location)} is {'a cluster' if is_cluster else 'an archive'}, and this command needs the"
            " folder of a store.",
            hint="Name a folder. Then pipe `kvwal queue take` into `kvwal queue put … -`."
            if is_cluster
            else "Name the folder of the store.",
        )

    @contextmanager
    def files(self) -> Iterator[ReadOnlyStore]:
        """Open the store for reading its files, also while another process holds it."""
        with self.logs().open(read_only=True) as store:
            assert isinstance(store, ReadOnlyStore)
            yield store

    @contextmanager
    def reader(self) -> Iterator[FolderReader]:
        """As `files`, its queues."""
        with self.files() as store:
            yield FolderReader(self.logs(), store)

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
