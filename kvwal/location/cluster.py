"""A cluster as a location: its maps are the businesses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from kvwal.client.history.all_changes import all_changes
from kvwal.client.wire import Encoded
from kvwal.cluster.figures.messages import MemberFigures
from kvwal.cluster.map_names import to_business, to_map
from kvwal.cluster.requests import NOW, Page
from kvwal.entry import TIMESTAMP_SHIFT, DataEntry, Entry, is_live
from kvwal.errors import ConfigError
from kvwal.history.reads.entry_rows import to_table
from kvwal.history.reads.key_scan import KeySpan
from kvwal.history.reads.range_reader import common_part
from kvwal.history.reads.structure_rows import is_selected
from kvwal.key_class import CONTENT, OWN_MAP
from kvwal.location.readers import MemoryReader
from kvwal.location.sql_source import LocationSource
from kvwal.log.files.names import some
from kvwal.ports.disk import OS_DISK
from kvwal.sql.rows import HISTORY
from kvwal.store.contents.sources import StoredSource
from kvwal.store.reading.business_reader import BusinessReader, WantedIdentity, in_direction
from kvwal.structures.business import Memory
from kvwal.structures.map.state import to_state
from kvwal.structures.map.view import KeyBounds
from kvwal_archive.merge import all_rows
from kvwal_archive.parquet.key_ranges import KeyRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kvwal.client.contents.content import ClusterContents
    from kvwal.client.queues.structures import ClusterStructures
    from kvwal.client.store import ClusterMap, ClusterStore

_MOST_KEYS = 32
"""Most keys for point reads. For more a member scans a range."""
_MOST_SPANS = 16
"""Most spans that are asked for one by one: each costs a scan of all keys on every member."""


class ClusterMaps:
    """The maps of a cluster by the names of their businesses. See `LocationReader` and `LocationWriter`."""

    def __init__(self, store: ClusterStore) -> None:
        self._store = store

    def map(self, name: str, /) -> ClusterMap:
        """See `LocationWriter.map`."""
        return self._store.map(to_map(name))

    def business(self, name: str, /) -> ClusterStructures:
        """The maps, queues and contents of a business. A business that does not exist begins with its first entry."""
        return self._store.business(to_map(name))

    def content(self, name: str, /) -> ClusterContents:
        """The contents of a business."""
        return self.business(name).content()

    def businesses(self) -> list[str]:
        """See `LocationReader.businesses`."""
        return sorted(to_business(name) for name in self._store.maps())

    def check_there(self, name: str) -> None:
        """Raise `ConfigError` if the cluster has no map of this business, because Hazelcast would make it."""
        there = self.businesses()
        if name not in there:
            raise ConfigError(
                f"the cluster {self._store.cluster} has no map {name!r} (there are: {some(there, name)}).",
                hint="Check the name and the address.",
            )

    def read_business(self, name: str, *, logged: bool = False) -> BusinessReader:
        """See `LocationReader.read_business`. Without `logged` members answer from memory, with it from logs and archive."""
        self.check_there(name)
        structures = self._store.business(to_map(name))
        return _InLogs(structures) if logged else _InMemory(structures)

    def sizes(self) -> dict[str, int | None]:
        """See `LocationReader.sizes`. They are not known."""
        return dict.fromkeys(self.businesses())

    def source(self, statement: str = "") -> LocationSource:
        """See `LocationReader.source`. There is no table of the changes of a business's own map: they are in many logs."""
        return LocationSource(self, statement, self._changes, has_changes=False)

    def stats(self) -> dict[str, Any]:
        """See `LocationReader.stats`: the members of the cluster, and the number of entries of each business."""
        return {
            "cluster": self._store.cluster,
            "namespace": self._store.namespace,
            "members": {member.node: member.address for member in self._store.members()},
            "businesses": {name: {"entries": len(self.map(name))} for name in self.businesses()},
        }

    def figures(self, within: float) -> list[MemberFigures]:
        """The figures of each member: see `ClusterStore.figures`."""
        return self._store.figures(within)

    def _changes(self, business: str, structure: str) -> pa.Table:
        """The changes of a structure beside the own map. Raises `ConfigError` for those of the own map."""
        if structure == OWN_MAP:
            raise ConfigError(
                f"{self._store.address}: a cluster gives no table of all changes ({business}{HISTORY}).",
                hint="Query the archive of the cluster for them, or see one key with `kvwal history`.",
            )
        log = self._store.log_of(to_map(business))
        rows: dict[str, list[tuple[int, Entry]]] = {}
        for node, sequence, entry in all_changes(log.changes(structure), log.label, log.timeout):
            rows.setdefault(node, []).append((sequence, entry))
        return all_rows([(node, to_table(numbered)) for node, numbered in rows.items()])


class _InMemory(MemoryReader):
    """A business as the members have it in memory. The past comes from their logs and the archive."""

    def __init__(self, structures: ClusterStructures) -> None:
        super().__init__(structures.business.state)
        self._structures = structures
        self._business = structures.business

    def select(self, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `BusinessReader.select`. The keys are sent, and then the values of these keys."""
        return self._entries_of(self._wanted(wanted))

    def spans(self, spans: Sequence[KeySpan]) -> Iterator[DataEntry]:
        """See `BusinessReader.spans`. Single keys are asked for as they are; members select other keys by their beginning."""
        if all(high == low + b"\0" for low, high in spans):
            yield from self._entries_of([Encoded(low, "str") for low, _ in spans])
            return
        for asked in [[span] for span in spans] if len(spans) <= _MOST_SPANS else [spans]:
            common = common_part(("str", asked[0][0]), ("str", asked[-1][1])) or b""
            keys = self._business.state.identities(
                common.decode(errors="ignore")
            )  # the cut may split a UTF-8 character
            within = [key for key in keys if key.class_name == "str" and _is_within(key.data, asked)]
            yield from self._entries_of(within)

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """See `BusinessReader.history`."""
        return self._business.history(key_class, key)

    def of_structure(self, structure: str, ranges: Sequence[KeyRange] | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.of_structure`. A member reads archive and logs for each page of some megabytes, or for one key."""
        if ranges is not None and len(ranges) == 1 and ranges[0].only_key is not None:
            found = self._logged(*ranges[0].low)
            if found is not None and is_selected(found.key_class, structure):
                yield found
            return
        for entry in self._business.logged_entries(NOW, _page_of(ranges), structure):
            identity = entry.key_class, entry.key
            is_wanted = ranges is None or any(each.low <= identity < each.high for each in ranges)
            if is_wanted and is_selected(entry.key_class, structure) and is_live(entry, self._business.now_ms()):
                yield entry.public()

    def content_structures(self) -> list[str]:
        """See `BusinessReader.content_structures`. The keys of contents are listed."""
        return self._business.state.structures_of(CONTENT)

    @property
    def content_source(self) -> StoredSource:
        """See `BusinessReader.content_source`: the archive of the members."""
        return StoredSource(OS_DISK, tuple, self._structures.content_calls.archived)

    def as_of(self, timestamp: int, structure: str = OWN_MAP, within: KeyRange | None = None) -> Memory:
        """See `BusinessReader.as_of`. What begins as both ends of the range do is transferred, some megabytes at a time."""
        page = _page_of(None if within is None else [within])
        entries = self._business.logged_entries(timestamp, page, structure)
        return to_state(entries, lambda: timestamp >> TIMESTAMP_SHIFT)

    def _logged(self, key_class: str, key: bytes) -> DataEntry | None:
        """The entry of a key as the logs have it. Memory says whether the key is there."""
        if self._memory.lookup(key_class, key) is None:
            return None
        return next((entry for entry in self._business.versions(key_class, key) if not entry.deleted), None)

    def _wanted(self, wanted: WantedIdentity) -> list[Encoded]:
        return [key for key in self._business.state.identities() if wanted(key.data, key.class_name)]

    def _entries_of(self, keys: list[Encoded]) -> Iterator[DataEntry]:
        return (entry.public() for entry in self._business.state.entries_of(keys))


class _InLogs(_InMemory):
    """A business as the members' logs and the archive have it: with timestamps and expiries, which memory does not hold."""

    def find(self, key_class: str, key: bytes) -> DataEntry | None:
        """See `BusinessReader.find`. Memory says whether the key is there."""
        return self._logged(key_class, key)

    def entries(self, prefix: str | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.entries`. A member reads archive and logs for each page of some megabytes."""
        page = Page() if prefix is None else Page(prefix_class="str", prefix=prefix.encode())
        for entry in self._business.logged_entries(NOW, page):
            if is_live(entry, self._business.now_ms()):
                yield entry.public()

    def within(self, bounds: KeyBounds, *, reverse: bool = False, limit: int | None = None) -> Iterator[DataEntry]:
        """See `BusinessReader.within`. A member sends all entries that have the common prefix of both bounds.

        It sends all entries if there is none; the bounds are applied here.
        """
        low_class, low, high = bounds
        common = None if low_class != "str" or high is None else common_part(("str", low), ("str", high))
        text = None if common is None else common.decode(errors="ignore")  # the cut may split a UTF-8 character
        found = (entry for entry in self.entries(text or None) if bounds.has(entry.key_class, entry.key))
        return in_direction(found, reverse, limit)

    def select(self, wanted: WantedIdentity) -> Iterator[DataEntry]:
        """See `BusinessReader.select`. Up to `_MOST_KEYS` keys are point reads.

        For more keys a member sends all entries that have their common prefix, or all entries if there is none.
        """
        chosen = self._wanted(wanted)
        if len(chosen) > _MOST_KEYS:
            entries = self.entries(_common_text(chosen))
            return (entry for entry in entries if wanted(entry.key, entry.key_class))
        found = (self.find(key.class_name, key.data) for key in chosen)
        return (entry for entry in found if entry is not None)

    spans = BusinessReader.spans  # `_InMemory.spans` gives no timestamps


def _is_within(key: bytes, spans: Sequence[KeySpan]) -> bool:
    at = bisect_right(spans, key, key=itemgetter(0)) - 1
    return at >= 0 and key < spans[at][1]


def _page_of(ranges: Sequence[KeyRange] | None) -> Page:
    """What a member has to send for these ranges: the keys that begin as both ends do, if there is one range."""
    if ranges is None or len(ranges) != 1 or ranges[0].low[0] != ranges[0].high[0]:
        return Page()
    return Page(prefix_class=ranges[0].low[0], prefix=common_part(*ranges[0]) or b"")


def _common_text(keys: Sequence[Encoded]) -> str | None:
    """The text with which all of these keys begin; None if there is none, or if one of them is no text."""
    identities = [(key.class_name, key.data) for key in keys]
    first, last = min(identities), max(identities)
    common = common_part(first, last) if first[0] == "str" else None
    return None if common is None else common.decode(errors="ignore")  # the cut may split a UTF-8 character
