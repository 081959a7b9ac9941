"""Segment writer: positions of blocks, growth of the file, and its seal. The appender decides when each happens."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.log.files.atomic_file import write_file
from kvwal.log.files.format import (
    DURABLE,
    BlockKind,
    Header,
    OverflowPayload,
    Seal,
    block_size,
    pack_block,
    pack_header,
    pack_seal,
)
from kvwal.log.files.names import partial_name, segment_name
from kvwal.ports.disk import Disk, File, Folder
from kvwal.ports.space import DiskSpace

SEAL_ROOM = 128
"""Bytes kept free at the end of a segment for its seal, so that sealing never needs disk space. The end mark fits in, too."""
_FIRST_STEP = 64 << 10
_END_MARK = bytes(16)
"""Zeros after the header or the last group, overwritten by the next group. In a recycled file they separate the log's end from
stale bytes, so that stale bytes are not taken for a torn block."""


class SealedSegment(NamedTuple):
    """A segment that is complete and never changes again. `size` is in bytes, with those of its overflow files."""

    path: Path
    first: int
    last: int
    previous_crc: int
    crc: int
    size: int


def blank_file(disk: Disk, folder: Path) -> File:
    """A new file for the next segment, for when no preallocated segment is ready. `OSError` on a full disk.

    The file is small and may take from the disk reserve: without it a full log could be neither sealed nor archived.
    """
    path = folder / partial_name("next")
    disk.unlink(path)
    file = disk.create(path)
    try:
        file.allocate(_FIRST_STEP)
    except OSError:
        file.close()
        disk.unlink(path)
        raise
    return file


class Segment:
    """A segment file open for appending. Used by one thread at a time; every method may raise `OSError`.

    `position` is the offset of the next block, `entries` the number of entries in the file, `overflowed` the bytes of the
    overflow files that its blocks name, and `clean` says whether the whole file was fdatasynced.
    """

    def __init__(
        self, disk: Disk, space: DiskSpace, folder: Path, header: Header, limit: int, file: File, names: Folder
    ) -> None:
        """Turn `file` (of `blank_file`, or preallocated) into the segment: write a durable header, then rename the file.

        `names` is the open `folder`, whose sync makes the name durable; no other file descriptor is needed. A segment of that
        name without entries is replaced. `limit` is the size at which the segment should end.
        """
        self.header = header
        self.limit = limit
        self._disk = disk
        self._ended = False
        self.path = folder / segment_name(header.first_sequence)
        self.entries = self.overflowed = 0
        parts = pack_header(header)
        self.position = sum(map(len, parts))
        self._file: File | None = file
        self._space = space
        self._allocated = disk.size(file.path)
        file.write_at(0, [*parts, _END_MARK])
        file.datasync()
        disk.rename(file.path, self.path)
        names.sync()
        self.clean = True

    @property
    def is_open(self) -> bool:
        """Whether the segment holds a file descriptor now."""
        return self._file is not None

    def release_descriptor(self) -> None:
        """Sync the file and close its descriptor. The next use opens it again."""
        self.datasync()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def reserve(self, payloads: Sequence[bytes]) -> None:
        """Allocate disk space for blocks with these payloads and for a seal, and open the file. Raises before anything is
        written.
        """
        file = self._open
        need = self._end_of(payloads)
        if need > self._allocated:
            wish = min(2 * self._allocated, self.limit)
            self._allocated = self._space.grow(file, self._allocated, need, wish)

    def fits(self, payloads: Sequence[bytes]) -> bool:
        """Whether blocks with these payloads end before the segment's limit."""
        return self._end_of(payloads) + self.overflowed <= self.limit

    def is_ready(self, payloads: Sequence[bytes]) -> bool:
        """Whether blocks with these payloads fit, are allocated, and the file is open: the usual case."""
        return self._file is not None and self._end_of(payloads) <= min(self._allocated, self.limit - self.overflowed)

    def _end_of(self, payloads: Sequence[bytes]) -> int:
        """Where the file ends after blocks with these payloads and a seal."""
        return self.position + sum([block_size(len(payload)) for payload in payloads]) + SEAL_ROOM

    def append(self, payloads: Sequence[bytes], entries: int) -> None:
        """Write one block for each payload, with one system call. Durable after `datasync`."""
        parts: list[bytes] = []
        position, overflowed = self.position, 0
        for payload in payloads:
            flags = DURABLE if self.clean else 0
            self.clean = False
            kind = BlockKind.ENTRIES
            if isinstance(payload, OverflowPayload):
                kind = BlockKind.OVERFLOW
                overflowed += payload.overflowed
            block, _ = pack_block(kind, payload, salt=self.header.salt, offset=position, flags=flags)
            parts += block
            position += block_size(len(payload))
        self._open.write_at(self.position, [*parts, _END_MARK])
        self.position = position
        self.entries += entries
        self.overflowed += overflowed

    def datasync(self) -> None:
        """Return when the whole segment survives a power cut."""
        if not self.clean:
            self._open.datasync()
            self.clean = True

    def seal(self) -> SealedSegment:
        """End the file: sync the blocks, write the seal, free the space allocated after it, and sync again."""
        self.datasync()
        last = self.header.first_sequence + self.entries - 1
        parts, crc = pack_seal(
            Seal(last_sequence=last, entries=self.entries, bytes=self.position), salt=self.header.salt
        )
        self._open.write_at(self.position, parts)
        size = self.position + sum(map(len, parts))
        if self._allocated > size:
            self._open.truncate(size)
        self._open.datasync()
        self.close()
        size += self.overflowed
        return SealedSegment(self.path, self.header.first_sequence, last, self.header.previous_crc, crc, size)

    def close(self) -> None:
        """Close the file as it is. A second call does nothing."""
        self._ended = True
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _open(self) -> File:
        if self._ended:
            raise OSError(errno.EBADF, "the segment is closed", str(self.path))
        if self._file is None:
            if self._disk.links(self.path) > 1:  # a copy of the log has the file, too
                with self._disk.view(self.path) as buffer:
                    write_file(self._disk, self.path, [bytes(buffer)])
            self._file = self._disk.open(self.path)
        return self._file
