"""Businesses that are only read: no lock, no recovery, the logs of all nodes merged. Another process may be writing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from archive.layout import Place
from archive.objects import open_objects
from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import DataEntry
from kvwal.errors import ConfigError
from kvwal.history.range_reader import live_entries
from kvwal.history.tail_reader import Identity, Uncounted, latest_of, merged_entries, read_log
from kvwal.history.timeline import Timeline
from kvwal.log.files.names import find_places
from kvwal.log.files.retired import retired_places
from kvwal.log.ring import Submission
from kvwal.ports.space import space_stats
from kvwal.store.options import Options
from kvwal.structures.state import State, after_prefix, to_state


class ReadOnlyBusiness:
    """A business as its files were when this object was made."""

    def __init__(self, name: str, places: list[Place], options: Options) -> None:
        self.name = name
        self.codecs = registry
        self.overflow_bytes = Settings().overflow_bytes
        self._places = places
        self._options = options

    @cached_property
    def state(self) -> State:
        """The memory, loaded from the files at first use. `find` and `history` do not load it."""
        options = self._options
        return to_state(merged_entries(options.disk, options.root, self._places).values(), self.now_ms)

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """The latest entry of one key, None if it is absent. No other entry is loaded."""
        entry = latest_of(self._options.disk, self._options.root, self._places, (key_class, key), self.now_ms())
        return None if entry is None else entry.public()

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """The latest entries with identities from `low` to before `high`, sorted. Of a snapshot only that range is read.

        See `kvwal.history.range_reader.live_entries`.
        """
        options = self._options
        entries = live_entries(options.disk, options.root, self._places, low, high, self.now_ms())
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
        return sorted(place.node for place in self._places)

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
        return self._timeline().history(key_class, key)

    def as_of(self, timestamp: int) -> State:
        """See `structures.business.Business.as_of`."""
        return self._timeline().as_of(timestamp)

    def _timeline(self) -> Timeline:
        options = self._options
        objects = None
        if options.archive_url is not None:
            objects = open_objects(options.archive_url, options.storage_options)
        all_nodes = options.named_node is None
        return Timeline(options.disk, options.root, self._places, objects, all_nodes=all_nodes)


def _refusal() -> ConfigError:
    return ConfigError("the store was opened with read_only=True; nothing was written.", hint="Open it for writing.")


def open_read_only(name: str, options: Options) -> ReadOnlyBusiness:
    """The business `name`, read from the named node, or from all. Raises `ConfigError`, which lists the known names."""
    places = [place for place in options.places() if place.business == name] or _retired_places(name, options)
    if not places:
        raise _not_there(name, options)
    return ReadOnlyBusiness(name, places, options)


def _retired_places(name: str, options: Options) -> list[Place]:
    """The places of the retired logs of a destroyed map, whose history is in the archive."""
    places = options.reach(lambda: retired_places(options.disk, options.root, options.namespace, options.cluster))
    return [place for place in places if place.business == name and options.named_node in (None, place.node)]


def _not_there(name: str, options: Options) -> ConfigError:
    places = options.reach(lambda: find_places(options.disk, options.root, options.namespace, options.cluster))
    nodes = sorted(place.node for place in places if place.business == name)
    if nodes:
        return ConfigError(
            f"{options.root}: {name} has no node {options.named_node!r} (there are: {', '.join(nodes)}).",
            hint="Name one of them with node=… (--node), or none, to read all of them merged.",
        )
    there = ", ".join(sorted({place.business for place in places})) or "none"
    return ConfigError(
        f"{options.root}: {options.namespace}/{options.cluster} has no business {name!r} (there are: {there}).",
        hint="Check the name, --namespace and --cluster.",
    )


def read_only_stats(options: Options) -> dict[str, Any]:
    """Numbers about a store that can be read without its locks."""
    businesses: dict[str, dict[str, Any]] = {}
    for place in options.places():
        tail = read_log(options.disk, options.root, place, Uncounted)
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
    }
