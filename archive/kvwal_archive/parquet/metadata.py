"""The end of an object, read and checked before a parser sees it: the record in its footer, and Parquet's own metadata.

The ends of many objects are read at once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from kvwal_archive.errors import ArchiveDamaged, ArchiveError
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.rows import (
    COLUMNS,
    DAMAGED_HINT,
    FOOTER_KEY,
    NO_RECORD,
    Footer,
    ObjectInfo,
    decode_footer,
    footer_is_sealed,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

MAGIC = b"PAR1"
CHUNK = 1 << 20
FOOTER_BYTES, FOOTER_SHARE = (4 << 10, 64 << 10), 256
AT_ONCE = 256
"""So many footers are read at once: at most 16 MiB."""


def read_footer(file: BinaryIO, key: str, *, whole: bool = False) -> Footer:
    """The record in the footer of the open object; with `whole` every byte before the footer is checked too.

    Raises ArchiveDamaged for anything that is not a whole object, ArchiveError if a newer version wrote it.
    """
    footer, _ = read_metadata(file, key)
    if whole:
        check_body(file, key, footer)
    return footer


def read_metadata(file: BinaryIO, key: str) -> tuple[Footer, pq.FileMetaData]:
    """The record in the footer, and Parquet's own metadata. Raises as `read_footer`."""
    return _metadata(_footer_bytes(file, key), key)


def read_metadata_of(objects: Objects, listed: Sequence[tuple[str, int]]) -> Iterator[tuple[Footer, pq.FileMetaData]]:
    """`read_metadata` of many objects: the key and the size of each. Their ends are read at once.

    An object whose end is not a whole footer is read by itself: the footer is longer, the object was replaced since it was
    listed, or it is damaged. Raises as `read_footer`, and ObjectMissing.
    """
    for begin in range(0, len(listed), AT_ONCE):
        some = listed[begin : begin + AT_ONCE]
        ends = objects.read_ranges([(key, max(0, size - _guess(size)), size) for key, size in some])
        for (key, _), end in zip(some, ends, strict=True):
            yield _metadata_of(objects, key, end)


def _metadata_of(objects: Objects, key: str, end: bytes) -> tuple[Footer, pq.FileMetaData]:
    raw = _footer_within(end)
    if raw is not None:
        with suppress(ArchiveDamaged):  # the object itself tells whether it is
            return _metadata(raw, key)
    with objects.open(key) as file:
        return read_metadata(file, key)


def _metadata(raw: bytes, key: str) -> tuple[Footer, pq.FileMetaData]:
    import pyarrow.parquet as pq

    sealed = footer_is_sealed(raw)
    if sealed is None:
        raise damaged(key, NO_RECORD)
    if not sealed:
        raise damaged(key, "the checksum of its footer does not match")
    with as_damage(key):
        metadata = pq.read_metadata(io.BytesIO(MAGIC + raw + len(raw).to_bytes(4, "little") + MAGIC))
    footer = decode_footer((metadata.metadata or {}).get(FOOTER_KEY), key)
    if metadata.num_rows != footer.rows or metadata.schema.names != list(COLUMNS):
        raise damaged(
            key, f"its footer promises {footer.rows} rows of the archive's columns, and it has {metadata.num_rows} rows"
        )
    return footer, metadata


def check_unchanged(footer: Footer, info: ObjectInfo) -> None:
    """Raise ArchiveDamaged if the footer read now is not the one that was read when the object was chosen."""
    if footer != info.footer:
        raise damaged(info.key, "its footer changed while it was read, and objects never change")


def check_body(file: BinaryIO, key: str, footer: Footer) -> None:
    """Raise ArchiveDamaged if a byte before the Parquet footer is not as it was written."""
    if _body_crc(file, key) != footer.body_crc:
        raise damaged(key, "the checksum of its rows does not match")


def _footer_bytes(file: BinaryIO, key: str) -> bytes:
    """The bytes of the Parquet footer. One read is enough for most objects."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - _guess(end)))
    tail = file.read(_guess(end))
    if tail[-4:] != MAGIC or len(tail) < 8 + len(MAGIC):
        raise damaged(key, "cut short: it does not end as a Parquet file does")
    length = _length(tail)
    if length > end - 8 - len(MAGIC):
        raise damaged(key, "cut short: it has no room for its footer")
    if length > len(tail) - 8:
        file.seek(end - 8 - length)
        tail = file.read(length + 8)
    return tail[-8 - length : -8]


def _footer_within(tail: bytes) -> bytes | None:
    """The Parquet footer, if all of it is among these bytes, which end as the object does."""
    return tail[-8 - _length(tail) : -8] if tail[-4:] == MAGIC and len(tail) >= _length(tail) + 8 else None


def _length(tail: bytes) -> int:
    """The length of the Parquet footer, as the end of the object says."""
    return int.from_bytes(tail[-8:-4], "little")


def _guess(size: int) -> int:
    """How many bytes to read at the end of an object of this size: enough for most footers, of at most 3 KiB a row group."""
    return min(FOOTER_BYTES[1], FOOTER_BYTES[0] + size // FOOTER_SHARE)


def _body_crc(file: BinaryIO, key: str) -> int:
    import google_crc32c

    end = file.seek(0, os.SEEK_END)
    file.seek(end - 8)
    left = end - 8 - int.from_bytes(file.read(4), "little")
    if left < len(MAGIC):
        raise damaged(key, "the length of its footer is impossible")
    file.seek(0)
    crc = 0
    while left > 0:
        chunk = file.read(min(CHUNK, left))
        if not chunk:
            raise damaged(key, "it ends before its footer")
        crc = google_crc32c.extend(crc, chunk)
        left -= len(chunk)
    return crc


def damaged(key: str, what: str) -> ArchiveDamaged:
    """The error of an object that is not as it was written."""
    return ArchiveDamaged(f"{key}: {what}.", hint=DAMAGED_HINT)


@contextmanager
def as_damage(key: str) -> Iterator[None]:
    """Raise pyarrow's errors of the block as ArchiveDamaged: the bytes are not a whole, valid Parquet file."""
    import pyarrow as pa

    try:
        yield
    except ArchiveError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise damaged(key, f"cut short, or not a whole Parquet file ({str(error).splitlines()[0]})") from error
