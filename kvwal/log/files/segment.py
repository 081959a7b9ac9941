"""One segment file being written. No decisions here: where blocks stand, how the file grows, how it is sealed."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.log.files.format import DURABLE, Header, Kind, Seal, block_size, pack_block, pack_header, pack_seal
from kvwal.log.files.names import partial_name, segment_name
from kvwal.ports.disk import Disk, File, Folder
from kvwal.ports.space import DiskSpace

SEAL_ROOM = 128
"""Bytes kept free at the end of a segment, so that its seal never needs room that is not there; the end mark fits in too."""
_FIRST_STEP = 64 << 10
_END_MARK = bytes(16)
"""Zeros behind the header or the last group, which the next one overwrites: in a recycled file they tell a torn block from
stale bytes."""


class SealedSegment(NamedTuple):
    """A segment that will never change again."""

    path: Path
    first: int
    last: int
    previous_crc: int
    crc: int
    size: int


def blank_file(disk: Disk, folder: Path) -> File:
    """A file for the next segment when none was prepared. A full disk raises here, before anything depends on it.

    It is small, and may take from the reserve: without it a full log could not be sealed, and so neither archived.
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
    """A file that takes blocks. Used by one thread at a time; every method may raise `OSError`.

    `position` is where the next block goes, `entries` how many the file holds, `clean` whether all of it was fdatasynced.
    """

    def __init__(
        self, disk: Disk, space: DiskSpace, folder: Path, header: Header, limit: int, file: File, names: Folder
    ) -> None:
        """Make `file` (see `blank_file`, or a spare) the segment: its header durable in it, then its name in `names`, the open
        `folder`. Nothing here needs another file descriptor.

        A segment of that name that holds no entries is replaced. `limit` is the size at which the segment should end.
        """
        self.header = header
        self.limit = limit
        self._disk = disk
        self._ended = False
        self.path = folder / segment_name(header.first_sequence)
        self.entries = 0
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
        """Whether it holds a file descriptor now."""
        return self._file is not None

    def rest(self) -> None:
        """Close the file for now, everything in it durable. Its next use opens it again."""
        self.datasync()
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def reserve(self, payloads: Sequence[bytes]) -> None:
        """Make sure that blocks with these payloads, and a seal, have room on the disk, and that the file is open. Raises before
        anything is written.
        """
        file = self._open
        need = self.position + sum(block_size(len(payload)) for payload in payloads) + SEAL_ROOM
        if need > self._allocated:
            wish = min(2 * self._allocated, self.limit)
            self._allocated = self._space.grow(file, self._allocated, need, wish)

    def fits(self, payloads: Sequence[bytes]) -> bool:
        """Whether blocks with these payloads end before the segment's limit."""
        return self.position + sum(block_size(len(payload)) for payload in payloads) + SEAL_ROOM <= self.limit

    def append(self, payloads: Sequence[bytes], entries: int) -> None:
        """Write one block a payload, with one call. Not durable until `datasync`."""
        parts: list[bytes] = []
        position = self.position
        for payload in payloads:
            flags = DURABLE if self.clean else 0
            self.clean = False
            block, _ = pack_block(Kind.ENTRIES, payload, salt=self.header.salt, offset=position, flags=flags)
            parts += block
            position += block_size(len(payload))
        self._open.write_at(self.position, [*parts, _END_MARK])
        self.position = position
        self.entries += entries

    def datasync(self) -> None:
        """Return when all of the segment survives a power cut."""
        if not self.clean:
            self._open.datasync()
            self.clean = True

    def seal(self) -> SealedSegment:
        """End the file: everything durable, then the seal, durable too. What was allocated behind it is given back."""
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
        return SealedSegment(self.path, self.header.first_sequence, last, self.header.previous_crc, crc, size)

    def close(self) -> None:
        """Let go of the file as it is. Again is no error."""
        self._ended = True
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _open(self) -> File:
        if self._ended:
            raise OSError(errno.EBADF, "the segment is closed", str(self.path))
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file
