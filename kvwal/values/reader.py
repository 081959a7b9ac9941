"""Entries and rows with the bytes of their large values, as callers see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from io import BufferedIOBase
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from kvwal.codecs import NO_HOLD, Codecs, Hold
from kvwal.content.claim import parsed_claim
from kvwal.content.source import Reader
from kvwal.entry import DataEntry, Entry, class_of_bytes, is_claimed
from kvwal_archive.contents.values import with_values

if TYPE_CHECKING:
    import pyarrow as pa

E = TypeVar("E", bound=Entry | DataEntry)
_SHOWN = 40
"""Bytes of a key that an error shows."""


class StoredValues:
    """The values of one business. Any thread may use it. An entry whose value is no claim is given back as it is.

    Its methods raise as `ContentSource.read`: `ContentMissing`, `ContentDamaged`, `ArchiveError`.
    """

    def __init__(self, name: str, source: Callable[[], Reader]) -> None:
        """`name` is that of the business, in errors. `source` is asked when there is a large value."""
        self.name = name
        self._source = source

    def entry(self, entry: E) -> E:
        """The entry with the bytes of its value."""
        if not is_claimed(entry.value_class):
            return entry
        data = self.read(entry.key, entry.value)
        return replace(entry, value=data, value_class=class_of_bytes(entry.value_class))

    def public(self, entry: Entry) -> DataEntry:
        """The entry for callers."""
        public = entry.public()
        return self.entry(public) if is_claimed(entry.value_class) else public

    def entries(self, found: Iterable[E]) -> Iterator[E]:
        """The entries with the bytes of their values, which are read one by one."""
        return map(self.entry, found)

    def batches(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Rows of the archive with the bytes of their values: several batches, if the values are large."""
        return with_values(self.read, rows)

    def table(self, rows: pa.Table) -> pa.Table:
        """As `batches`, of rows that are in memory together."""
        import pyarrow as pa

        return pa.Table.from_batches(chain.from_iterable(map(self.batches, rows.to_batches())), schema=rows.schema)

    def open(self, entry: Entry) -> BufferedIOBase:
        """A binary file over the bytes of a large value."""
        what = f"{self.name}: the value of {entry.key[:_SHOWN]!r}"
        return self._source().open(what, parsed_claim(entry.value, lambda: what), 0, None)

    def read(self, key: bytes | None, value: bytes) -> bytes:
        """The bytes of the large value of a key, None if it is not known here. `value` is its claim."""
        what = f"{self.name}: a value" if key is None else f"{self.name}: the value of {key[:_SHOWN]!r}"
        return self._source().read(what, parsed_claim(value, lambda: what))


class StoredCodecs(Codecs):
    """The codecs of a registry, for the values of one business: of a large value the bytes are read first.

    They raise as `StoredValues`.
    """

    def __init__(self, known: Codecs, values: StoredValues, hold: Callable[[], Hold] = lambda: NO_HOLD) -> None:
        """Codecs that are registered later are known, too. `hold` keeps claim files from being collected."""
        self.__dict__.update(known.__dict__)
        self._values = values
        self._hold = hold

    def hold(self) -> Hold:
        """See `Codecs.hold`."""
        return self._hold()

    def public(self, entry: Entry) -> DataEntry:
        """See `Codecs.public`."""
        return self._values.public(entry)

    def whole(self, entry: DataEntry) -> DataEntry:
        """See `Codecs.whole`."""
        return self._values.entry(entry)

    def read(self, entry: Entry) -> Entry:
        """See `Codecs.read`."""
        return self._values.entry(entry)

    def open(self, entry: Entry) -> BufferedIOBase:
        """See `Codecs.open`. Read from the start to the end it compares the checksum."""
        return self._values.open(entry) if is_claimed(entry.value_class) else super().open(entry)

    def _not_known(self, data: bytes, name: str) -> object:
        if not is_claimed(name):
            return super()._not_known(data, name)
        return self.decode(self._values.read(None, data), class_of_bytes(name))
