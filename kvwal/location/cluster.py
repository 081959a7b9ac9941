"""A cluster as a location: its maps are the businesses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kvwal.client.wire import Encoded
from kvwal.cluster.map_names import to_business, to_map
from kvwal.codecs import registry
from kvwal.entry import DataEntry, Entry
from kvwal.errors import ConfigError
from kvwal.history.range_reader import common_part
from kvwal.history.wanted import KeySpan
from kvwal.location.readers import WantedIdentity, in_direction
from kvwal.log.files.names import some
from kvwal.ports.clock import SYSTEM
from kvwal.structures.map.reads import MapReads
from kvwal.structures.map.state import to_state
from kvwal.structures.map.view import KeyBounds

if TYPE_CHECKING:
    from kvwal.client.store import ClusterMap, ClusterStore

_MOST_KEYS = 32
"""Keys that the logs are asked for one by one. For more of them a member reads entries in a row."""


_MOST_SPANS = 16
"""Spans of keys that members are asked for one by one. Each member looks at all of its keys for each."""


class ClusterWriter:
    """The maps of a cluster by the names of their businesses. See `Writer`."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store

    def map(self, name: str, /) -> ClusterMap:
        """See `Writer.map`."""
        return self._store.map(to_map(name))

    def businesses(self) -> list[str]:
        """See `Writer.businesses`."""
        return sorted(to_business(name) for name in self._store.maps())

    def existing(self, name: str) -> ClusterMap:
        """The map of a business. Raises `ConfigError` if the cluster has none, because Hazelcast would make it."""
        there = self.businesses()
        if name not in there:
            raise ConfigError(
                f"the cluster {self._store.cluster} has no map {name!r} (there are: {some(there, name)}).",
                hint="Check the name and the address.",
            )
        return self.map(name)


class ClusterReader:
    """The maps of a cluster as it serves them. See `Reader`.

    Keys and values come from the members' memory, and timestamps, expiries and history from their logs and the archive.
    """

    def __init__(self, store: ClusterStore) -> None:
        self._store = store
        self._maps = ClusterWriter(store)

    def map(self, name: str, /) -> MapReads:
        """See `Reader.map`. The whole map is transferred, some entries at a time."""
        stored = (Entry(e.key, e.key_class, e.value, e.value_class, False, 0) for e in self.scan(name))
        return MapReads(to_state(stored, SYSTEM.wall_ms), registry)

    def at(self, business: str, timestamp: int) -> MapReads:
        """See `Reader.at`. The whole map is transferred, some megabytes at a time."""
        return self._maps.existing(business).at(timestamp)

    def businesses(self) -> list[str]:
        """See `Reader.businesses`."""
        return self._maps.businesses()

    def lookup(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.lookup`."""
        return self._maps.existing(business).entry(key)

    def find(self, business: str, key: Any) -> DataEntry | None:
        """See `Reader.find`. A member reads archive and logs for it."""
        jobs = self._maps.existing(business)
        identity = jobs.identity(key)
        return None if identity is None else jobs.logged_entry(*identity)

    def scan(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.scan`."""
        return self._maps.existing(business).entries(prefix)

    def entries(self, business: str, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `Reader.entries`."""
        return self._maps.existing(business).logged_entries(prefix)

    def scan_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.scan_within`. The keys are sent, and then values of those within the bounds, up to the limit."""
        return self._maps.existing(business).within(bounds, reverse=reverse, limit=limit)

    def entries_within(
        self, business: str, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None
    ) -> Iterator[DataEntry]:
        """See `Reader.entries_within`. A member sends all entries whose text keys begin as both bounds do, or all."""
        low_class, low, high = bounds
        common = None if low_class != "str" or high is None else common_part(("str", low), ("str", high))
        text = None if common is None else common.decode(errors="ignore")  # a letter may be cut
        entries = self._maps.existing(business).logged_entries(text or None)
        within = (entry for entry in entries if bounds.has(entry.key_class, entry.key))
        return in_direction(within, reverse, limit)

    def select(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.select`. The logs are asked for each key; or, if many are wanted, for what begins as all of them do."""
        jobs = self._maps.existing(business)
        chosen = [key for key in jobs.identities() if wanted(key.data, key.class_name)]
        if len(chosen) > _MOST_KEYS:
            entries = jobs.logged_entries(_common_text(chosen))
            yield from (entry for entry in entries if wanted(entry.key, entry.key_class))
            return
        for key in chosen:
            entry = jobs.logged_entry(key.class_name, key.data)
            if entry is not None:
                yield entry

    def scan_wanted(self, business: str, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `Reader.scan_wanted`. The keys are sent, and then the values of these keys."""
        jobs = self._maps.existing(business)
        return jobs.entries_of([key for key in jobs.identities() if wanted(key.data, key.class_name)])

    def scan_spans(self, business: str, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `Reader.scan_spans`. Single keys are asked for as they are; members select other keys by their beginning."""
        jobs = self._maps.existing(business)
        if all(high == low + b"\0" for low, high in spans):
            yield from jobs.entries_of([Encoded(low, "str") for low, _ in spans])
            return
        for asked in [[span] for span in spans] if len(spans) <= _MOST_SPANS else [spans]:
            common = common_part(("str", asked[0][0]), ("str", asked[-1][1])) or b""
            keys = jobs.identities(common.decode(errors="ignore"))  # a letter may be cut
            yield from jobs.entries_of([key for key in keys if key.class_name == "str" and _is_within(key.data, asked)])

    def history(self, business: str, key: Any) -> list[DataEntry]:
        """See `Reader.history`."""
        return self._maps.existing(business).history(key)

    def sizes(self) -> dict[str, int | None]:
        """See `Reader.sizes`. They are not known."""
        return dict.fromkeys(self.businesses())

    def count(self, business: str) -> int:
        """See `Reader.count`."""
        return len(self._maps.existing(business))

    def stats(self) -> dict[str, Any]:
        """See `Reader.stats`: the members of the cluster, and the number of entries of each business."""
        return {
            "cluster": self._store.cluster,
            "namespace": self._store.namespace,
            "members": {member.node: member.address for member in self._store.members()},
            "businesses": {name: {"entries": len(self._maps.map(name))} for name in self.businesses()},
        }


def _is_within(key: bytes, spans: Sequence[KeySpan]) -> bool:
    at = bisect_right(spans, key, key=itemgetter(0)) - 1
    return at >= 0 and key < spans[at][1]


def _common_text(keys: Sequence[Encoded]) -> str | None:
    """The text with which all of these keys begin; None if there is none, or if one of them is no text."""
    identities = [(key.class_name, key.data) for key in keys]
    first, last = min(identities), max(identities)
    common = common_part(first, last) if first[0] == "str" else None
    return None if common is None else common.decode(errors="ignore")  # a letter may be cut
