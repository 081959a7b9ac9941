"""The column chunks of an object and their checksums, which guard a reader that takes only some of the chunks.

A Parquet page's own checksum covers its data and not its header. One flipped bit in a header shortens a page, or makes readers
skip it, without any error. So the record in an object's footer has a checksum of each whole chunk
(docs/decisions/0034-chunk-checksums.md).
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    import pyarrow.parquet as pq

DIGITS = 8
REST_BYTES = 1 << 20


class Chunk(NamedTuple):
    """The bytes of one column of one row group, page headers included: [begin, end) of the object."""

    begin: int
    end: int


def chunks_of(metadata: pq.FileMetaData) -> list[Chunk]:
    """All chunks of an object: by row group, and within it by column."""
    return [
        _chunk(metadata.row_group(group).column(column))
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    ]


def _chunk(column: pq.ColumnChunkMetaData) -> Chunk:
    begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return Chunk(begin, begin + column.total_compressed_size)


def crc_of(file: BinaryIO, begin: int, end: int) -> int:
    """The crc32c of the bytes [begin, end) of a file. A part of them is in memory at a time."""
    import google_crc32c

    file.seek(begin)
    crc = 0
    while begin < end and (data := file.read(min(REST_BYTES, end - begin))):
        crc = google_crc32c.extend(crc, data)
        begin += len(data)
    return int(crc)


def chunk_crcs(file: BinaryIO, metadata: pq.FileMetaData) -> bytes:
    """The crc32c of each chunk in eight hexadecimal digits, one after the other, as in the record of the footer."""
    return b"".join(b"%08x" % crc_of(file, begin, end) for begin, end in chunks_of(metadata))


class ChunkFile(io.RawIOBase):
    """A seekable file over an object that computes the checksums of its chunks while a reader reads them."""

    def __init__(self, file: BinaryIO, chunks: Iterable[tuple[Chunk, str]]) -> None:
        """`chunks` are those that will be read, with their checksums. The caller closes `file`."""
        self._file = file
        self._expected = dict(chunks)
        self._reached = {chunk: (chunk.begin, 0) for chunk in self._expected}

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See io.RawIOBase."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """See io.RawIOBase."""
        return self._file.tell()

    def read(self, size: int | None = -1) -> bytes:
        """See io.RawIOBase."""
        at = self._file.tell()
        data = self._file.read(-1 if size is None else size)
        for chunk in self._expected:
            self._follow(chunk, at, data)
        return data

    def _follow(self, chunk: Chunk, at: int, data: bytes) -> None:
        """Extend the checksum of the chunk if `data` continues it. `differing` reads skipped parts later."""
        import google_crc32c

        reached, crc = self._reached[chunk]
        end = min(chunk.end, at + len(data))
        if at <= reached < end:
            self._reached[chunk] = (end, google_crc32c.extend(crc, data[reached - at : end - at]))

    def differing(self) -> Chunk | None:
        """The first chunk that is not as it was written, None if all are. Reads the parts of the chunks that were not read."""
        for chunk, expected in self._expected.items():
            while (left := chunk.end - self._reached[chunk][0]) > 0:
                self._file.seek(self._reached[chunk][0])
                if not self.read(min(left, REST_BYTES)):
                    return chunk
            if f"{self._reached[chunk][1]:08x}" != expected:
                return chunk
        return None
