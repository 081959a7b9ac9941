"""The lines of one event log file, plain or compressed, as far as it is written: what is not whole yet is not there yet.

Spark names no format inside a plain log, but every compressed one begins with its own mark, which outlives renaming.
The lz4 and snappy framings are those of lz4-java and snappy-java; lz4-java's block checksum (xxhash) is not verified, as a
damaged block gives damaged lines, and those are found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Protocol

import lz4.block
import zstandard

from kvwal.errors import ConfigError, Kind, KvwalError

CHUNK = 256 << 10
MAX_LINE = 64 << 20
MAX_BLOCK = 64 << 20
_KEPT_OF_OVERLONG = 2_000
_ZSTD = b"\x28\xb5\x2f\xfd"
_LZ4 = b"LZ4Block"
_SNAPPY = b"\x82SNAPPY\x00"
_LZF = b"ZV"


class DamagedFile(KvwalError):
    """Compressed bytes that cannot be what Spark wrote: nothing behind them can be read."""

    kind = Kind.DAMAGE


class Decompress(Protocol):
    """Turns the next bytes of a file into the next bytes of the log."""

    def feed(self, data: bytes) -> bytes:
        """All that is whole so far, and was not given before. Raises `DamagedFile`."""
        ...


class _Plain:
    def feed(self, data: bytes) -> bytes:
        return data


class _Zstd:
    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)

    def feed(self, data: bytes) -> bytes:
        try:
            return self._stream.decompress(data)
        except zstandard.ZstdError as error:
            raise DamagedFile(f"the zstd stream is damaged: {error}") from error


class _Blocks:
    """A stream of blocks, each behind a head of fixed length."""

    head = 0

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data, at, parts = self._rest + data, 0, []
        while len(data) - at >= self.head:
            size, whole = self._measure(data[at : at + self.head])
            if not 0 <= size <= MAX_BLOCK or not 0 <= whole <= MAX_BLOCK:
                raise DamagedFile(f"a block of {size} bytes that hold {whole} is no block of Spark's")
            if len(data) - at - self.head < size:
                break
            block = data[at + self.head : at + self.head + size]
            parts.append(self._open(block, data[at : at + self.head], whole) if size else b"")
            at += self.head + size
        self._rest = data[at:]
        return b"".join(parts)

    def _measure(self, head: bytes) -> tuple[int, int]:
        """Bytes behind the head, and bytes that they hold."""
        raise NotImplementedError

    def _open(self, block: bytes, head: bytes, whole: int) -> bytes:
        """What a block holds."""
        raise NotImplementedError


class _Lz4(_Blocks):
    """Mark (8), token (1), compressed and whole length, checksum (4 each, little-endian), then the block."""

    head = 21

    def _measure(self, head: bytes) -> tuple[int, int]:
        if not head.startswith(_LZ4):
            raise DamagedFile("an lz4 block does not begin with its mark")
        return int.from_bytes(head[9:13], "little"), int.from_bytes(head[13:17], "little")

    def _open(self, block: bytes, head: bytes, whole: int) -> bytes:
        if head[8] & 0xF0 == 0x10:
            return block
        try:
            opened: bytes = lz4.block.decompress(block, uncompressed_size=whole)
        except lz4.block.LZ4BlockError as error:
            raise DamagedFile(f"an lz4 block is damaged: {error}") from error
        return opened


class _Snappy(_Blocks):
    """A head of 16 bytes, then blocks: length (4, big-endian), snappy."""

    head = 4

    def __init__(self) -> None:
        super().__init__()
        import pyarrow as pa  # slow to import, and hardly a log is compressed with snappy

        self._codec: Any = pa.Codec("snappy")

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        if data.startswith(_SNAPPY):
            if len(data) < 16:
                self._rest = data
                return b""
            data = data[16:]
        self._rest = b""
        return super().feed(data)

    def _measure(self, head: bytes) -> tuple[int, int]:
        size = int.from_bytes(head, "big")
        if not size:  # nobody writes one, and zeros in the place of data are thousands of them
            raise DamagedFile("a snappy block has no bytes")
        return size, 0

    def _open(self, block: bytes, head: bytes, whole: int) -> bytes:
        size, shift = 0, 0
        for byte in block[:5]:
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        try:
            opened: bytes = self._codec.decompress(block, min(size, MAX_BLOCK), asbytes=True)
        except (OSError, ValueError) as error:
            raise DamagedFile(f"a snappy block is damaged: {error}") from error
        return opened


def _decompressor(path: Path, head: bytes) -> Decompress:
    if head.startswith(_ZSTD):
        return _Zstd()
    if head.startswith(_LZ4):
        return _Lz4()
    if head.startswith(_SNAPPY):
        return _Snappy()
    if head.startswith(_LZF):
        raise ConfigError(f"{path} is compressed with lzf.", hint="kvwal reads plain, zstd, lz4 and snappy event logs.")
    return _Plain()


class Lines:
    """Reads a file that may still grow, and that may be renamed meanwhile. Memory: one chunk and the longest line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        self._decompress: Decompress | None = None
        self._rest = b""
        self._head = b""

    def more(self) -> list[bytes] | None:
        """The next whole lines, without their ends (perhaps none: call again), or None where the file ends for now."""
        data = self._file.read(CHUNK)
        if not data:
            return None
        if self._decompress is None:
            data = self._head + data
            if len(data) < len(_LZ4):
                self._head = data
                return []
            self._decompress = _decompressor(self.path, data)
        lines = (self._rest + self._decompress.feed(data)).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE:  # its end will not make it an event: keep what shows which one it was
            self._rest = self._rest[:_KEPT_OF_OVERLONG]
        return lines

    def unfinished(self) -> bytes:
        """What stands behind the last end of a line, handed over once."""
        rest, self._rest = self._rest, b""
        return rest

    def tell(self) -> int:
        """Bytes of the file read so far."""
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
