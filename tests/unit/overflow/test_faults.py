"""An overflow file on a disk that is full or fails, one that is damaged or lost, and what is left of one after a crash."""

from __future__ import annotations

import errno
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.log.files.format import OverflowPayload
from kvwal.log.files.names import OVERFLOW, log_folder
from kvwal.log.files.preallocation import PreallocatedSegments
from kvwal.log.overflow.files import OverflowFiles
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK, Space
from kvwal.scrub.inspect import examine
from kvwal.scrub.salvage import salvage
from kvwal_archive.layout import Place
from tests.support.disk.faults import FakeDisk, open_store

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=2000, archive_seconds=1e9, checkpoint_seconds=1e9)
PLACE = Place("default", "local", "jobs", "local")
LARGE = {f"key-{number:02}": f"{number}" * 100 for number in range(50)}


def overflow_folder(root: Path) -> Path:
    return log_folder(root, PLACE) / OVERFLOW


def open_jobs(root: Path, disk: FakeDisk | None = None) -> kvwal.Store:
    return open_store(root, disk, settings=SETTINGS)


@pytest.mark.parametrize("conditional", [False, True])
def test_on_a_full_disk_nothing_is_written_and_nothing_left(tmp_path: Path, conditional: bool) -> None:
    disk = FakeDisk()
    with open_jobs(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["small"] = 1
        disk.full = True
        with pytest.raises(kvwal.StorageFull, match="nothing was written"):
            _put(store, conditional)
        assert OS_DISK.names(overflow_folder(tmp_path)) == []
        disk.full = False
        _put(store, conditional)
        jobs["small"] = 2
    with open_jobs(tmp_path) as store:
        assert dict(store.map("jobs")) == LARGE | {"small": 2}


def test_a_file_that_got_its_name_for_a_group_that_was_refused_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills between the file and the block that names it, which needs a new segment."""
    disk, place = FakeDisk(), OverflowFiles.place

    def place_and_fill(files: OverflowFiles, *given: Any) -> OverflowPayload:
        placed = place(files, *given)
        assert OS_DISK.names(overflow_folder(tmp_path))
        disk.full = True
        return placed

    with open_jobs(tmp_path, disk) as store:
        jobs = store.map("jobs")
        for size, left in ((1900, 2500), (0, 230)):  # until a block that names a file does not fit any more
            while store.stats()["businesses"]["jobs"]["log_bytes"] < SETTINGS.segment_bytes - left:
                jobs["fill"] = "x" * size
        monkeypatch.setattr(OverflowFiles, "place", place_and_fill)
        for conditional in (True, False):
            disk.full = False
            with pytest.raises(kvwal.StorageFull, match="nothing was written"):
                _put(store, conditional)
            assert OS_DISK.names(overflow_folder(tmp_path)) == []
        monkeypatch.undo()
        disk.full = False
        _put(store, conditional=True)
    with open_jobs(tmp_path) as store:
        assert dict(store.map("jobs")) == LARGE | {"fill": ""}


def test_the_reserve_of_the_disk_is_kept(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_jobs(tmp_path, disk) as store:
        store.map("jobs")["small"] = 1
        disk.room = Space(1 << 30, (51 << 20) + 3000)
        with pytest.raises(kvwal.StorageFull):
            _put(store, conditional=False)
        assert OS_DISK.names(overflow_folder(tmp_path)) == []
        disk.room = None
        _put(store, conditional=False)


@pytest.mark.parametrize("call", ["write_at", "datasync"])
def test_a_disk_that_fails_leaves_the_log_as_it_was(tmp_path: Path, call: str) -> None:
    """The error of the file of a transaction is that of its caller alone."""
    disk = FakeDisk()
    with open_jobs(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["small"] = 1
        disk.fail(call)
        with pytest.raises(kvwal.LogFailed, match=r"50 entries could not be written .* nothing of it is in the log"):
            jobs.put_many(LARGE)
        assert OS_DISK.names(overflow_folder(tmp_path)) == []
        jobs["small"] = 2
        jobs.put_many(LARGE)
    with open_jobs(tmp_path) as store:
        assert dict(store.map("jobs")) == LARGE | {"small": 2}


def _put(store: kvwal.Store, conditional: bool) -> None:
    jobs = store.map("jobs")
    if conditional:
        assert jobs.commit_if({"key-00": kvwal.ABSENT}, LARGE)
    else:
        jobs.put_many(LARGE)


def _written(root: Path) -> Path:
    with open_jobs(root) as store:
        store.map("jobs")["before"] = 1
        store.map("jobs").put_many(LARGE)
        store.map("jobs")["after"] = 1
    (name,) = OS_DISK.names(overflow_folder(root))
    return overflow_folder(root) / name


@pytest.mark.parametrize("archive", [None, "archive"])
def test_the_file_of_a_segment_that_went_goes_later_if_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: str | None
) -> None:
    """The segment is gone, so nothing names the file any more: it goes with the next job, and not with the next opening."""
    drop, fails = OverflowFiles.drop, [True]

    def fail(files: OverflowFiles, upto: int) -> None:
        if fails:
            raise OSError(errno.EIO, "Input/output error", str(overflow_folder(tmp_path)))
        drop(files, upto)

    monkeypatch.setattr(OverflowFiles, "drop", fail)
    where = None if archive is None else tmp_path / archive
    with open_store(tmp_path, FakeDisk(), settings=SETTINGS, archive=where) as store:
        store.map("jobs").put_many(LARGE)
        for job in (store.checkpoint, store.archive) if archive else (store.checkpoint,):
            failing = job
            with suppress(kvwal.ArchiveError):
                job()
        assert len(OS_DISK.names(overflow_folder(tmp_path))) == 1
        assert store.stats()["businesses"]["jobs"]["maintenance"]
        fails.clear()
        failing()
        assert OS_DISK.names(overflow_folder(tmp_path)) == []
        assert not store.stats()["businesses"]["jobs"]["maintenance"]


class FolderDisk(FakeDisk):
    """A disk that notes which folders were synced and which files went. `fails`: the next sync of a folder does."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []
        self.fails = False

    def sync_folder(self, folder: Path) -> None:
        if self.fails:
            self.fails = False
            raise OSError(errno.EIO, "Input/output error", str(folder))
        super().sync_folder(folder)
        self.steps.append(f"sync {folder.name}")

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self.steps.append(f"unlink in {path.parent.name}")


def test_the_file_of_a_segment_goes_after_the_segments_name_is_durably_gone(tmp_path: Path) -> None:
    """The disk fails when the name of the segment is to be durably gone: a power cut may bring the segment back."""
    disk = FolderDisk()
    with open_store(tmp_path, disk, settings=SETTINGS) as store:
        store.map("jobs").put_many(LARGE)
        store.checkpoint()
        store.map("jobs").put_many(LARGE)
        begin = PreallocatedSegments.recycle

        def recycle(files: PreallocatedSegments, path: Path) -> None:
            disk.fails = True
            begin(files, path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PreallocatedSegments, "recycle", recycle)
            with suppress(kvwal.ArchiveError):
                store.checkpoint()
        assert len(OS_DISK.names(overflow_folder(tmp_path))) == 1
        disk.steps.clear()
        store.checkpoint()
        assert OS_DISK.names(overflow_folder(tmp_path)) == []
    assert disk.steps.index(f"sync {PLACE.node}") < disk.steps.index(f"unlink in {OVERFLOW}")


def test_what_a_crash_left_is_collected_by_the_next_open(tmp_path: Path) -> None:
    path = _written(tmp_path)
    for name in ("0123456789abcdef.partial", f"{999:020}", f"{3:020}"):
        (path.parent / name).write_bytes(path.read_bytes())
    with open_jobs(tmp_path) as store:
        assert len(store.map("jobs")) == len(LARGE) + 2
        assert OS_DISK.names(path.parent) == [path.name]


@pytest.mark.parametrize("at", [0, 5, 12, 40, 0.3, 0.6, -200, -20, -1])
def test_a_flipped_bit_is_named_by_everyone(tmp_path: Path, at: float) -> None:
    path = _written(tmp_path)
    data = bytearray(path.read_bytes())
    data[int(at * len(data)) if isinstance(at, float) else at] ^= 4
    path.write_bytes(data)
    with pytest.raises(kvwal.CorruptLog) as caught, open_jobs(tmp_path) as store:
        store.map("jobs").get("after")
    assert caught.value.path == path
    with kvwal.open(tmp_path, read_only=True) as reader, pytest.raises(kvwal.CorruptLog):
        dict(reader.map("jobs"))
    (problem,) = [file.problem for file in examine(OS_DISK, tmp_path, PLACE) if file.problem]
    assert problem
    assert path.read_bytes() == data, "evidence"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = _written(tmp_path)
    path.unlink()
    with (
        pytest.raises(kvwal.CorruptLog, match="names this overflow file, and it is missing") as caught,
        open_jobs(tmp_path) as store,
    ):
        store.map("jobs").get("after")
    assert caught.value.path == path


def test_the_file_of_another_transaction_or_log_is_no_substitute(tmp_path: Path) -> None:
    path, other = _written(tmp_path / "one"), _written(tmp_path / "two")
    for stranger in (other.read_bytes(), path.read_bytes() + bytes(8), path.read_bytes()[:-8]):
        path.write_bytes(stranger)
        with pytest.raises(kvwal.CorruptLog) as caught, open_jobs(tmp_path / "one") as store:
            store.map("jobs").get("after")
        assert caught.value.path == path


def test_what_is_whole_of_a_damaged_file_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.log.files.snapshot.BLOCK_ENTRIES", 10)
    path = _written(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    saved = salvage(OS_DISK, log_folder(tmp_path, PLACE), entry_decoder())
    assert [entry.key for _, entry in saved.entries] == [
        b"before", *(key.encode() for number, key in enumerate(LARGE) if not 20 <= number < 30), b"after"
    ]  # fmt: skip
    (lost,) = saved.lost
    assert (lost.first, lost.last, lost.entries) == (2, 51, 10)
    assert path.name in lost.where
    assert [number for number, _ in saved.entries[:1] + saved.entries[-1:]] == [1, 52]
