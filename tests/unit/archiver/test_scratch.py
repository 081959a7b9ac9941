"""Files of the archiver's jobs: each job has its own, beside the log, where room for them is asked for first."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE
from uuid import uuid4

import pytest

from kvwal.archiver.jobs import Archive, Archived, ArchiveTarget, Compact, Compacted, Failed, encode
from kvwal.archiver.work import answer
from kvwal.errors import StorageFull
from kvwal.log.files.atomic_file import delete_abandoned
from kvwal.ports.disk import OS_DISK, Space
from kvwal_archive.objects import LocalObjects, open_objects
from kvwal_archive.objects.port import Body
from kvwal_archive.verify import verify
from tests.support.archive.archiver_memory import PLACE, put, seed
from tests.support.disk.faults import FakeClock, FakeDisk

ROWS = 2000
MIB = 1 << 20
IN_2109 = 1 << 42
"""A time at which each object is old, in unix milliseconds."""


def to(job: Archive, url: str) -> Archive:
    """The job, to another archive."""
    target = ArchiveTarget(url, job.target.place, job.target.log_id)
    return Archive(target, job.folder, job.segments, job.ends, job.ends_crc, job.most_bytes)


def small_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small segments, each of which becomes an object."""
    monkeypatch.setattr("tests.support.archive.archiver_memory.GROUP_BYTES", MIB // 4)
    monkeypatch.setattr("kvwal.archiver.work.OBJECT_BYTES", 1)


def once_before_a_put(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Something happens when an object in a file is about to be put into a folder."""
    waiting, as_it_was = [meanwhile], LocalObjects.put_if_absent

    def put_if_absent(objects: LocalObjects, key: str, data: Body) -> bool:
        if isinstance(data, Path) and waiting:
            waiting.pop()()
        return as_it_was(objects, key, data)

    monkeypatch.setattr(LocalObjects, "put_if_absent", put_if_absent)


SUCCESSOR = """
import sys
from kvwal.archiver.jobs import decode_job
from kvwal.archiver.work import answer
from kvwal_archive import writer
def write_object(*given):
    print("begun", flush=True)
    sys.stdin.read()
writer.write_object = write_object
answer(decode_job(sys.argv[1]))
"""


def test_a_seed_of_an_orphaned_archiver_beside_that_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent was killed. The next process recovered the log, and its archiver began a seed. Now the orphan puts its own."""
    job = seed(ROWS, tmp_path)
    arguments = [sys.executable, "-c", SUCCESSOR, encode(job)]
    with ExitStack() as ending:

        def recovered_and_begun() -> None:
            delete_abandoned(OS_DISK, tmp_path)
            other = ending.enter_context(subprocess.Popen(arguments, stdin=PIPE, stdout=PIPE))
            ending.callback(other.kill)
            assert other.stdout is not None
            assert other.stdout.readline() == b"begun\n"

        once_before_a_put(monkeypatch, recovered_and_begun)
        assert isinstance(answer(job), Archived)
        assert len(list(tmp_path.glob("*.partial"))) == 1, "the successor goes on with a file of its own"
    assert verify(LocalObjects(job.target.url)).findings == []


@pytest.fixture
def no_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder for temporary files takes nothing, as one of a few MiB in memory takes no large object."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))


@pytest.mark.usefixtures("no_temporary_files")
def test_jobs_make_no_temporary_files_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed, compaction and gc, with a remote archive, whose objects are copied."""
    for name in ("seeded", "log"):
        (tmp_path / name).mkdir()
    url = f"memory://{uuid4().hex}"
    seeding = to(seed(ROWS, tmp_path / "seeded"), url + "/seeded")
    assert isinstance(answer(seeding), Archived)
    small_objects(monkeypatch)
    archiving = to(put(ROWS, tmp_path / "log"), url + "/log")
    assert isinstance(answer(archiving), Archived)
    done = answer(Compact(archiving.target, str(tmp_path / "log"), 0, 0), clock=FakeClock(IN_2109))
    assert isinstance(done, Compacted), done
    assert (done.written, done.removed > 1) == (1, True)
    assert len(open_objects(url + "/log").list(f"{PLACE.prefix}/")) == 2, "the registration and one object"
    assert list(tmp_path.rglob("*.partial")) == []


@pytest.mark.parametrize("what", ["seed", "compact"])
def test_a_job_without_the_room_for_its_files_writes_none(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_objects(monkeypatch)
    job: Archive | Compact = seed(ROWS, tmp_path) if what == "seed" else put(ROWS, tmp_path)
    if what == "compact":
        assert isinstance(answer(job), Archived)
        job = Compact(job.target, str(tmp_path), 0, 0)
    disk = FakeDisk()
    disk.room = Space(100 * MIB, 6 * MIB)
    refused = answer(job, disk)
    assert isinstance(refused, Failed)
    assert isinstance(refused.exception(), StorageFull)
    assert "and 1,048,576 are free beside the reserve of 5,242,880; nothing was written" in refused.what
    assert not disk.calls
    disk.room = Space(100 * MIB, 16 * MIB)
    assert isinstance(answer(job, disk), Archived | Compacted)
