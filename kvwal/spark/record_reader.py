"""Readers of recorded applications: records by key and by range of keys, as `queries` asks for them.

`IndexedReader` reads ranges from the files of a store or from a cluster, with the index. `MappingReader` has all records in
memory, and needs no index.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from kvwal.entry import DataEntry
from kvwal.history.reads.range_reader import common_part
from kvwal.history.reads.tail_reader import Identity
from kvwal.location.archived import ArchivedBusiness
from kvwal.location.cluster import ClusterMaps
from kvwal.location.readers import LocationReader
from kvwal.spark import index
from kvwal.spark.records import Application, Record, from_value
from kvwal.store.read_only import ReadOnlyBusiness

T = TypeVar("T")
BUSINESS = "spark"
"""The business of the records."""
_AT_ONCE = 1_000
_LAST = "\U0010ffff"


class StoredRecord(NamedTuple):
    """A record as it is stored: the bytes of its JSON, or the object."""

    key: str
    data: Any

    def value(self) -> dict[str, Any]:
        """The stored object."""
        value: dict[str, Any] = msgspec.json.decode(self.data) if isinstance(self.data, bytes) else self.data
        return value

    def record(self) -> Record:
        """The record. `msgspec.ValidationError` for an object that is none."""
        if isinstance(self.data, bytes):
            record: Record = _decoder(Record).decode(self.data)
            return record
        return from_value(self.data)

    def of(self, kind: type[T]) -> T:
        """The record of a kind that is known. `msgspec.ValidationError` for an object of another kind."""
        if isinstance(self.data, bytes):
            record: T = _decoder(kind).decode(self.data)
            return record
        return msgspec.convert(self.data, kind)

    def may_contain(self, text: bytes) -> bool:
        """False if the JSON of the record does not have these bytes."""
        return text in self.data if isinstance(self.data, bytes) else True


_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder of JSON to a type, made once: making one takes longer than decoding a record."""
    if kind not in _DECODERS:
        _DECODERS[kind] = msgspec.json.Decoder(kind)
    return _DECODERS[kind]


class RecordReader(Protocol):
    """A source of records, sorted by key."""

    @property
    def has_index(self) -> bool:
        """Whether `between` finds the index, and the index is complete."""
        ...

    @property
    def has_edges(self) -> bool:
        """Whether `between` finds the edges of lineage of all records."""
        ...

    def between(self, low: str, high: str) -> Iterator[StoredRecord]:
        """The records with keys from `low` to before `high`."""
        ...

    def applications(self) -> Iterator[tuple[str, Application]]:
        """Every application, with the prefix of its keys."""
        ...

    def application(self, prefix: str) -> Application | None:
        """The application whose keys have this prefix, None if there is none."""
        ...


def under(records: RecordReader, folder: str) -> Iterator[StoredRecord]:
    """The records whose keys begin with `folder`, which ends with a slash."""
    return records.between(*span_of(folder))


def span_of(folder: str) -> tuple[str, str]:
    """The range of the keys that begin with `folder`, which ends with a slash."""
    return folder, folder[:-1] + chr(ord("/") + 1)


def everything(records: RecordReader) -> Iterator[StoredRecord]:
    """All records of applications: not the index, and not what followers keep."""
    return (stored for stored in records.between("", _LAST) if index.is_application_key(stored.key))


class MappingReader:
    """Records of a mapping, whose keys are sorted once."""

    has_index = False
    has_edges = False

    def __init__(self, records: Mapping[str, object]) -> None:
        self._records = records
        self._keys = sorted(records)

    def between(self, low: str, high: str) -> Iterator[StoredRecord]:
        """See `RecordReader.between`."""
        keys = self._keys[bisect_left(self._keys, low) : bisect_left(self._keys, high)]
        return (StoredRecord(key, self._records[key]) for key in keys)

    def applications(self) -> Iterator[tuple[str, Application]]:
        """See `RecordReader.applications`: the records of this kind."""
        for key in self._keys:
            if key.endswith("/app") and index.is_application_key(key):
                yield key.removesuffix("/app"), StoredRecord(key, self._records[key]).of(Application)

    def application(self, prefix: str) -> Application | None:
        """See `RecordReader.application`."""
        data = self._records.get(f"{prefix}/app")
        return None if data is None else StoredRecord(prefix, data).of(Application)


class RecordSource(Protocol):
    """The business of the records, by ranges of keys."""

    @property
    def nodes(self) -> Sequence[str]:
        """The nodes that have a mark each. A cluster has one mark, under the name `index.CLUSTER`."""
        ...

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """The entries with identities from `low` to before `high`, sorted."""
        ...


class ClusterRecords:
    """The records in a cluster. A range of keys is asked for by the text with which all of its keys begin."""

    nodes: Sequence[str] = (index.CLUSTER,)

    def __init__(self, scan: Callable[[str], Iterable[DataEntry]]) -> None:
        """`scan` gives the entries whose keys begin with a text."""
        self._scan = scan

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """See `RecordSource.between`. The range is in memory."""
        common = (common_part(low, high) or b"").decode(errors="ignore")
        entries = [entry for entry in self._scan(common) if low <= (entry.key_class, entry.key) < high]
        return iter(sorted(entries, key=attrgetter("key")))


class ArchivedRecords:
    """The records in an archive, of the nodes of a folder or of a cluster's members, which have one mark together."""

    def __init__(self, business: ArchivedBusiness) -> None:
        self._business = business

    @cached_property
    def nodes(self) -> Sequence[str]:
        """See `RecordSource.nodes`."""
        nodes = self._business.nodes
        mark = index.mark_key(index.CLUSTER).encode()
        of_cluster = index.CLUSTER not in nodes and self._business.find("str", mark) is not None
        return (index.CLUSTER,) if of_cluster else nodes

    def between(self, low: Identity, high: Identity) -> Iterator[DataEntry]:
        """See `RecordSource.between`. Of the objects those row groups are read that may have such keys."""
        return self._business.between(low, high)


class IndexedReader:
    """Records with the index. Nothing is read until it is asked for."""

    def __init__(self, business: RecordSource) -> None:
        self._business = business

    @cached_property
    def has_index(self) -> bool:
        """Whether every node, or the cluster, has its mark. What an earlier version wrote has none."""
        return None not in self._marks

    @cached_property
    def has_edges(self) -> bool:
        """See `RecordReader.has_edges`. What an earlier version wrote has none."""
        return all(mark is not None and index.is_whole(mark.value()) for mark in self._marks)

    def between(self, low: str, high: str) -> Iterator[StoredRecord]:
        """See `RecordReader.between`."""
        return (StoredRecord(entry.key.decode(), entry.value) for entry in self.entries(low, high))

    def entries(self, low: str, high: str) -> Iterator[DataEntry]:
        """As `between`, the entries themselves: for very many small records."""
        return self._business.between(("str", low.encode()), ("str", high.encode()))

    def applications(self) -> Iterator[tuple[str, Application]]:
        """See `RecordReader.applications`: the summaries."""
        for key, stored in self._summaries.items():
            if not index.is_mark(key):
                yield key.removeprefix(index.APPLICATIONS), stored.of(index.Summary)

    def application(self, prefix: str) -> Application | None:
        """See `RecordReader.application`."""
        key = index.summary_key(prefix)
        stored = None if index.is_mark(key) else self._summaries.get(key)
        return None if stored is None else stored.of(index.Summary)

    @cached_property
    def _marks(self) -> list[StoredRecord | None]:
        """The marks of the nodes that have written anything, up to the first one that is missing: None.

        In a folder a node may write its first entry, and its mark, after the summaries were read. So its mark is read again.
        """
        marks: list[StoredRecord | None] = []
        for key, node in ((index.mark_key(node), node) for node in self._business.nodes):
            mark = self._summaries.get(key)
            if mark is None and isinstance(self._business, ReadOnlyBusiness):
                if not self._business.has_entries(node):
                    continue
                mark = next(self.between(key, f"{key}\0"), None)
            marks.append(mark)
            if mark is None:
                break
        return marks

    @cached_property
    def _summaries(self) -> dict[str, StoredRecord]:
        """The summaries and the marks, which are neighbours, by key. They are decoded when they are asked for."""
        return {stored.key: stored for stored in under(self, index.APPLICATIONS)}


def decoded(records: RecordReader, low: str, high: str, kind: type[T]) -> Iterator[T]:
    """`StoredRecord.of` of each record with a key from `low` to before `high`. One call of the decoder is for many of them."""
    left: Iterator[Any]
    if isinstance(records, IndexedReader):
        left = (entry.value for entry in records.entries(low, high))
    else:
        left = (stored.data for stored in records.between(low, high))
    while batch := list(islice(left, _AT_ONCE)):
        if all(isinstance(data, bytes) for data in batch):
            yield from _decoder(list[kind]).decode(b"[%s]" % b",".join(batch))  # type: ignore[valid-type]
        else:
            yield from (StoredRecord("", data).of(kind) for data in batch)


def reader_of_entries(entries: Iterable[DataEntry]) -> RecordReader:
    """A reader of all records of an earlier moment, which are in memory."""
    return MappingReader({entry.key.decode(): entry.value for entry in entries if entry.key_class == "str"})


def reader_of(business: RecordSource) -> RecordReader:
    """A reader of a store's records: from the index, or of all records if a node of the store, or the cluster, has no index."""
    records = IndexedReader(business)
    if records.has_index:
        return records
    return MappingReader({stored.key: stored.data for stored in records.between("", _LAST)})


def records_of(store: LocationReader) -> RecordReader:
    """The reader of the records of an open location."""
    business = store.read_business(BUSINESS)
    if isinstance(business, ReadOnlyBusiness):
        return reader_of(business)
    if isinstance(business, ArchivedBusiness):
        return reader_of(ArchivedRecords(business))
    if isinstance(store, ClusterMaps):
        return reader_of(ClusterRecords(business.entries))
    return reader_of_entries(business.entries())
