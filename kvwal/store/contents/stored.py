"""Contents that are only read: names from the reader of a business, bytes from its claim files or the archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from kvwal.codecs import registry
from kvwal.content.claim import Claim, claim_of
from kvwal.entry import DataEntry, Entry, make_entry
from kvwal.errors import ContentDamaged
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.content.names import content_structure, contents_named
from kvwal.structures.content.reads import ContentReads, Names
from kvwal.structures.map.state import after_prefix
from kvwal_archive.parquet.key_ranges import KeyRange, class_range


class StoredContents(ContentReads):
    """The contents of one structure of a business that is only read. Names are read when they are asked for, and not kept."""

    def __init__(self, reader: BusinessReader, business: str, name: str = "", at: int | None = None) -> None:
        """Those that are there now, or were at the timestamp `at`. Raises `InvalidName`, and `ConfigError` for a cluster."""
        structure = content_structure(name)
        names: Names = _NamesNow(reader, structure) if at is None else reader.as_of(at, structure)
        self._reader = reader
        self.source = reader.content_source if at is None else reader.content_source.of_past()
        """Where the bytes are."""
        super().__init__(f"{business}/{structure}", structure, names, registry, self.source)

    def what(self, name: str) -> str:
        """A content as errors name it."""
        return self._what(name)

    def of_business(self) -> Iterator[StoredContents]:
        """All contents of the business that hold something, as they are now."""
        for name in names_of_stored(self._reader):
            yield StoredContents(self._reader, self.name.partition("/")[0], name)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """The latest entries of the names that begin with `prefix`, in order."""
        return self._memory.ordered(self._key_class, prefix.encode())

    def claims(self) -> Iterator[Claim]:
        """The claim of each content, in the order of names. A value that is no claim is left out."""
        for entry in self.entries():
            with suppress(ContentDamaged):
                yield claim_of(entry)


def names_of_stored(reader: BusinessReader) -> list[str]:
    """The names of the structures of contents of a business that hold something, sorted; that of its own ones is empty."""
    return sorted(map(contents_named, reader.content_structures()))


class _NamesNow:
    """See `Names`."""

    def __init__(self, reader: BusinessReader, structure: str) -> None:
        self._reader = reader
        self._structure = structure

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `Names.lookup`. Of snapshots and objects only that name is read."""
        return next(self._within(KeyRange((key_class, key), (key_class, key + b"\0"))), None)

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """See `Names.ordered`. Of snapshots and objects only that range is read."""
        end = after_prefix(prefix)
        return self._within(class_range(key_class) if end is None else KeyRange((key_class, prefix), (key_class, end)))

    def count(self) -> int:
        """See `Names.count`. All names are read."""
        return sum(1 for _ in self._reader.of_structure(self._structure) or ())

    def _within(self, span: KeyRange) -> Iterator[Entry]:
        found: Iterable[DataEntry] = self._reader.of_structure(self._structure, [span]) or ()
        return map(_stored, found)


def _stored(entry: DataEntry) -> Entry:
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, entry.timestamp, entry.expires
    )
