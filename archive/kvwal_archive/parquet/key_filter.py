"""The Bloom filters of an object: for each row group, whether it can hold a key, without a look at its rows.

They are those of Parquet (split block, XXH64), so that Spark and DuckDB use them too. pyarrow writes them, and gives readers
their place and not their contents. Parquet has no checksum for them, and a flipped bit would hide a key: so the record in the
footer has one of each (docs/decisions/0061-bloom-filters.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from kvwal_archive.parquet.chunks import crc_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

FALSE_POSITIVES = 0.03
"""At most, of the keys that a group does not hold. A filter has from 8 to 15 bits a key: its bytes are a power of two."""
BLOCK_BYTES, WORD_BYTES = 32, 4
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_HEADER = re.compile(rb"\x15[\x80-\xff]*[\x00-\x7f](?:\x1c\x1c\x00\x00){3}\x00")
"""Of a filter that is split block, XXH64 and uncompressed, in Thrift's compact form. The bits are what follows."""


def filter_options(identities: int, group_rows: int) -> dict[str, dict[str, float]]:
    """What pyarrow's writer is told, for so many different keys in groups of so many rows."""
    return {"key": {"ndv": min(identities, group_rows), "fpp": FALSE_POSITIVES}}


def filter_crcs(file: BinaryIO, metadata: pq.FileMetaData) -> bytes:
    """The crc32c of each row group's filter in eight hexadecimal digits, one after the other, as in the record of the footer."""
    places = (filter_place(metadata, group) for group in range(metadata.num_row_groups))
    return b"".join(b"%08x" % crc_of(file, begin, end) for begin, end in places)


def filter_place(metadata: pq.FileMetaData, group: int) -> tuple[int, int]:
    """The bytes [begin, end) of a row group's filter; none of them if it has no filter."""
    column = metadata.row_group(group).column(0)
    begin = column.bloom_filter_offset or 0
    return begin, begin + (column.bloom_filter_length or 0)


def may_hold_any(data: bytes, keys: Iterable[bytes]) -> bool:
    """Whether a row group with this filter can hold one of the keys. It can, if the filter is of a kind that is not known."""
    header = _HEADER.match(data)
    return header is None or any(_may_hold(data[header.end() :], key) for key in keys)


def _may_hold(bits: bytes, key: bytes) -> bool:
    """Whether the bits of this key are set (BloomFilter.md of Parquet's format)."""
    import xxhash

    digest = xxhash.xxh64_intdigest(key)
    block = ((digest >> 32) * (len(bits) // BLOCK_BYTES) >> 32) * BLOCK_BYTES
    low = digest & 0xFFFFFFFF
    for number, salt in enumerate(_SALT):
        at = block + number * WORD_BYTES
        word = int.from_bytes(bits[at : at + WORD_BYTES], "little")
        if not word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1:
            return False
    return True
