"""The log as files: rotation, growth, files prepared ahead, stale bytes, and a disk that is full for a while."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.errors import StorageFull
from kvwal.log.appender import Appender
from kvwal.log.files.atomic_file import write_file
from kvwal.log.files.format import find_blocks, unpack_header
from kvwal.log.files.names import segment_name
from kvwal.log.files.segment import SEAL_ROOM
from kvwal.log.reader import SegmentEnd, SegmentReader, entry_decoder
from kvwal.ports.disk import OS_DISK
from tests.support.disk.faults import FakeClock, FakeDisk, open_store
from tests.support.disk.handles import OpenFolder
from tests.support.log.logs import header, recovered

KIB = 1 << 10
SMALL = Settings(segment_bytes=64 * KIB)
MEDIUM = Settings(segment_bytes=4096 * KIB)


class Files:
    """An appender on a fake disk, and its groups of one entry each."""

    def __init__(self, folder: Path, settings: Settings = SMALL) -> None:
        self.disk = FakeDisk()
        self.folder = folder
        self.appender = Appender(self.disk, FakeClock(), folder, header(), settings, [])

    def put(self, size: int) -> None:
        number = self.appender.next_sequence
        value = bytes([number % 255 + 1]) * size
        payload = encode_entries([Entry(b"%d" % number, "str", value, "bytes", False, number)])
        self.appender.append([payload], 1, sync=True)

    def names(self) -> list[str]:
        return sorted(name for name in os.listdir(self.folder) if not name.endswith(".partial"))


def test_a_full_segment_is_sealed_and_the_next_one_follows_it(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for _ in range(5):
        files.put(30 * KIB)
    files.appender.close(seal=True)
    assert files.names() == [segment_name(1), segment_name(3), segment_name(5)]
    previous = 0
    for done in files.appender.sealed:
        assert done.path.stat().st_size == done.size, "what was allocated after the seal is given back"
        assert done.previous_crc == previous
        previous = done.crc
    found, keys = recovered(tmp_path)
    assert keys == [b"%d" % number for number in range(1, 6)]
    assert found.sealed == files.appender.sealed


def test_a_segment_without_entries_is_not_sealed(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.appender.rotate()
    files.put(1)
    files.appender.rotate()
    files.appender.rotate()
    files.appender.close(seal=True)
    assert files.names() == [segment_name(1), segment_name(2)]
    assert [done.last for done in files.appender.sealed] == [1]


def test_a_group_above_the_limit_gets_a_segment_of_its_own(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.put(1)
    files.put(300 * KIB)
    files.put(1)
    files.appender.close(seal=True)
    assert files.names() == [segment_name(1), segment_name(2), segment_name(3)]
    assert recovered(tmp_path)[1] == [b"1", b"2", b"3"]


def test_segments_grow_with_what_is_written_and_only_then(tmp_path: Path) -> None:
    files = Files(tmp_path, MEDIUM)
    for _ in range(6):
        files.put(200 * KIB)
        files.appender.rotate()
    assert max(done.size for done in files.appender.sealed) < 1024 * KIB, "sealed by age: as small as before"
    for _ in range(25):
        files.put(300 * KIB)
    sizes = [done.size for done in files.appender.sealed[6:]]
    assert 800 * KIB < sizes[0] <= 1024 * KIB
    assert 3800 * KIB < sizes[1] <= 4096 * KIB
    files.appender.close(seal=True)


def test_a_segment_takes_little_until_it_is_written(tmp_path: Path) -> None:
    files = Files(tmp_path, MEDIUM)
    assert (tmp_path / segment_name(1)).stat().st_size == 64 * KIB
    files.put(100 * KIB)
    assert (tmp_path / segment_name(1)).stat().st_size < 256 * KIB
    files.appender.close(seal=False)


def test_a_quiet_log_prepares_nothing_and_a_busy_one_a_spare(tmp_path: Path) -> None:
    files = Files(tmp_path, MEDIUM)
    files.put(1)
    assert files.appender.wanted_preallocation() == 0
    files.put(300 * KIB)
    wanted = files.appender.wanted_preallocation()
    assert wanted == 4096 * KIB
    files.appender.preallocated.prepare(wanted)
    assert files.appender.wanted_preallocation() == 0
    (spare,) = tmp_path.glob("*.partial")
    assert spare.stat().st_size == wanted
    inode = spare.stat().st_ino
    for _ in range(3):
        files.put(300 * KIB)
    assert not spare.exists()
    assert (tmp_path / segment_name(5)).stat().st_ino == inode
    allocated = files.disk.calls["allocate"]
    for _ in range(4):
        files.put(300 * KIB)
    assert files.disk.calls["allocate"] == allocated, "its bytes are on the disk already"
    files.appender.close(seal=True)
    assert not list(tmp_path.glob("*.partial"))


def test_stale_bytes_of_a_recycled_file_never_parse(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for _ in range(20):
        files.put(2900)
    files.appender.rotate()
    old = files.appender.sealed[0]
    stale = old.path.read_bytes()
    files.appender.preallocated.recycle(old.path)
    assert not old.path.exists()
    files.put(1)
    files.appender.rotate()
    files.put(2900)
    files.put(1)
    path = files.folder / segment_name(files.appender.header.first_sequence)
    files.appender.close(seal=False)
    data = path.read_bytes()
    assert data[30 * KIB :] == stale[30 * KIB :], "it is the recycled file"
    reader = SegmentReader(path, data)
    assert [len(entries) for entries in reader.entries(entry_decoder())] == [1, 1]
    assert reader.ending(data, last=True) is SegmentEnd.OPEN
    assert reader.torn == 0
    assert not list(find_blocks(data, reader.end, reader.header.salt))
    unpacked = unpack_header(stale)
    assert unpacked is not None
    assert list(find_blocks(data, reader.end, unpacked[0].salt)), "it is the salt that keeps them out"


@pytest.mark.parametrize("call", ["write_at", "datasync"])
def test_an_atomic_write_that_fails_keeps_the_old_file_and_no_partial_one(tmp_path: Path, call: str) -> None:
    disk = FakeDisk()
    write_file(disk, tmp_path / "file", [b"old"])
    disk.fail(call)
    with pytest.raises(OSError, match="Input/output"):
        write_file(disk, tmp_path / "file", [b"new"])
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"old")]


class NamingDisk(FakeDisk):
    """Also records what happens to names."""

    def rename(self, old: Path, new: Path) -> None:
        super().rename(old, new)
        self.done("rename")

    def sync_folder(self, folder: Path) -> None:
        opened = super().open_folder(folder)
        opened.sync()
        opened.close()
        self.done("sync_folder")

    def open_folder(self, folder: Path) -> OpenFolder:
        return OpenFolder(self, folder, self.limits)


def test_a_recycled_file_has_lost_its_old_name_before_it_is_written(tmp_path: Path) -> None:
    """Else a power cut could show the new segment's header under the old segment's name."""
    disk = NamingDisk()
    appender = Appender(disk, FakeClock(), tmp_path, header(), SMALL, [])
    appender.append([encode_entries([Entry(b"a", "str", bytes(50 * KIB), "bytes", False, 1)])], 1, sync=True)
    appender.rotate()
    disk.log.clear()
    appender.preallocated.recycle(appender.sealed.pop(0).path)
    assert disk.log == ["rename", "sync_folder"]
    disk.log.clear()
    appender.append([encode_entries([Entry(b"b", "str", bytes(10), "bytes", False, 2)])], 1, sync=True)
    appender.rotate()
    assert disk.log[-4:] == ["write_at", "datasync", "rename", "sync_folder"], "the header is durable before the name"
    appender.close(seal=True)


def test_few_recycled_files_are_kept_and_none_of_another_size(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for _ in range(4):
        files.put(60 * KIB)
    files.put(1)
    files.appender.rotate()
    for done in files.appender.sealed[:3]:
        files.appender.preallocated.recycle(done.path)
    assert len(files.appender.preallocated) == len(list(tmp_path.glob("*.partial"))) == 2
    assert files.appender.preallocated.take(1024 * KIB) is None
    assert not list(tmp_path.glob("*.partial"))
    files.appender.close(seal=True)


def test_a_disk_too_full_for_a_spare_keeps_nothing_of_it(tmp_path: Path) -> None:
    files = Files(tmp_path, MEDIUM)
    files.disk.full = True
    with pytest.raises(OSError, match="No space"):
        files.appender.preallocated.prepare(1024 * KIB)
    assert not list(tmp_path.glob("*.partial"))
    assert not len(files.appender.preallocated)
    files.appender.close(seal=True)


@pytest.mark.parametrize(("size", "fit"), [(100 * KIB, 0), (20 * KIB, 3)], ids=["growth", "rotation"])
def test_a_full_disk_refuses_before_anything_is_written_and_goes_on(tmp_path: Path, size: int, fit: int) -> None:
    files = Files(tmp_path, MEDIUM if size > 64 * KIB else SMALL)
    files.disk.full = True
    for _ in range(fit):
        files.put(size)
    before = (tmp_path / segment_name(1)).read_bytes()
    for _ in range(2):
        with pytest.raises(StorageFull, match="nothing was written") as full:
            files.put(size)
        assert str(tmp_path) in str(full.value)
    assert (tmp_path / segment_name(1)).read_bytes() == before
    files.put(1)
    files.disk.full = False
    files.put(size)
    files.appender.close(seal=True)
    assert recovered(tmp_path)[1] == [b"%d" % number for number in range(1, fit + 3)]


def test_a_full_disk_has_room_for_the_seal(tmp_path: Path) -> None:
    files = Files(tmp_path)
    room = 64 * KIB - files.appender.size - SEAL_ROOM
    files.put(room - 60)
    assert files.appender.size > 64 * KIB - SEAL_ROOM - 60
    files.disk.full = True
    files.appender.close(seal=True)
    assert [done.last for done in recovered(tmp_path)[0].sealed] == [1]


def test_a_store_on_a_full_disk_says_so_reads_on_and_goes_on(tmp_path: Path) -> None:
    disk = FakeDisk()
    large = os.urandom(40 * KIB)
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["a"] = large
        disk.full = True
        with pytest.raises(StorageFull):
            jobs["b"] = large
        with pytest.raises(StorageFull):
            jobs.put_many({"a": large, "c": large})
        with pytest.raises(StorageFull):
            jobs.put_if_absent("d", large)
        assert dict(jobs) == {"a": large}
        jobs["small"] = 1
        disk.full = False
        jobs["b"] = large
    with open_store(tmp_path) as store:
        assert dict(store.map("jobs")) == {"a": large, "b": large, "small": 1}


def test_a_store_cannot_be_opened_on_a_full_disk_and_loses_nothing_by_trying(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.map("jobs")["a"] = 1
    disk = FakeDisk()
    disk.full = True
    with open_store(tmp_path, disk) as store:
        with pytest.raises(StorageFull, match="full"):
            store.map("jobs")
        disk.full = False
        assert dict(store.map("jobs")) == {"a": 1}
    assert OS_DISK.names(tmp_path / "default" / "local" / "jobs" / "local")[-1] == "LOCK"
