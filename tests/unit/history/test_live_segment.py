"""A reader that stays open beside a writer: it reads what was written and not what was allocated, and still finds damage."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvwal.errors import CorruptLog
from kvwal.log.files.format import find_blocks
from kvwal.log.reader import read_header
from kvwal.log.unlocked.endings import ENDING_SECONDS
from kvwal.ports.disk import OS_DISK, OpenedFile
from kvwal.store.sync import ReadOnlyStore
from tests.support.disk.faults import FakeClock, FakeDisk, make_options, open_store

ALLOCATED = 16 << 20


class _Counted:
    def __init__(self, file: OpenedFile, disk: ReadDisk) -> None:
        self._file = file
        self._disk = disk

    def read_at(self, offset: int, size: int) -> bytes:
        self._disk.before_read(offset)
        found = self._file.read_at(offset, size)
        self._disk.bytes_read += len(found)
        return found

    def close(self) -> None:
        self._file.close()


class ReadDisk(FakeDisk):
    """A disk that counts the bytes of the files that are opened for reading. `before_read` is called with each offset."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0
        self.before_read: Callable[[int], object] = lambda offset: None

    def open_to_read(self, path: Path) -> OpenedFile:
        return _Counted(super().open_to_read(path), self)

    def read(self, path: Path) -> bytes:
        assert path.suffix != ".wal", "a segment is not read whole"
        return super().read(path)


def values(store: ReadOnlyStore) -> list[Any]:
    business = store.read_business("jobs")
    return [business.codecs.decode(entry.value, entry.value_class) for entry in business.entries("key-")]


def live_segment(root: Path) -> Path:
    """The segment that is written, as long as the writer of a large log allocates it."""
    segment = max(root.rglob("*.wal"))
    os.truncate(segment, ALLOCATED)
    return segment


def old_blocks(root: Path, segment: Path) -> None:
    """Fill the room after the last block, as a segment that is used again has it: blocks of another log."""
    end = ending(segment)
    (root / "other").mkdir()
    with open_store(root / "other", FakeDisk(), flush="os") as other:
        for number in range(200):
            other.map("jobs").put(f"key-old-{number}", "x" * 4_000)
        other_segment = max((root / "other").rglob("*.wal"))
        stale = other_segment.read_bytes()[: ending(other_segment)]
    with open(segment, "r+b") as file:
        file.seek(end + 8)
        file.writelines(stale[: ALLOCATED - file.tell()] for _ in range(20))


def ending(segment: Path) -> int:
    """The offset after the last block."""
    *_, last = find_blocks(segment.read_bytes(), 0, read_header(OS_DISK, segment).salt)
    return last.end


@pytest.mark.parametrize("stale", [False, True])
def test_many_reads_search_the_end_of_the_log_once_in_a_while(tmp_path: Path, stale: bool) -> None:
    disk, clock = ReadDisk(), FakeClock()
    with open_store(tmp_path, FakeDisk(), flush="os") as store:
        store.map("jobs").put_many({f"key-{number}": number for number in range(9)})
        segment = live_segment(tmp_path)
        if stale:
            old_blocks(tmp_path, segment)
        reader = ReadOnlyStore(make_options(tmp_path, disk, clock))
        assert values(reader) == list(range(9))
        assert ALLOCATED * 0.9 < disk.bytes_read < ALLOCATED * 1.1, "the first read searches"
        for _ in range(5):
            assert values(reader) == list(range(9))
        assert disk.bytes_read < ALLOCATED * 1.2
        clock.seconds += ENDING_SECONDS + 0.1
        assert values(reader) == list(range(9))
        assert disk.bytes_read > ALLOCATED * 1.9, "and one later"


def test_the_end_of_a_log_that_nobody_writes_is_searched_once(tmp_path: Path) -> None:
    disk = ReadDisk()
    with open_store(tmp_path, FakeDisk(), flush="os") as store:
        store.map("jobs").put("key-0", 0)
        segment = live_segment(tmp_path)
        changed = segment.stat().st_mtime_ns
        clock = FakeClock(changed // 1_000_000 + 500)
        reader = ReadOnlyStore(make_options(tmp_path, disk, clock))
        for searches in (1, 2, 2, 2):  # the first one so soon after the change that the next change may have its time
            assert values(reader) == [0]
            assert ALLOCATED * (searches - 0.1) < disk.bytes_read < ALLOCATED * (searches + 0.5)
            clock.seconds += ENDING_SECONDS + 0.1
            clock.ms += 1_100
        os.utime(segment, ns=(changed, changed + 1))
        assert values(reader) == [0]
        assert disk.bytes_read > ALLOCATED * 2.9


def test_what_was_written_since_the_search_is_there(tmp_path: Path) -> None:
    with open_store(tmp_path, FakeDisk(), flush="os") as store:
        reader = ReadOnlyStore(make_options(tmp_path, ReadDisk(), FakeClock()))
        for number in range(5):
            store.map("jobs").put(f"key-{number}", number)
            assert values(reader) == list(range(number + 1))
        store.checkpoint()
        store.map("jobs").put("key-5", 5)
        assert values(reader) == list(range(6))


@pytest.mark.parametrize("days", [-400, 400])
def test_a_clock_that_is_wrong_hides_no_write(tmp_path: Path, days: int) -> None:
    """The reader's clock against that of the file system. Each put may come in the millisecond of the one before."""
    with open_store(tmp_path, FakeDisk(), flush="os") as store:
        store.map("jobs").put("key-0", 0)
        written_ms = live_segment(tmp_path).stat().st_mtime_ns // 1_000_000
        reader = ReadOnlyStore(make_options(tmp_path, ReadDisk(), FakeClock(written_ms + days * 86_400_000)))
        for number in range(20):
            store.map("jobs").put("key-0", number)
            assert values(reader) == [number]


def test_damage_is_found_again_after_the_search_is_old(tmp_path: Path) -> None:
    disk, clock = ReadDisk(), FakeClock()
    with open_store(tmp_path, FakeDisk()) as store:
        for number in range(5):
            store.map("jobs").put(f"key-{number}", number)
        segment = live_segment(tmp_path)
        reader = ReadOnlyStore(make_options(tmp_path, disk, clock))
        assert values(reader) == list(range(5))
        *_, damaged, _ = find_blocks(segment.read_bytes(), 0, read_header(OS_DISK, segment).salt)
        with open(segment, "r+b") as file:
            file.seek(damaged.offset + 14)
            file.write(b"\xff")
        for _ in range(2):
            with pytest.raises(CorruptLog, match="says that it was durable"):
                values(reader)  # at once: the last block that verifies is before those that were searched
        store.map("jobs").put("key-5", 5)
        clock.seconds += ENDING_SECONDS + 0.1
        with pytest.raises(CorruptLog, match="says that it was durable"):
            values(reader)


def test_a_group_that_is_written_while_the_end_is_searched_is_no_damage(tmp_path: Path) -> None:
    """The writer goes on between the last block that the reader saw and its search: at each of the first ten searches."""
    disk = ReadDisk()
    with open_store(tmp_path, FakeDisk()) as store:
        jobs = store.map("jobs")
        jobs.put("key-0", 0)
        segment, written = live_segment(tmp_path), []

        def write_two(offset: int) -> None:
            if len(written) < 20 and offset == ending(segment):
                for _ in range(2):
                    written.append(jobs.put("key-0", len(written) + 1))

        disk.before_read = write_two
        reader = ReadOnlyStore(make_options(tmp_path, disk, FakeClock()))
        assert values(reader) == [20]
        assert len(written) == 20
