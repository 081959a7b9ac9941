"""Small logs for tests of what a crash leaves behind: written by the real appender, so that every byte is as in life."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header
from kvwal.log.files.segment import SealedSegment
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import Recovered, RecoveryTarget, recover
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Disk
from kvwal_archive.layout import Place

PLACE = Place("default", "local", "b", "n")


def header(first: int = 1, previous_crc: int = 0, epoch: int = 1) -> Header:
    """A header for PLACE; its salt is drawn when a segment begins."""
    return Header(
        log_id="0" * 32, namespace="default", cluster="local", business="b", node="n", epoch=epoch,
        first_sequence=first, previous_crc=previous_crc, salt=0, created_ms=0,
    )  # fmt: skip


class Writer:
    """Writes groups of puts of consecutive keys into `folder`."""

    def __init__(
        self, folder: Path, settings: Settings | None = None, after: Recovered | None = None, disk: Disk = OS_DISK
    ) -> None:
        disk.make_folders(folder)
        self.sealed: list[SealedSegment] = list(after.sealed) if after else []
        begin = header(after.next_sequence, after.previous_crc, after.epoch) if after else header()
        self.appender = Appender(disk, SYSTEM, folder, begin, settings or Settings(), self.sealed)
        self.timestamp = after.last_timestamp if after else 0

    def group(self, *sizes: int, sync: bool = True) -> None:
        """One group of one block for each size, which is its number of entries; each block is one transaction."""
        payloads, count = [], 0
        for size in sizes:
            payloads.append(encode_entries(self._entries(size, count)))
            count += size
        self.appender.append(payloads, count, sync=sync)

    def overflow(self, size: int) -> None:
        """One group of one transaction of this many entries, in an overflow file."""
        written = self.appender.write_overflow(self._entries(size))
        self.appender.append([self.appender.place_overflow(written, 0, self.timestamp)], size, sync=True)

    def _entries(self, size: int, after: int = 0) -> list[Entry]:
        self.timestamp += 1
        first = self.appender.next_sequence + after
        return [
            Entry(b"key-%04d" % number, "str", b"value-%04d" % number, "bytes", False, self.timestamp)
            for number in range(first, first + size)
        ]

    def crash(self) -> None:
        """Let go of the files as a killed process does."""
        self.appender.close(seal=False)

    def close(self) -> None:
        """End the log as a clean close does."""
        self.appender.close(seal=True)


def recovered(folder: Path) -> tuple[Recovered, list[bytes]]:
    """What recovery finds, and the keys it hands over, in order."""
    entries: list[Entry] = []
    found = recover(OS_DISK, folder, RecoveryTarget(entries.extend, entries.clear), entry_decoder())
    return found, [entry.key for entry in entries]


def keys(count: int) -> list[bytes]:
    """The keys of the first `count` entries."""
    return [b"key-%04d" % number for number in range(1, count + 1)]


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.wal"))


def three_groups(folder: Path) -> Writer:
    writer = Writer(folder)
    for size in (2, 3, 4):
        writer.group(size)
    return writer


def three_segments(folder: Path) -> Writer:
    writer = Writer(folder)
    for size in (2, 3, 4):
        writer.group(size)
        writer.appender.rotate()
    return writer


def flip(path: Path, offset: int) -> None:
    """Flip a bit of a file."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def refusal(folder: Path) -> CorruptLog:
    """The error, after seeing that nothing was changed."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(CorruptLog) as caught:
        recovered(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    return caught.value
