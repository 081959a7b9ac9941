"""The contents of an archive object: the columns of its rows, their order, and the record in its footer.

pyarrow is imported at first use, because commands that only look at names import this module too.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Sequence
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import msgspec

from kvwal_archive.errors import ArchiveDamaged, ArchiveError
from kvwal_archive.layout import Place, Span
from kvwal_archive.parquet.chunks import DIGITS, chunk_crcs, crc_of
from kvwal_archive.parquet.key_filter import filter_crcs

if TYPE_CHECKING:
    import pyarrow as pa

    SCHEMA: pa.Schema

FORMAT = 1
FOOTER_KEY = b"kvwal"

COLUMNS = ("key", "key_class", "value", "value_class", "deleted", "timestamp", "expires", "sequence")
IDENTITY = ("key_class", "key")
ORDER = (("key_class", "ascending"), ("key", "ascending"), ("timestamp", "descending"), ("sequence", "descending"))


class Footer(msgspec.Struct, frozen=True, kw_only=True):
    """The record in an object's Parquet footer, under the key `kvwal`, as JSON.

    `body_crc` is the crc32c of every byte before the Parquet footer, for readers of the whole object. `chunk_crcs` has the
    crc32c of each column chunk, for readers of single columns: eight hexadecimal digits each, by row group and within it by
    column. `filter_crcs` has that of the Bloom filter of each row group. Objects of earlier versions lack one or both.
    `footer_crc` is the crc32c, in hex, of the Parquet footer with zeros in its place. `previous_crc` is the crc of the seal
    before `first`, and `seal_crcs` are those of the segments within: so the log's chain of seals can be followed from object to
    object. Of a compacted object only the last one is kept. `identities` is the number of different (key_class, key),
    `data_bytes` the length of all keys and values.
    """

    format: int
    log_id: str
    namespace: str
    cluster: str
    business: str
    node: str
    first: int
    last: int
    horizon: int
    previous_crc: int
    seal_crcs: list[int]
    rows: int
    identities: int
    data_bytes: int
    min_timestamp: int
    max_timestamp: int
    body_crc: int
    chunk_crcs: str | msgspec.UnsetType = msgspec.UNSET
    filter_crcs: str | msgspec.UnsetType = msgspec.UNSET
    footer_crc: str = "00000000"

    @property
    def place(self) -> Place:
        """The place of the log from which the object was made."""
        return Place(self.namespace, self.cluster, self.business, self.node)

    @property
    def span(self) -> Span:
        """The range of the log that the object covers."""
        return Span(self.first, self.last, self.horizon)

    def encode(self) -> bytes:
        """The record as bytes of the footer."""
        return msgspec.json.encode(self)


class ObjectInfo(NamedTuple):
    """One object: its key, the span in its name, the record in its footer, its size in bytes, its time (unix ms)."""

    key: str
    span: Span
    footer: Footer
    size: int
    modified_ms: int

    @property
    def row_bytes(self) -> int:
        """The average length of key and value of its rows, at least 1."""
        return self.footer.data_bytes // max(1, self.footer.rows) + 1


_RECORD = b'{"format":'
_BODY_CRC = re.compile(rb'"body_crc":([0-9]{10}),')
_CHUNK_CRCS = re.compile(rb'"chunk_crcs":"([0-9a-f]*)"')
_FILTER_CRCS = re.compile(rb'"filter_crcs":"([0-9a-f]*)"')
_FOOTER_CRC = re.compile(rb'"footer_crc":"([0-9a-f]{8})"')
NO_RECORD = f"a Parquet file, but not one of the archive: its footer has no {FOOTER_KEY.decode()!r} record"


BLANK_BODY_CRC = 0xFFFFFFFF
"""A number with as many digits as any checksum, in the place of that of the body. `seal_object` fills it in."""


def blank_chunk_crcs(groups: int) -> str:
    """Zeros in place of the checksums of the chunks of `groups` row groups. `seal_object` fills them in."""
    return "0" * DIGITS * len(COLUMNS) * groups


def blank_filter_crcs(groups: int) -> str:
    """Zeros in place of the checksums of the filters of `groups` row groups. `seal_object` fills them in."""
    return "0" * DIGITS * groups


def seal_object(data: bytes) -> bytes:
    """The bytes of an object, sealed: see `seal_file`."""
    file = io.BytesIO(data)
    seal_file(file)
    return file.getvalue()


def seal_file(file: BinaryIO) -> None:
    """Write all checksums of an object into the record in its Parquet footer. The file is open for reading and writing.

    The record keeps its length: it held zeros in their place. A number has blanks before it, as JSON allows.
    """
    import pyarrow.parquet as pq

    end = file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    begin = file.seek(end - length)
    raw = whole = file.read(length)
    metadata = pq.read_metadata(file)
    record = raw.rfind(_RECORD)  # before it are the least and greatest keys, which may hold any text
    if match := _BODY_CRC.search(raw, record):
        raw = _with(raw, match, b"%10d" % crc_of(file, 0, begin))
    if match := _CHUNK_CRCS.search(raw, record):
        raw = _with(raw, match, chunk_crcs(file, metadata))
    if match := _FILTER_CRCS.search(raw, record):
        raw = _with(raw, match, filter_crcs(file, metadata))
    footer_crc = _FOOTER_CRC.search(raw, record)
    if record < 0 or footer_crc is None or len(raw) != len(whole):
        raise ValueError("the footer holds no record, or one without room for its checksums")
    file.seek(begin)
    file.write(_with(raw, footer_crc, b"%08x" % _footer_crc(raw, footer_crc)))
    file.flush()


def _with(raw: bytes, match: re.Match[bytes], crcs: bytes) -> bytes:
    return raw[: match.start(1)] + crcs + raw[match.end(1) :]


def footer_is_sealed(footer: bytes) -> bool | None:
    """Whether a Parquet footer is as `seal_object` left it; None if it has no record of kvwal.

    Check this before the footer is parsed: a parser may abort the process over flipped bits. Earlier versions took the first
    text that looks like a checksum for it, though it may have been a key's.
    """
    found = list(_FOOTER_CRC.finditer(footer))
    return any(match[1] == b"%08x" % _footer_crc(footer, match) for match in found) if found else None


def _footer_crc(footer: bytes, place: re.Match[bytes]) -> int:
    """The checksum of a footer with zeros in this place."""
    import google_crc32c

    return int(google_crc32c.value(_with(footer, place, b"0" * 8)))


class NewerFormat(ArchiveError):
    """An object or a registration that a newer version wrote: it is whole, but this version cannot read it."""


class _Format(msgspec.Struct):
    format: int


def decode_footer(raw: bytes | None, key: str) -> Footer:
    """The record of the object `key`. Raises ArchiveDamaged if it is missing or no record, NewerFormat."""
    if raw is None:
        raise ArchiveDamaged(
            f"{key}: {NO_RECORD}.",
            hint="Move it out of the archive.",
        )
    try:
        check_format(raw, key)
        return msgspec.json.decode(raw, type=Footer)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArchiveDamaged(f"{key}: the record in its footer cannot be read: {error}.", hint=DAMAGED_HINT) from error


DAMAGED_HINT = "`kvwal archive verify` lists what is damaged; put back a copy of the object if there is one."


def check_format(raw: bytes, key: str) -> None:
    """Raise NewerFormat if the JSON record `raw` of the object `key` has a format this version does not know."""
    version = msgspec.json.decode(raw, type=_Format).format
    if version != FORMAT:
        raise NewerFormat(
            f"{key}: written by a newer version: format {version}, and this version reads format {FORMAT}.",
            hint="Update kvwal to read it; nothing was changed.",
        )


@cache
def schema() -> pa.Schema:
    """The columns of an object, in order, none of them nullable."""
    import pyarrow as pa

    types = (pa.binary(), pa.string(), pa.binary(), pa.string(), pa.bool_(), pa.int64(), pa.int64(), pa.int64())
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in zip(COLUMNS, types, strict=True)])


@cache
def node_schema() -> pa.Schema:
    """The columns of every merged table: those of `schema()`, and the node of the row."""
    import pyarrow as pa

    return schema().append(pa.field("node", pa.string(), nullable=False))


def with_node(table: pa.Table, node: str) -> pa.Table:
    """The rows of one node with the column `node`."""
    import pyarrow as pa

    column = pa.repeat(pa.scalar(node), len(table))
    return table.select(list(COLUMNS)).append_column("node", column).cast(node_schema())


def sorted_rows(table: pa.Table) -> pa.Table:
    """The rows of one node in the order of an object: by identity, and within an identity newest first."""
    return table.select(list(COLUMNS)).sort_by(list(ORDER)).cast(schema())


def same_as_before(table: pa.Table, columns: Sequence[str]) -> pa.BooleanArray:
    """For each row but the first, whether it equals the row before it in these columns. `table` is not empty."""
    import pyarrow.compute as pc

    arrays = [table.column(name).combine_chunks() for name in columns]
    return reduce(pc.and_, [pc.equal(array[1:], array[:-1]) for array in arrays])


def __getattr__(name: str) -> Any:
    if name == "SCHEMA":
        return schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
