"""The file of terms of a range of a log: an index that says which rows of the file of events have a term.

It is a sorted table in blocks, and a directory of the blocks at its end (docs/format/events.md). The directory is in memory while
the file is in use, some bytes for a thousand terms. So a term that no event has costs one short read, and another one two.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple

import google_crc32c
import msgspec

from kvwal.log.files.compression import compress, decompress

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"kvterms1"
BLOCK_TERMS = 1 << 10
"""Terms of a block: a term that is nowhere costs the read of 12 bytes for each."""
_TAIL = struct.Struct("<II8s")
_HEAD_BYTES = 12


class TermRows(NamedTuple):
    """The rows of a term that is in a file. `size` is about their number, `read` gives them, in order."""

    size: int
    read: Callable[[], pa.Array]


class DamagedTermsError(ValueError):
    """A file of terms that does not verify."""


class _Directory(msgspec.Struct, array_like=True, frozen=True):
    """What a file of terms has: of each block the first term, where it begins, the number of terms, and its checksums."""

    events: int
    first_timestamp: int
    last_timestamp: int
    firsts: bytes
    offsets: bytes
    counts: bytes
    head_crcs: bytes
    row_crcs: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Directory).decode


def encoded_terms(table: pa.Table, timestamps: pa.ChunkedArray) -> Iterable[bytes]:
    """The bytes of a file, in parts: of a sorted table of terms, and the timestamps of the events, in order."""
    import pyarrow.compute as pc

    runs = pc.run_end_encode(table.column("term").combine_chunks())
    terms, ends = _numbers(runs.values, "Q"), _numbers(runs.run_ends, "i")
    rows = _numbers(table.column("row").combine_chunks(), "I")
    yield MAGIC
    firsts, offsets, counts = array("Q"), array("Q", [len(MAGIC)]), array("I")
    crcs = array("I"), array("I")
    begin = 0
    for at in range(0, len(terms), BLOCK_TERMS):
        block = terms[at : at + BLOCK_TERMS]
        in_block = array("I", [end - begin for end in ends[at : at + BLOCK_TERMS]])
        parts = block.tobytes() + in_block.tobytes(), _packed_rows(rows[begin : begin + in_block[-1]])
        firsts.append(block[0])
        counts.append(len(block))
        offsets.append(offsets[-1] + sum(map(len, parts)))
        for crc, part in zip(crcs, parts, strict=True):
            crc.append(google_crc32c.value(part))
        yield from parts
        begin += in_block[-1]
    found = [each.tobytes() for each in (firsts, offsets, counts, *crcs)]
    directory = _encode(_Directory(len(timestamps), *pc.min_max(timestamps).as_py().values(), *found))
    yield directory
    yield _TAIL.pack(len(directory), google_crc32c.value(directory), MAGIC)


def _packed_rows(rows: memoryview[int]) -> bytes:
    """The rows of a block, as differences: most are small, or alike."""
    import pyarrow.compute as pc

    whole = _column(rows)
    plain = rows[:1].tobytes() + _numbers(pc.subtract(whole[1:], whole[:-1]), "I").tobytes()
    return compress(plain) or plain


def _numbers(column: pa.Array, kind: Literal["Q", "I", "i"]) -> memoryview[int]:
    """The numbers of a column without nulls. They are not copied."""
    whole = memoryview(column.buffers()[1]).cast("B")
    width = struct.calcsize(kind)
    return whole[column.offset * width : (column.offset + len(column)) * width].cast(kind)


def _column(numbers: memoryview[int]) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.uint32(), len(numbers), [None, pa.py_buffer(numbers)])


class TermsFile:
    """A file of terms, of which `read` gives the bytes at an offset. Any number of threads may use it.

    Raises `DamagedTermsError` for bytes that do not verify.
    """

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        tail = read(max(0, size - _TAIL.size), _TAIL.size)
        if len(tail) < _TAIL.size or not tail.endswith(MAGIC):
            raise DamagedTermsError("it has no end")
        length, crc, _ = _TAIL.unpack(tail)
        if length > size - _TAIL.size:
            raise DamagedTermsError("its end is none")
        encoded = self._part(size - _TAIL.size - length, length, crc)
        directory = _decode(encoded)
        self.events = directory.events
        self.first_timestamp = directory.first_timestamp
        self.last_timestamp = directory.last_timestamp
        self._firsts = memoryview(directory.firsts).cast("Q")
        self._offsets = memoryview(directory.offsets).cast("Q")
        self._counts = memoryview(directory.counts).cast("I")
        self._head_crcs = memoryview(directory.head_crcs).cast("I")
        self._row_crcs = memoryview(directory.row_crcs).cast("I")

    def find(self, term: int) -> TermRows | None:
        """The rows of a term, None if no event has it."""
        block = bisect_right(self._firsts, term) - 1
        if block < 0:
            return None
        terms, ends = self._head(block)
        at = bisect_left(terms, term)
        if at == len(terms) or terms[at] != term:
            return None
        begin, end = (ends[at - 1] if at else 0), ends[at]
        return TermRows(end - begin, lambda: self._rows(block, ends[-1])[begin:end])

    def table(self) -> tuple[pa.Array, pa.Array]:
        """All terms, and their rows."""
        import pyarrow as pa
        import pyarrow.compute as pc

        all_terms, all_rows = [pa.array([], pa.uint64())], [pa.array([], pa.uint32())]
        for block in range(len(self._firsts)):
            terms, ends = self._head(block)
            values = pa.Array.from_buffers(pa.uint64(), len(terms), [None, pa.py_buffer(terms)])
            runs = pa.RunEndEncodedArray.from_arrays(_column(ends).cast(pa.int32()), values)
            all_terms.append(pc.run_end_decode(runs))
            all_rows.append(self._rows(block, ends[-1]))
        return pa.concat_arrays(all_terms), pa.concat_arrays(all_rows)

    def _head(self, block: int) -> tuple[memoryview[int], memoryview[int]]:
        """The terms of a block, and where the rows of each end among those of the block."""
        count = self._counts[block]
        data = memoryview(self._part(self._offsets[block], count * _HEAD_BYTES, self._head_crcs[block]))
        return data[: count * 8].cast("Q"), data[count * 8 :].cast("I")

    def _rows(self, block: int, count: int) -> pa.Array:
        """The rows of all terms of a block."""
        import pyarrow.compute as pc

        begin = self._offsets[block] + self._counts[block] * _HEAD_BYTES
        packed = self._part(begin, self._offsets[block + 1] - begin, self._row_crcs[block])
        plain = packed if len(packed) == count * 4 else decompress(packed, count * 4)
        if plain is None or len(plain) != count * 4:
            raise DamagedTermsError("a block has not its rows")
        return pc.cumulative_sum(_column(memoryview(plain).cast("I")))

    def _part(self, offset: int, size: int, crc: int) -> bytes:
        data = self._read(offset, size)
        if len(data) != size or google_crc32c.value(data) != crc:
            raise DamagedTermsError(f"bytes {offset}–{offset + size} are not as they were written")
        return data
