"""The bytes of a kept log: frames of zstd that can be read by themselves, and a seek table at the end.

    frame of log lines, …       each ends at the end of a line (`writer`)
    skippable frame             an index of the task events so far (`stage_index`), one or more between the frames of lines
    skippable frame             the directory: what the log is, and where its indexes are
    skippable frame             the seek table: the sizes of all frames before it, in zstd's seekable format

Every reader of zstd passes over skippable frames, Spark's History Server and the command `zstd` too. So the file reads as the log
itself. docs/format/kept-log.md has the bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec
import zstandard

from kvwal.errors import Kind, KvwalError

FRAME_BYTES = 128 << 10
"""Log bytes of a frame, at least: it goes on to the end of its last line. Smaller frames compress worse, and a task that lies
alone costs the decompression of its frame (docs/decisions/0112-kept-event-logs.md)."""
LEVEL = 1
VERSION = 1
_SKIPPABLE, _SEEKABLE_SKIPPABLE, _SEEKABLE = 0x184D2A50, 0x184D2A5E, 0x8F92EAB1
_SKIPPABLE_HEAD = struct.Struct("<II")
_SEEK_FOOTER = struct.Struct("<IBI")
_DIRECTORY = b"kvwal event log\n"
_CHECK = struct.Struct("<I")


class DamagedKeptLog(KvwalError):
    """The bytes of a kept log are not those that were written."""

    kind = Kind.DAMAGE


class FrameSizes(NamedTuple):
    """One entry of the seek table. A skippable frame has no log bytes."""

    stored: int
    log: int


class IndexPlace(NamedTuple):
    """Where an index of task events is in the file, and the first and the last stage in it."""

    offset: int
    size: int
    first_stage: int
    last_stage: int


class Directory(msgspec.Struct, frozen=True):
    """What a kept log is: the number of its bytes and lines, the hash of its bytes, and its indexes in the order of the log."""

    version: int
    bytes: int
    lines: int
    task_lines: int
    sha256: str
    indexes: list[IndexPlace]


class SeekTable:
    """The places of the frames of log lines, by the offset of their first byte in the log."""

    def __init__(self, sizes: Sequence[FrameSizes]) -> None:
        places = zip(accumulate((size.stored for size in sizes), initial=0), sizes, strict=False)
        kept = [(place, size) for place, size in places if size.log]
        self.stored_starts = [place for place, _ in kept]
        self.stored_sizes = [size.stored for _, size in kept]
        self.log_sizes = [size.log for _, size in kept]
        self.log_starts = list(accumulate(self.log_sizes, initial=0))[:-1]


def compressor() -> zstandard.ZstdCompressor:
    """The compressor of all frames: each has its size and a checksum."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True, write_content_size=True)


def skippable(payload: bytes) -> bytes:
    """A frame that readers of zstd pass over."""
    return _SKIPPABLE_HEAD.pack(_SKIPPABLE, len(payload)) + payload


def payload_of(frame: bytes) -> bytes:
    """The payload of a skippable frame. `DamagedKeptLog` for another frame."""
    if len(frame) < _SKIPPABLE_HEAD.size or _SKIPPABLE_HEAD.unpack_from(frame) != (
        _SKIPPABLE,
        len(frame) - _SKIPPABLE_HEAD.size,
    ):
        raise DamagedKeptLog("a frame of the index is not whole")
    return frame[_SKIPPABLE_HEAD.size :]


def directory_frame(directory: Directory) -> bytes:
    """The frame of a directory."""
    text = msgspec.json.encode(directory)
    return skippable(_DIRECTORY + _CHECK.pack(zlib.crc32(text)) + text)


def parse_directory(frame: bytes) -> Directory:
    """The directory in a frame. `DamagedKeptLog` if it is not whole, or of a later version."""
    payload = payload_of(frame)
    text = payload[len(_DIRECTORY) + _CHECK.size :]
    if payload[: len(_DIRECTORY) + _CHECK.size] != _DIRECTORY + _CHECK.pack(zlib.crc32(text)):
        raise DamagedKeptLog("its directory is not whole")
    try:
        directory = msgspec.json.decode(text, type=Directory)
    except msgspec.DecodeError as error:
        raise DamagedKeptLog(f"its directory cannot be read ({error})") from error
    if directory.version != VERSION:
        raise DamagedKeptLog(f"it has version {directory.version}, and this kvwal reads version {VERSION}")
    return directory


def seek_table_frame(sizes: Sequence[FrameSizes]) -> bytes:
    """The seek table of all frames before it."""
    numbers = [number for size in sizes for number in size]
    entries = struct.pack(f"<{len(numbers)}I", *numbers)
    footer = _SEEK_FOOTER.pack(len(sizes), 0, _SEEKABLE)
    return _SKIPPABLE_HEAD.pack(_SEEKABLE_SKIPPABLE, len(entries) + len(footer)) + entries + footer


SEEK_FOOTER_BYTES = _SEEK_FOOTER.size


def seek_table_bytes(footer: bytes) -> int:
    """Bytes of the seek table's frame, from the last `SEEK_FOOTER_BYTES` of the file. `DamagedKeptLog` if there is none."""
    if len(footer) != _SEEK_FOOTER.size:
        raise DamagedKeptLog("it has no seek table")
    count, flags, magic = _SEEK_FOOTER.unpack(footer)
    if magic != _SEEKABLE or flags:
        raise DamagedKeptLog("it has no seek table")
    return int(_SKIPPABLE_HEAD.size + 8 * count + _SEEK_FOOTER.size)


def parse_seek_table(frame: bytes) -> list[FrameSizes]:
    """The sizes in the frame of a seek table. `DamagedKeptLog` if it is not whole."""
    head = (_SEEKABLE_SKIPPABLE, len(frame) - _SKIPPABLE_HEAD.size)
    if len(frame) < _SKIPPABLE_HEAD.size + _SEEK_FOOTER.size or _SKIPPABLE_HEAD.unpack_from(frame) != head:
        raise DamagedKeptLog("its seek table is not whole")
    entries = frame[_SKIPPABLE_HEAD.size : -_SEEK_FOOTER.size]
    return [FrameSizes(*pair) for pair in struct.iter_unpack("<II", entries)]


class FrameDecompressor:
    """The decompressor of frames, one for many: making one takes longer than decompressing a frame."""

    def __init__(self) -> None:
        self._decompressor = zstandard.ZstdDecompressor()

    def data(self, frame: bytes, most: int) -> bytes:
        """The bytes of a frame, up to a limit. `DamagedKeptLog` if it is not whole, or has more."""
        try:
            if not 0 < zstandard.get_frame_parameters(frame).content_size <= most:
                raise DamagedKeptLog("a frame has another size than it should have")
            data: bytes = self._decompressor.decompress(frame)
        except zstandard.ZstdError as error:
            raise DamagedKeptLog(f"a frame cannot be decompressed ({error})") from error
        return data
