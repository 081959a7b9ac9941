"""Reading of segments with their overflow files.

This module imports neither asyncio nor Arrow, so that `kvwal get` starts fast.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import google_crc32c

from kvwal.entry import Decode, Entry
from kvwal.errors import CorruptLog
from kvwal.log.files.format import Header, OverflowReference
from kvwal.log.files.names import OVERFLOW
from kvwal.log.files.segment import SealedSegment
from kvwal.log.reader import ReadOverflow, SegmentReader, Window, streamed
from kvwal.ports.disk import Buffer, Disk

_STEP = 1 << 20


def open_segment(disk: Disk, path: Path, source: Buffer | Window) -> SegmentReader:
    """A walk over a segment whose bytes are `source`. Its overflow files are read from `disk`."""
    return SegmentReader(path, source, overflow=overflow_of(disk))


def sealed_blocks(disk: Disk, segment: SealedSegment, decode: Decode) -> Iterator[tuple[int, list[Entry]]]:
    """The entries of a sealed segment by blocks, each with the sequence of its first entry.

    Raises `CorruptLog`, after the last block at the latest, if it is not whole, or not the segment that was sealed.
    """
    with disk.view(segment.path) as buffer:
        reader = open_segment(disk, segment.path, buffer)
        yield from streamed(reader, buffer, reader.numbered(decode))
        if reader.seal is None or reader.seal_crc != segment.crc:
            raise reader.damage()


def open_by_parts(disk: Disk, path: Path) -> SegmentReader:
    """A walk over a segment that holds no file open: the segment and its overflow files are read one part at a time."""
    return SegmentReader(path, _window(disk, path), overflow=partial(_read_by_parts, disk))


def overflow_of(disk: Disk) -> ReadOverflow:
    """The reading of overflow files from this disk."""
    return partial(_read, disk)


def _read(
    disk: Disk, segment: Path, header: Header, reference: OverflowReference, decode: Decode, holding: Sequence[bytes]
) -> Iterator[tuple[int, list[Entry]]]:
    """The entries have the timestamp of the reference. Raises `CorruptLog` for a file that is missing, and, after the last block
    at the latest, for one that is not the file that was written. `FileNotFoundError` if the segment is gone, too.
    """
    path = _path_of(disk, segment, reference)
    with disk.view(path) as buffer:
        reader = SegmentReader(path, buffer)
        _check_log(reader, header)
        crc, checked = 0, 0
        for first, entries in streamed(reader, buffer, reader.numbered(decode, holding)):
            crc, checked = _crc(buffer, checked, reader.end, crc), reader.end
            for entry in entries:
                entry.timestamp = reference.timestamp
            yield first - 1, entries
        crc = _crc(buffer, checked, len(buffer), crc)
        if reader.seal is None:
            raise reader.corrupt("the block here does not verify, and the file was durable.")
        if (len(buffer), reader.count, crc) != (reference.bytes, reference.entries, reference.crc):
            raise reader.corrupt(
                f"{segment.name} says {reference.bytes} bytes, {reference.entries} entries and the checksum {reference.crc}, and"
                f" the file has {len(buffer)}, {reader.count} and {crc}."
            )


def _read_by_parts(
    disk: Disk, segment: Path, header: Header, reference: OverflowReference, decode: Decode, holding: Sequence[bytes]
) -> Iterator[tuple[int, list[Entry]]]:
    """As `_read`. Of the file its blocks are checked, and its end; it was checked as a whole when the log was opened."""
    path = _path_of(disk, segment, reference)
    reader = SegmentReader(path, _window(disk, path))
    _check_log(reader, header)
    for first, entries in reader.numbered(decode, holding):
        for entry in entries:
            entry.timestamp = reference.timestamp
        yield first - 1, entries
    if reader.seal is None:
        raise reader.corrupt("the block here does not verify, and the file was durable.")


def _window(disk: Disk, path: Path) -> Window:
    return Window(partial(disk.read_part, path))


def _path_of(disk: Disk, segment: Path, reference: OverflowReference) -> Path:
    """The overflow file. `CorruptLog` if it is missing, `FileNotFoundError` if the segment is gone, too."""
    path = segment.parent / OVERFLOW / reference.file
    if not disk.exists(path):
        if not disk.exists(segment):
            raise FileNotFoundError(errno.ENOENT, "the log does not need it any more", str(path))
        raise CorruptLog(f"{segment.name} names this overflow file, and it is missing.", path=path, offset=0)
    return path


def _check_log(reader: SegmentReader, header: Header) -> None:
    if reader.header.log_id != header.log_id:
        raise reader.corrupt("the overflow file is one of another log.", 0)


def _crc(buffer: Buffer, begin: int, end: int, crc: int) -> int:
    """The CRC-32C of a part of a file, after `crc`."""
    for at in range(begin, end, _STEP):
        crc = int(google_crc32c.extend(crc, buffer[at : min(end, at + _STEP)]))
    return crc
