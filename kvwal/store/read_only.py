"""Businesses that are only read: no lock, no recovery, the logs of all nodes merged. Another process may be writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import DataEntry
from kvwal.errors import ConfigError
from kvwal.history.feed.feeds import FilesFeed
from kvwal.history.feed.lost_tails import warn_of
from kvwal.history.merged import live_in_order, log_size
from kvwal.history.moving import read_settled
from kvwal.history.range_reader import live_entries
from kvwal.history.tail_reader import Identity, Uncounted, latest_of, merged_entries, read_log
from kvwal.history.timeline import Timeline
from kvwal.log.files.retired import retired_places
from kvwal.log.submission import Submission
from kvwal.ports.space import space_stats
from kvwal.sql.source import FileSource
from kvwal.store.absent import no_such_log
from kvwal.store.options import Options
from kvwal.structures.map.lazy_memory import LazyMemory
from kvwal.structures.map.state import MapState, after_prefix, to_state
from kvwal.structures.watch import Start
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.objects import Objects, open_objects

T = TypeVar("T")


class ReadOnlyBusiness:
    """A business as its files are: its memory shows the moment at which it was first used."""

    def __init__(self, name: str, options: Options) -> None:
        """Raises `ConfigError`, which lists the known names, if there is no such business."""
        self.name = name
        self.codecs = registry
        self.overflow_bytes = Settings().overflow_bytes
        self._options = options
        self.state = LazyMemory(self._load)
        """The memory, loaded from the files at its first use. `find`, `history`, `as_of` and `feed` do not use it."""
        self._find()

    def _load(self) -> MapState:
        options = self._options
        entries = options.reach(lambda: self._read(lambda places: merged_entries(options.disk, options.root, places)))
        return to_state(entries.values(), self.now_ms)

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """The latest entry of one key, None if it is absent. No other entry is loaded."""
        disk, root = self._options.disk, self._options.root
        entry = self._read(lambda places: latest_of(disk, root, places, (key_class, key), self.now_ms()))
        return None if entry is None else entry.public()

    def in_order(self) -> Iterator[DataEntry]:
        """Live entries in the order of identity, read with bounded memory and temporary files."""
        for entry in live_in_order(self._options.disk, self._options.root, self._find, self.now_ms()):
            yield entry.public()

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """The latest entries with identities from `low` to before `high`, sorted. Of a snapshot only that range is read.

        They are of one moment: see `kvwal.history.range_reader.live_entries`. The range of a single log is read while it is
        iterated. That of several logs is in memory, because one of them may be merged into another one meanwhile.
        """
        options = self._options
        disk, root, now_ms = options.disk, options.root, self.now_ms()
        if len(places := self._find()) == 1:
            entries = live_entries(disk, root, places, low, high, now_ms)
        else:
            entries = iter(self._read(lambda places: list(live_entries(disk, root, places, low, high, now_ms))))
        while (entry := options.reach(lambda: next(entries, None))) is not None:
            yield entry.public()

    def entries(self, prefix: str | bytes) -> Iterator[DataEntry]:
        """The latest entries whose str (or bytes) key begins with `prefix`, sorted: see `between`."""
        start, key_class = self.codecs.encode_key(prefix)
        stop = after_prefix(start)
        return self.between((key_class, start), (key_class, stop) if stop is not None else (key_class + "\0", b""))

    @property
    def nodes(self) -> list[str]:
        """The nodes whose logs are read."""
        return sorted(place.node for place in self._find())

    def now_ms(self) -> int:
        """The wall clock: a reader has no log of its own."""
        return self._options.clock.wall_ms()

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
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
        return entries

    def as_of(self, timestamp: int) -> MapState:
        """See `structures.business.Business.as_of`."""
        return self._read(lambda places: self._timeline(places).as_of(timestamp))

    def feed(self, start: Start) -> FilesFeed:
        """See `structures.business.Business.feed`. Other processes may be writing: their files are looked at again and again."""
        options = self._options
        return FilesFeed(
            options.disk, options.root, options.clock, self._find, lambda: _open_archive(options), start,
            all_nodes=options.named_node is None,
        )  # fmt: skip

    def _timeline(self, places: Sequence[Place]) -> Timeline:
        options = self._options
        objects = _open_archive(options)
        all_nodes = options.named_node is None
        return Timeline(options.disk, options.root, places, objects, all_nodes=all_nodes)

    def _find(self) -> list[Place]:
        """The logs to read, those of destroyed maps if there is no other."""
        name, options = self.name, self._options
        places = options.places(name) or _retired_places(name, options)
        if not places:
            raise _not_there(name, options)
        return places

    def _read(self, read: Callable[[Sequence[Place]], T]) -> T:
        return read_settled(self._options.disk, self._options.root, self._find, read)


def _history(timeline: Timeline, key_class: str, key: bytes) -> tuple[list[DataEntry], list[LostTail]]:
    return timeline.history(key_class, key), timeline.lost_tails()


def _open_archive(options: Options) -> Objects | None:
    """The archive of a store; None if it has none."""
    return None if options.archive_url is None else open_objects(options.archive_url, options.storage_options)


def source_of_files(options: Options, node: str | None) -> FileSource:
    """The logs of one node, or of all, as SQL reads them."""

    def find(business: str) -> list[Place]:
        return [place for place in options.places(business) if node in (None, place.node)]

    def names() -> list[str]:
        closed: set[str] = set()
        places = options.places(closed=closed)
        return sorted({place.business for place in places if node in (None, place.node)} | closed)

    return FileSource(options.disk, options.root, names, find, lambda: _open_archive(options), options.clock.wall_ms())


def _refusal() -> ConfigError:
    return ConfigError("the store was opened with read_only=True; nothing was written.", hint="Open it for writing.")


def _retired_places(name: str, options: Options) -> list[Place]:
    """The places of the retired logs of a destroyed map, whose history is in the archive."""
    places = options.reach(lambda: retired_places(options.disk, options.root, options.namespace, options.cluster))
    return [place for place in places if place.business == name and options.named_node in (None, place.node)]


def _not_there(name: str, options: Options) -> ConfigError:
    return options.reach(
        lambda: no_such_log(
            options.disk, options.root, namespace=options.namespace, cluster=options.cluster, business=name,
            node=options.named_node,
        )
    )  # fmt: skip


def sizes_of_files(options: Options) -> dict[str, int | None]:
    """The bytes of the files of each business, by its name; None for a business whose folder this user may not read."""
    closed: set[str] = set()
    sizes: dict[str, int] = {}
    for place in options.places(closed=closed):
        of_node = options.reach(partial(log_size, options.disk, options.root, place))
        sizes[place.business] = sizes.get(place.business, 0) + of_node
    return dict(sorted({**sizes, **dict.fromkeys(closed)}.items()))


def read_only_stats(options: Options) -> dict[str, Any]:
    """Numbers about a store that can be read without its locks. `unreadable` are the logs that this user may not read."""
    businesses: dict[str, dict[str, Any]] = {}
    closed: set[str] = set()
    unreadable: dict[str, str] = {}
    for place in options.places(closed=closed):
        try:
            tail = read_log(options.disk, options.root, place, Uncounted)
        except PermissionError as error:
            unreadable[place.business] = f"{error.filename}: {error.strerror}"
            continue
        businesses.setdefault(place.business, {})[place.node] = {
            "last_sequence": tail.following - 1,
            "snapshot_sequence": tail.snapshot.last_sequence if tail.snapshot else 0,
            "log_entries": tail.following - tail.first,
            "torn": tail.torn,
        }
    return {
        "root": str(options.root),
        "namespace": options.namespace,
        "cluster": options.cluster,
        "archive": options.archive_url,
        "disk": space_stats(options.disk, options.root, options.settings.reserve_bytes),
        "businesses": businesses,
        "unreadable": unreadable | dict.fromkeys(closed, "its folder may not be read"),
    }
