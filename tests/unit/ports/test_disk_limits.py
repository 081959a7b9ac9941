"""The limits of real disks, on the machine's disk and on the disks of tests: buffers of a call, sizes, descriptors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

import kvwal
from kvwal.entry import Entry, entry_identity
from kvwal.errors import StorageFull
from kvwal.history.restore.restore import RestorePorts, restore_through
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.snapshot import write_snapshot
from kvwal.log.reader import SnapshotReader, entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, Disk
from kvwal.ports.posix.vectored import MAX_BUFFERS
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeDisk, open_store
from tests.support.disk.limits import Limits
from tests.support.disk.power import MemoryDisk

FOLDER = Path("/disk")
KIB = 1 << 10


def memory_disk(limits: Limits | None = None) -> MemoryDisk:
    disk = MemoryDisk(limits=limits)
    disk.make_folders(FOLDER)
    return disk


@pytest.mark.parametrize("kind", ["real", "fake", "memory"])
def test_a_write_of_more_buffers_than_one_call_takes(kind: str, tmp_path: Path) -> None:
    disk: Disk = {"real": OS_DISK, "fake": FakeDisk(), "memory": memory_disk()}[kind]  # type: ignore[assignment]
    folder = FOLDER if kind == "memory" else tmp_path
    parts = [b"" if n % 7 == 0 else b"%d." % n for n in range(3 * MAX_BUFFERS + 5)] + [b""] * (MAX_BUFFERS + 1)
    file = disk.create(folder / "file")
    file.write_at(10, [b""] * MAX_BUFFERS + parts)
    file.write_at(0, [b"x"] * 10)
    file.write_at(5, [])
    file.close()
    data = b"x" * 10 + b"".join(parts)
    assert disk.read(folder / "file") == data
    assert disk.read_part(folder / "file", 3, 5000) == data[3:5003]
    assert disk.read_part(folder / "file", len(data) - 2, 5000) == data[-2:]


def test_the_disks_of_tests_refuse_what_a_real_disk_refuses(tmp_path: Path) -> None:
    limits = Limits(file_bytes=100, open_files=2)
    with pytest.raises(OSError, match="Invalid argument"):
        limits.written([b"x"] * (MAX_BUFFERS + 1), 0, tmp_path)
    disk = memory_disk(limits)
    file = disk.create(FOLDER / "file")
    names = disk.open_folder(FOLDER)
    with pytest.raises(OSError, match="Too many open files"):
        disk.create(FOLDER / "other")
    assert not disk.exists(FOLDER / "other")
    names.close()
    with pytest.raises(OSError, match="File too large"):
        file.write_at(90, [b"y" * 20])
    assert disk.read(FOLDER / "file") == bytes(90) + b"y" * 10, "the part that fits was written"
    with pytest.raises(OSError, match="File too large"):
        file.allocate(101)
    file.close()
    file.close()
    disk.open(FOLDER / "file").close()
    assert not limits.held


def test_a_snapshot_of_more_blocks_than_one_call_takes_buffers() -> None:
    """As of many small values that are alike: their blocks are so small that hundreds wait for one write."""
    disk = memory_disk()
    entries = [Entry(b"%06d" % n, "str", b"done", "str", False, 1 + n) for n in range(2 * MAX_BUFFERS)]
    header = SnapshotHeader(
        log_id="a" * 32, namespace="n", cluster="c", business="b", node="n", epoch=1, first_sequence=1, previous_crc=0,
        salt=0, created_ms=0, last_sequence=len(entries), last_crc=0, last_timestamp=entries[-1].timestamp,
    )  # fmt: skip
    path = write_snapshot(disk, SYSTEM, FOLDER, header, ([entry] for entry in entries))
    read = [entry for block in SnapshotReader(path, disk.read(path)).whole(entry_decoder()) for entry in block]
    assert [entry_identity(entry) for entry in read] == [entry_identity(entry) for entry in entries]
    assert not disk.limits.held


def test_many_small_values_are_checkpointed_and_taken_over(tmp_path: Path) -> None:
    model = {f"job-{n:06}": {"state": "DONE"} for n in range(3 * MAX_BUFFERS)}
    archive = tmp_path / "archive"
    with (
        patch("kvwal.log.files.snapshot.BLOCK_ENTRIES", 1),
        patch("kvwal.history.restore.restore.BLOCK_ENTRIES", 1),
    ):
        with open_store(tmp_path / "root", FakeDisk(), archive=archive, start_archiver=lambda: InProcess("")) as store:
            store.map("jobs").put_many(model)
            store.checkpoint()
            store.archive()
            assert store.stats()["businesses"]["jobs"]["snapshot_sequence"] == len(model)
        restore_through(
            RestorePorts(OS_DISK, SYSTEM), archive, tmp_path / "new", namespace="default", cluster="local", node=None, at=None,
            take_over=True, storage_options=None, progress=None,
        )  # fmt: skip
    for root in ("root", "new"):
        with kvwal.open(tmp_path / root, read_only=True) as store:
            assert dict(store.map("jobs")) == model


def test_a_log_goes_on_where_files_may_not_be_large(tmp_path: Path) -> None:
    """A segment ends where its file may not grow; one write that fits into no file is refused, and the log goes on."""
    disk = FakeDisk(Limits(file_bytes=100 * KIB))
    model: dict[str, str] = {}
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        for n in range(30):
            jobs[f"k{n}"] = model[f"k{n}"] = "x" * 20 * KIB
        with pytest.raises(StorageFull, match=r"larger than this process or file system allows.*ulimit -f"):
            jobs["large"] = "x" * 200 * KIB
        jobs["after"] = model["after"] = "small"
        assert dict(jobs) == model
        assert max(path.stat().st_size for path in tmp_path.rglob("*.wal")) <= 100 * KIB
    with kvwal.open(tmp_path, archive=None, read_only=True) as found:
        assert dict(found.map("jobs")) == model


LIMITED = """
import resource, sys, kvwal
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
with kvwal.open(sys.argv[1], archive=None) as store:
    jobs = store.map("jobs")
    for n in range(60):
        jobs[n] = "x" * 30_000
    try:
        jobs["large"] = "x" * 400_000
    except kvwal.StorageFull as error:
        print(error.what)
    jobs["after"] = 1
"""


def test_a_process_with_a_limit_of_file_sizes(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "a file would be larger than this process or file system allows" in done.stdout
    with kvwal.open(tmp_path, archive=None) as store:
        assert len(store.map("jobs")) == 61


def test_an_allocation_that_a_quota_cuts_short_takes_what_is_needed(tmp_path: Path) -> None:
    """A quota is not seen before: the wish of a growing segment is above it, and what is needed is not."""
    disk = FakeDisk(Limits(file_bytes=70 * KIB))
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["a"] = "x" * 60 * KIB
        jobs["b"] = "x" * 5 * KIB
        assert len(list(tmp_path.rglob("*.wal"))) == 1


def test_a_log_that_cannot_be_begun_leaves_no_file_open(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        for call in ("write_at", "datasync"):
            disk.fail(call)
            with pytest.raises(kvwal.ConfigError, match="cannot be opened"):
                store.map("jobs")
            assert not disk.limits.held
        store.map("jobs")["a"] = 1
        disk.fail("datasync")
        with pytest.raises(kvwal.CommitUnknown):
            store.map("jobs")["b"] = 1
    assert not disk.limits.held
