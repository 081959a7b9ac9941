"""The overflow files of one log: written before the log names them, and removed with the segment that does.

A transaction above `overflow_bytes` is written and fsynced under a partial name. When its place in the log is known, the file
gets the sequence of its first entry as its name, and the folder is fsynced; only then the block is written that names it. So a
segment's files are known by its sequences, and a crash at any step leaves a partial file, or a file that no block names. Both are
collected by the next open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import msgspec

from kvwal.entry import Entry, encode_entries
from kvwal.log.files.atomic_file import created, unlinked_after_error
from kvwal.log.files.format import (
    BlockKind,
    Header,
    OverflowPayload,
    OverflowReference,
    Seal,
    pack_block,
    pack_header,
    pack_seal,
)
from kvwal.log.files.names import OVERFLOW, overflow_name, overflow_number, partial_name
from kvwal.log.files.snapshot import in_blocks, size_of
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk, File
from kvwal.ports.space import DiskSpace

_WRITE_BYTES = 1 << 20
"""Bytes written at a time: a write lets other threads of the process go on."""


class WrittenOverflow(NamedTuple):
    """A durable file of entries under a partial name, which no block names yet. `crc` is the CRC-32C of its `bytes` bytes."""

    path: Path
    bytes: int
    entries: int
    crc: int
    salt: int


class OverflowFiles:
    """The overflow files of the log in `folder`. `write` and `discard` are for any thread, the other methods for the one that
    writes.
    """

    def __init__(self, disk: Disk, clock: Clock, space: DiskSpace, folder: Path) -> None:
        self._disk = disk
        self._clock = clock
        self._space = space
        self._log_folder = folder
        self._folder = folder / OVERFLOW

    def write(self, header: Header, entries: list[Entry]) -> WrittenOverflow:
        """Write entries into a durable file of the log of `header`. Readers give them the timestamp of the block that names it.

        Raises `OSError`, ENOSPC also if the file would take from the disk reserve, and leaves no file then.
        """
        self._disk.make_folders(self._folder)
        salt = self._clock.random_bits(32)
        path = self._folder / partial_name(f"{self._clock.random_bits(64):016x}")
        with created(self._disk, path) as file:
            written = _Written(file, self._space)
            head = msgspec.structs.replace(
                header, salt=salt, first_sequence=1, previous_crc=0, created_ms=self._clock.wall_ms()
            )
            written.add(pack_header(head))
            for block in in_blocks(entries, size_of):
                payload = encode_entries(block)
                written.add(pack_block(BlockKind.ENTRIES, payload, salt=salt, offset=written.end)[0])
            seal = Seal(last_sequence=len(entries), entries=len(entries), bytes=written.end)
            written.add(pack_seal(seal, salt=salt)[0])
            written.flush()
            file.datasync()
        return WrittenOverflow(path, written.end, len(entries), written.crc, salt)

    def place(self, written: WrittenOverflow, sequence: int, timestamp: int) -> OverflowPayload:
        """Give a written file its name, durably. Returns the payload of the block that names it.

        `sequence` is that of its first entry. A file of that name, which a refused transaction left, is replaced.
        """
        name = overflow_name(sequence)
        with unlinked_after_error(self._disk, written.path):
            self._disk.rename(written.path, self._folder / name)
        self._disk.sync_folder(self._folder)
        return OverflowPayload.of(
            OverflowReference(
                file=name, bytes=written.bytes, entries=written.entries, crc=written.crc, salt=written.salt,
                timestamp=timestamp,
            )
        )  # fmt: skip

    def discard(self, written: WrittenOverflow) -> None:
        """Delete a file whose transaction does not go into the log. For any thread.

        A file that cannot be deleted now is collected by the next open.
        """
        with suppress(OSError):
            self._disk.unlink(written.path)

    def discard_placed(self, next_sequence: int) -> None:
        """Delete the files that got a name for a group that was not written: the log goes on with `next_sequence`."""
        with suppress(OSError):
            for number, path in _named(self._disk, self._folder):
                if number >= next_sequence:
                    self._disk.unlink(path)

    def clear(self) -> None:
        """Delete the partial files, as the log is closed."""
        for name in self._disk.names(self._folder):
            if overflow_number(name) is None:
                self._disk.unlink(self._folder / name)

    def drop(self, upto: int) -> None:
        """Remove the files of segments that end at or before the sequence `upto`, and whose names are durably gone."""
        for number, path in _named(self._disk, self._folder):
            if number <= upto:
                self._disk.unlink(path)


class _Written:
    """The bytes of a file that is being written, a few megabytes at a time. `end` is its size, `crc` the checksum of it."""

    def __init__(self, file: File, space: DiskSpace) -> None:
        self._file = file
        self._space = space
        self._parts: list[bytes] = []
        self._begin = self.end = self.crc = 0

    def add(self, parts: list[bytes]) -> None:
        """Add bytes at the end."""
        self._parts += parts
        self.end += sum(map(len, parts))
        if self.end - self._begin >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all that was added."""
        self._space.grow(self._file, self._begin, self.end, self.end)
        self._file.write_at(self._begin, self._parts)
        for part in self._parts:
            self.crc = int(google_crc32c.extend(self.crc, part))
        self._begin, self._parts = self.end, []


def overflow_sizes(disk: Disk, folder: Path) -> dict[int, int]:
    """Bytes of each overflow file of the log in `folder`, by its first sequence, in order."""
    return {number: disk.size(path) for number, path in _named(disk, folder / OVERFLOW)}


def _named(disk: Disk, folder: Path) -> Iterator[tuple[int, Path]]:
    """The overflow files in a folder, each with its first sequence."""
    for name in disk.names(folder):
        number = overflow_number(name)
        if number is not None:
            yield number, folder / name


def collect(disk: Disk, folder: Path, in_use: Callable[[int], bool]) -> None:
    """Delete what a crash left in the overflow folder of a log: partial files, and files that no segment names.

    `in_use` says whether the file with this first sequence belongs to a segment that is still there.
    """
    overflow = folder / OVERFLOW
    for name in disk.names(overflow):
        number = overflow_number(name)
        if number is None or not in_use(number):
            disk.unlink(overflow / name)
