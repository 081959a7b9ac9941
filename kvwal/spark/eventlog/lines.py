"""The lines of one event log file, plain or compressed. A line or block that is not yet written to its end is not returned.

The magic bytes at the start of a file tell its compression, because a renamed file may have lost its suffix. A plain file has
no magic bytes. The lz4 and snappy framings are those of lz4-java and snappy-java. The block checksum of lz4-java (xxhash) is not
verified: a damaged block gives damaged lines, and the parser finds those.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Protocol

import lz4.block
import zstandard

from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.spark.eventlog.file_kinds import READ, told_kind
from kvwal.spark.eventlog.listing import ReadableFile

CHUNK = 256 << 10
MAX_LINE = 64 << 20
MAX_BLOCK = 64 << 20
_KEPT_OF_LONG_LINE = 2_000
_KEPT_OF_THE_END = 256
"""Bytes before the point that was read to. They tell whether a file is still the one that was read."""
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"LZ4Block"
_SNAPPY = b"\x82SNAPPY\x00"
_LZF = b"ZV"
_MAGICS = (_ZSTD, _LZ4, _SNAPPY, _LZF)


class DamagedFile(KvwalError):
    """Compressed bytes that cannot be decompressed. The rest of the file cannot be read."""

    kind = Kind.DAMAGE


class Decompressor(Protocol):
    """A streaming decompressor: bytes of the file in, bytes of the log out."""

    def feed(self, data: bytes) -> bytes:
        """The log's bytes that are complete now, each returned once. Raises `DamagedFile`."""
        ...


class _Plain:
    def feed(self, data: bytes) -> bytes:
        return data


class _Gzip:
    """Members of gzip, one after the other, with zeros after the last one."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def feed(self, data: bytes) -> bytes:
        parts = []
        try:
            while data:
                if self._member.eof:
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
                parts.append(self._member.decompress(data))
                data = self._member.unused_data
        except zlib.error as error:
            raise DamagedFile(f"the gzip stream is damaged: {error}") from error
        return b"".join(parts)


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def feed(self, data: bytes) -> bytes:
        try:
            return self._stream.decompress(data)
        except zstandard.ZstdError as error:
            raise DamagedFile(f"the zstd stream is damaged: {error}") from error


class _Blocks:
    """A stream of blocks, each after a header of fixed length."""

    header_size = 0

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        rest, at, parts = self._rest, 0, []
        while len(rest) - at >= self.header_size:
            header = bytes(rest[at : at + self.header_size])
            size, original_size = self._sizes(header)
            if not 0 <= size <= MAX_BLOCK or not 0 <= original_size <= MAX_BLOCK:
                raise DamagedFile(f"Spark writes no block of {size} bytes for {original_size} bytes of log")
            at_block = at + self.header_size
            if len(rest) - at_block < size:
                break
            block = bytes(rest[at_block : at_block + size])
            parts.append(self._decompress(block, header, original_size) if size else b"")
            at = at_block + size
        del rest[:at]
        return b"".join(parts)

    def _sizes(self, header: bytes) -> tuple[int, int]:
        """Compressed and decompressed size of the block; the latter is 0 where the header lacks it."""
        raise NotImplementedError

    def _decompress(self, block: bytes, header: bytes, original_size: int) -> bytes:
        """The bytes of one block, decompressed."""
        raise NotImplementedError


class _Lz4(_Blocks):
    """Blocks of lz4-java: magic (8), token (1), compressed size, decompressed size, checksum (4 each, little-endian), data."""

    header_size = 21

    def _sizes(self, header: bytes) -> tuple[int, int]:
        if not header.startswith(_LZ4):
            raise DamagedFile("an lz4 block does not begin with its magic bytes")
        return int.from_bytes(header[9:13], "little"), int.from_bytes(header[13:17], "little")

    def _decompress(self, block: bytes, header: bytes, original_size: int) -> bytes:
        if header[8] & 0xF0 == 0x10:  # stored without compression
            return block
        try:
            data: bytes = lz4.block.decompress(block, uncompressed_size=original_size)
        except lz4.block.LZ4BlockError as error:
            raise DamagedFile(f"an lz4 block is damaged: {error}") from error
        return data


class _Snappy(_Blocks):
    """Blocks of snappy-java: a file header of 16 bytes, then size (4, big-endian) and data of each block."""

    header_size = 4

    def __init__(self) -> None:
        super().__init__()
        import pyarrow as pa  # the import is slow, and few logs are compressed with snappy

        self._codec: Any = pa.Codec("snappy")

    def feed(self, data: bytes) -> bytes:
        self._rest += data
        if self._rest.startswith(_SNAPPY):
            if len(self._rest) < 16:
                return b""
            del self._rest[:16]
        return super().feed(b"")

    def _sizes(self, header: bytes) -> tuple[int, int]:
        size = int.from_bytes(header, "big")
        if not size:  # snappy-java writes no empty block, and a run of zeros would read as thousands of them
            raise DamagedFile("a snappy block has no bytes")
        return size, 0

    def _decompress(self, block: bytes, header: bytes, original_size: int) -> bytes:
        size, shift = 0, 0
        for byte in block[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        try:
            data: bytes = self._codec.decompress(block, min(size, MAX_BLOCK), asbytes=True)
        except (OSError, ValueError) as error:
            raise DamagedFile(f"a snappy block is damaged: {error}") from error
        return data


def _decompressor(path: ReadableFile, start: bytes) -> Decompressor:
    if start.startswith(_GZIP):
        return _Gzip()
    if start.startswith(_ZSTD):
        return _Zstd()
    if start.startswith(_LZ4):
        return _Lz4()
    if start.startswith(_SNAPPY):
        return _Snappy()
    if start.startswith(_LZF):
        raise ConfigError(f"{path} {told_kind(start)}.", hint=READ)
    return _Plain()


def log_bytes(path: ReadableFile) -> Iterator[bytes]:
    """The bytes of a log file as far as it is written, decompressed, in chunks. `DamagedFile` where it is damaged."""
    with path.open("rb") as file:
        data = file.read(CHUNK)
        if len(data) < len(_LZ4) and any(magic.startswith(data) for magic in _MAGICS):  # a compressed file has begun
            return
        decompressor = _decompressor(path, data)
        while data:
            yield decompressor.feed(data)
            data = file.read(CHUNK)


class Lines:
    """A reader of lines from a file that may still grow, and that may be renamed meanwhile.

    Memory: one chunk, and twice one line, of which at most `MAX_LINE` bytes are kept. Of a longer line only the beginning is
    returned: no event of Spark is so long. The time is linear in the bytes, for lines of any length.
    """

    def __init__(self, path: ReadableFile, start: int = 0) -> None:
        """`start` is the byte at which a line begins; only in a file without compression may it be other than 0."""
        self.path = path
        self.last_line: int | None = None
        """The byte at which the last line returned begins; None before the first line, and of a compressed file."""
        self._file = path.open("rb")
        self._file.seek(start)
        self._position = start
        self._end = b""
        self._decompressor: Decompressor | None = _Plain() if start else None
        self._rest = bytearray()
        self._forgotten = 0  # bytes of the line in `_rest` that are not kept
        self._start = b""

    def more(self) -> list[bytes] | None:
        """The next complete lines, without their ends; perhaps none: call again. None at the present end of the file."""
        data = self._file.read(CHUNK)
        if not data:
            return None
        self._position += len(data)
        self._end = (self._end + data[-_KEPT_OF_THE_END:])[-_KEPT_OF_THE_END:]
        if self._decompressor is None:
            data = self._start + data
            if len(data) < len(_LZ4):
                self._start = data
                return []
            self._decompressor = _decompressor(self.path, data)
        lines = self._decompressor.feed(data).split(b"\n")
        rest = lines.pop()
        if lines:
            self._extend_rest(lines[0])
            lines[0] = bytes(self._rest)
            self._note_last_line(lines, len(rest))
            self._rest, self._forgotten = bytearray(), 0
        self._extend_rest(rest)
        return lines

    def _extend_rest(self, data: bytes) -> None:
        """Add bytes to the line that has no end yet. Nothing is added to a line that is too long."""
        if self._forgotten or len(self._rest) + len(data) > MAX_LINE:
            kept = len(self._rest) + len(data)
            self._rest += data[: max(0, _KEPT_OF_LONG_LINE - len(self._rest))]
            del self._rest[_KEPT_OF_LONG_LINE:]
            self._forgotten += kept - len(self._rest)
        else:
            self._rest += data

    def _note_last_line(self, lines: list[bytes], after: int) -> None:
        """Note where the last of these lines begins; `after` bytes were read after its end."""
        if isinstance(self._decompressor, _Plain):
            forgotten = self._forgotten if len(lines) == 1 else 0
            self.last_line = self._position - after - 1 - len(lines[-1]) - forgotten

    @property
    def rest(self) -> bytes:
        """The bytes after the last line end."""
        return bytes(self._rest)

    def unfinished(self) -> bytes:
        """The bytes after the last line end, returned once. The first bytes of a compressed file are no line."""
        if self._decompressor is None and not any(magic.startswith(self._start) for magic in _MAGICS):
            self._rest, self._start = bytearray(self._start), b""
        rest, self._rest, self._forgotten = bytes(self._rest), bytearray(), 0
        return rest

    def tell(self) -> int:
        """Bytes of the file read so far."""
        return self._position

    def move_to(self, path: ReadableFile) -> bool:
        """Go on in a newer version of the file, under its present name. False if it is another file: its bytes differ."""
        self.close()
        self.path = path
        self._file = path.open("rb")
        self._file.seek(self._position - len(self._end))
        return self._file.read(len(self._end)) == self._end

    def close(self) -> None:
        """Close the file. `move_to` opens it again."""
        self._file.close()
