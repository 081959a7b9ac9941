"""Businesses that are only read: no lock, no recovery, the logs of all nodes merged. Another process may be writing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

from kvwal.codecs import Codecs, registry
from kvwal.config import TRANSACTION_BYTES
from kvwal.content.files import ContentFiles
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError
from kvwal.history.feeds.feeds import FilesFeed
from kvwal.history.feeds.lost_tails import warn_of
from kvwal.history.provenance.reader import LogEvents
from kvwal.history.reads.merged_scan import live_in_order
from kvwal.history.reads.range_reader import latest_blocks, live_entries, page_ends
from kvwal.history.reads.stable_read import read_settled
from kvwal.history.reads.structure_rows import is_selected, selected_ranges
from kvwal.history.reads.tail_reader import Identity, has_entries, latest_of, merged_entries, note_keys
from kvwal.history.reads.timeline import Timeline
from kvwal.key_class import CONTENT, OWN_MAP, end_of_kind, is_of_map, kind_of, structure_of
from kvwal.log.files.retired import retired_places
from kvwal.log.submission import Submission
from kvwal.log.unlocked.known import KnownSegments
from kvwal.sql.source import FileSource
from kvwal.store.absent import no_such_log
from kvwal.store.contents.sources import StoredSource, source_of_logs
from kvwal.store.options import Options
from kvwal.store.reading.business_reader import BusinessReader, WantedIdentity, in_direction, range_after
from kvwal.structures.guards import guards_alone
from kvwal.structures.map.lazy_memory import LazyMemory
from kvwal.structures.map.state import MapState, after_prefix, to_state
from kvwal.structures.map.view import KeyBounds
from kvwal.structures.memory import STRUCTURES, StructureState
from kvwal.structures.queue.deliveries import Delivery, delivery_of
from kvwal.structures.queue.options import QueueOptions, check_readable, options_of
from kvwal.structures.queue.positions import (
    delivery_class,
    is_delivery,
    is_of_any_queue,
    is_of_queue,
    is_options,
    options_class,
    range_of,
    range_of_items,
    range_of_queue,
)
from kvwal.structures.watch import Start, of_structure
from kvwal.values.moved import FileValue
from kvwal.values.reader import StoredCodecs, StoredValues
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.objects import Decoded, Objects, open_objects
from kvwal_archive.parquet.key_ranges import KeyRange

T = TypeVar("T")


class ReadOnlyBusiness(BusinessReader):
    """A business as its files are: its memory shows the moment at which it was first used."""

    def __init__(self, name: str, options: Options, known: KnownSegments, decoded: Decoded) -> None:
        """`known` and `decoded` are those of the store. Raises `ConfigError`, which lists the known names, if there is no such
        business.
        """
        self.name = name
        self.value_bytes = self.transaction_bytes = TRANSACTION_BYTES
        self.inline_bytes = sys.maxsize
        self._options = options
        self._known = known
        self._decoded = decoded
        self._values = StoredValues(name, lambda: self.content_source)
        self.codecs: Codecs = StoredCodecs(registry, self._values)
        self._events = LogEvents(options.disk, options.root, self._find, known)
        self.state = LazyMemory(self._load)
        """The memory, loaded from the files at its first use. `find`, `history`, `as_of` and `feed` do not use it."""
        self._find()

    def _load(self) -> MapState:
        disk, root = self._options.disk, self._options.root
        return to_state(self._read(lambda places: merged_entries(disk, root, places)).values(), self.now_ms)

    def state_of(self, structure: str) -> StructureState:
        """See `structures.business.LocalBusiness.state_of`. The files are read now."""
        disk, root = self._options.disk, self._options.root
        merged = self._read(lambda places: merged_entries(disk, root, places, structure))
        state = STRUCTURES.get(kind_of(structure), MapState)(guards_alone(self.now_ms))
        state.apply([merged[identity] for identity in sorted(merged)])
        return state

    def structures_of(self, kind: str) -> list[str]:
        """See `structures.business.LocalBusiness.structures_of`. All entries of the kind are read, and none is kept."""
        found = self._between((kind + "/", b""), (kind + ";", b""), lambda name: kind_of(structure_of(name)) == kind)
        return sorted({structure_of(entry.key_class) for entry in found})

    def content_structures(self) -> list[str]:
        """See `BusinessReader.content_structures`."""
        return self.structures_of(CONTENT)

    @property
    def content_source(self) -> StoredSource:
        """See `BusinessReader.content_source`."""
        options = self._options
        return source_of_logs(options, self.name, self._find, lambda: _open_archive(options))

    def content_files(self) -> ContentFiles:
        """Raise `ConfigError`: nothing is written here."""
        raise _refusal()

    refuses_writes = False
    makes_events = True

    def events(self) -> LogEvents:
        """See `structures.business.LocalBusiness.events`."""
        return self._events

    def elapsed(self) -> float:
        """See `structures.business.LocalBusiness.elapsed`."""
        return self._options.clock.elapsed()

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """See `structures.business.LocalBusiness.call_after`: nothing is written here, so nobody waits."""

    def subscribe(self, wake: Callable[[], None]) -> None:
        """See `structures.business.LocalBusiness.subscribe`: nothing is written here."""

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """See `BusinessReader.find`. No other entry is loaded."""
        disk, root = self._options.disk, self._options.root
        entry = self._read(lambda places: latest_of(disk, root, places, (key_class, key), self.now_ms(), self._known))
        return None if entry is None else self._values.public(entry)

    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.entries`. Memory stays bounded, with temporary files; with a prefix see `between`."""
        if prefix is not None:
            return self.within(KeyBounds("str", prefix.encode(), after_prefix(prefix.encode())))
        found = live_in_order(self._options.disk, self._options.root, self._find, self.now_ms())
        return map(self._values.public, found)

    def select(self, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `BusinessReader.select`."""
        found = live_in_order(self._options.disk, self._options.root, self._find, self.now_ms())
        return (self._values.public(entry) for entry in found if wanted(entry.key, entry.key_class))

    def count(self) -> int:
        """See `BusinessReader.count`."""
        return sum(1 for _ in live_in_order(self._options.disk, self._options.root, self._find, self.now_ms()))

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.within`, and `between`."""
        span = bounds.identities()
        return in_direction(self.entries() if span is None else self.between(*span), reverse, limit)

    def page(self, bounds: KeyBounds, after: Identity | None, limit: int) -> list[DataEntry]:
        """See `BusinessReader.page`. Of the files not much more is read than the page has."""
        low, high = range_after(bounds, after)
        found: list[DataEntry] = []
        while low < high and len(found) < limit:
            entries, low = self._first_of_map(low, high, limit - len(found))
            found += entries
        return found

    def _first_of_map(self, low: Identity, high: Identity, most: int) -> tuple[list[DataEntry], Identity]:
        """The first entries of the map from `low` on, and the identity to go on from: entries of other structures are passed."""
        disk, root = self._options.disk, self._options.root
        logs = self._read(lambda places: [note_keys(disk, root, place, self._known) for place in places])
        for end in page_ends(logs, low, high):
            entries: list[DataEntry] = []
            for entry in self._between(low, end, lambda key_class: True):
                if not is_of_map(entry.key_class):
                    return entries, end_of_kind(entry.key_class)
                entries.append(self._values.public(entry))
                if len(entries) == most:
                    return entries, high
        return entries, high

    def queue_items(self, structure: str | None = None) -> Iterator[DataEntry]:
        """The items of a queue, in order, those in flight among them; without `structure` those of all queues, queue by queue.

        Nothing else is read of a snapshot: see `between`.
        """
        return self.between(*range_of_items(structure), is_of_queue)

    def of_structure(self, structure: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.of_structure`, and `between`. The log is read once, also for several ranges."""
        wanted = selected_ranges(structure) if ranges is None else ranges
        if not wanted:
            return iter(())
        found = self.between(wanted[0].low, wanted[-1].high, partial(is_selected, structure=structure))
        return (e for e in found if any(each.low <= (e.key_class, e.key) < each.high for each in wanted))

    def queue_options(self, structure: str) -> QueueOptions:
        """The options of a queue. Nothing else is read of a snapshot."""
        found = self.between(*range_of(options_class(structure)), is_options)
        return check_readable(options_of(next(found, None)), f"{self.name}/{structure}")

    def queue_deliveries(self, structure: str) -> dict[bytes, Delivery]:
        """What is known of the deliveries of a queue's items, by their keys. Nothing else is read of a snapshot."""
        found = self.between(*range_of(delivery_class(structure)), is_delivery)
        return {entry.key: delivery_of(entry) for entry in found}

    def queue_due(self, structure: str) -> int | None:
        """When an item of a queue can be taken (unix ms): 0 if one can be now, None if there is none."""
        known, now_ms = self.queue_deliveries(structure), self.now_ms()
        due: int | None = None
        for item in self.queue_items(structure):
            of_item = known[item.key].due if item.key in known else 0
            if of_item <= now_ms:
                return 0
            due = of_item if due is None else min(due, of_item)
        return due

    def knows_queue(self, structure: str) -> bool:
        """Whether the logs have an entry of this queue: an item, its options, or a delete that is not compacted yet."""
        return self._read(lambda places: any(True for _ in self._queue_entries(places, structure)))

    def queues(self) -> set[str]:
        """The structures of the queues that the logs know: see `knows_queue`. All entries of queues are read."""
        return self._read(lambda places: {structure_of(entry.key_class) for entry in self._queue_entries(places)})

    def _queue_entries(self, places: Sequence[Place], structure: str | None = None) -> Iterator[Entry]:
        options = self._options
        shows = is_of_any_queue if structure is None else of_structure(structure)
        blocks = latest_blocks(options.disk, options.root, places, *range_of_queue(structure), shows, self._known)
        return chain.from_iterable(blocks)

    def between(self, low: Identity, high: Identity, shows: Callable[[str], bool] = is_of_map) -> Iterator[DataEntry]:
        """The latest entries with identities from `low` to before `high`, sorted. Of a snapshot only that range is read.

        `shows` says of a key class whether its entries are wanted.

        They are of one moment: see `kvwal.history.reads.range_reader.live_entries`. The range of a single log is read while it is
        iterated. That of several logs is in memory, because one of them may be merged into another one meanwhile.
        """
        return map(self._values.public, self._between(low, high, shows))

    def _between(self, low: Identity, high: Identity, shows: Callable[[str], bool]) -> Iterator[Entry]:
        options = self._options
        disk, root, now_ms = options.disk, options.root, self.now_ms()

        def read(places: Sequence[Place]) -> Iterator[Entry]:
            return live_entries(disk, root, places, low, high, now_ms, shows, self._known)

        places = self._find()
        entries = read(places) if len(places) == 1 else iter(self._read(lambda places: list(read(places))))
        with options.reaching():
            yield from entries

    @property
    def nodes(self) -> list[str]:
        """The nodes whose logs are read."""
        return sorted(place.node for place in self._find())

    def has_entries(self, node: str) -> bool:
        """Whether one of `nodes` has written anything. Its log is there as soon as it is opened."""
        options = self._options
        return any(has_entries(options.disk, options.root, place) for place in self._find() if place.node == node)

    def now_ms(self) -> int:
        """The wall clock: a reader has no log of its own."""
        return self._options.clock.wall_ms()

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """Raise `ConfigError`: nothing is written here."""
        raise _refusal()

    def value_of_file(self, path: Path) -> FileValue:
        """Raise `ConfigError`: nothing is written here."""
        raise _refusal()

    def offer(self, submission: Submission) -> bool:
        """Raise `ConfigError`: nothing is written here."""
        raise _refusal()

    async def submit_soon(self, submission: Submission) -> None:
        """Raise `ConfigError`: nothing is written here."""
        raise _refusal()

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `structures.business.Business.history`."""
        entries, tails = self._read(lambda places: _history(self._timeline(places), key_class, key))
        warn_of(tails)
        return list(self._values.entries(entries))

    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> MapState:
        """See `BusinessReader.as_of`. Of the archive the row groups are read that may have such keys."""
        return self._read(lambda places: self._timeline(places).as_of(timestamp, structure, within))

    def feed(self, start: Start) -> FilesFeed:
        """See `structures.business.Business.feed`. Other processes may be writing: their files are looked at again and again."""
        options = self._options
        return FilesFeed(
            options.disk, options.root, options.clock, self._find, lambda: _open_archive(options), start,
            all_nodes=options.named_node is None,
        )  # fmt: skip

    def _timeline(self, places: Sequence[Place]) -> Timeline:
        options = self._options
        objects = _open_archive(options, self._decoded)
        all_nodes = options.named_node is None
        return Timeline(options.disk, options.root, places, objects, all_nodes=all_nodes, known=self._known)

    def _find(self) -> list[Place]:
        """The logs to read, those of destroyed maps if there is no other."""
        name, options = self.name, self._options
        places = options.places(name) or _retired_places(name, options)
        if not places:
            raise _not_there(name, options)
        return places

    def _read(self, read: Callable[[Sequence[Place]], T]) -> T:
        options = self._options
        return options.reach(lambda: read_settled(options.disk, options.root, self._find, read))


def _history(timeline: Timeline, key_class: str, key: bytes) -> tuple[list[DataEntry], list[LostTail]]:
    return timeline.history(key_class, key), timeline.lost_tails()


def _open_archive(options: Options, decoded: Decoded | None = None) -> Objects | None:
    """The archive of a store; None if it has none."""
    return None if options.archive_url is None else open_objects(options.archive_url, options.storage_options, decoded)


def source_of_files(options: Options, node: str | None) -> FileSource:
    """The logs of one node, or of all, as SQL reads them."""

    def find(business: str) -> list[Place]:
        return [place for place in options.places(business) if node in (None, place.node)]

    def names() -> list[str]:
        closed: set[str] = set()
        places = options.places(closed=closed)
        return sorted({place.business for place in places if node in (None, place.node)} | closed)

    def values(business: str) -> StoredValues:
        return StoredValues(
            business, lambda: source_of_logs(options, business, lambda: find(business), lambda: _open_archive(options))
        )

    return FileSource(
        options.disk, options.root, names, find, lambda: _open_archive(options), options.clock.wall_ms(), values
    )


def _refusal() -> ConfigError:
    return ConfigError("the store was opened with read_only=True; nothing was written.", hint="Open it for writing.")


def _retired_places(name: str, options: Options) -> list[Place]:
    """The places of the retired logs of a destroyed map, whose history is in the archive."""
    places = options.reach(lambda: retired_places(options.disk, options.root, options.namespace, options.cluster))
    return [place for place in places if place.business == name and options.named_node in (None, place.node)]


def _not_there(name: str, options: Options) -> ConfigError:
    find = partial(no_such_log, options.disk, options.root, namespace=options.namespace, cluster=options.cluster)
    return options.reach(lambda: find(business=name, node=options.named_node))
