"""Partial files: a job that fails leaves none, and those of a killed process go. Those of a living process stay."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import asdict

from kvwal.archiver.jobs import Archived, Checkpoint, Checkpointed, SegmentRef
from kvwal.archiver.work import answer
from kvwal.errors import CorruptLog
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.atomic_file import delete_abandoned, write_file
from kvwal.log.files.external_sort import Runs
from kvwal.log.files.format import SnapshotHeader
from kvwal.log.files.names import SCRATCH_MARK, scratch_name
from kvwal.log.files.retired import remove_abandoned
from kvwal.log.files.snapshot import write_snapshot
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK, OsDisk
from tests.support.archive.archiver_memory import seed
from tests.support.disk.faults import FakeDisk
from tests.support.log.logs import Writer, recovered, three_segments

WRITER = """
import sys
from pathlib import Path
from kvwal.ports.disk import OS_DISK
file = OS_DISK.create(Path(sys.argv[1]))
print("written", flush=True)
sys.stdin.read()
"""


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.partial"))


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path.write_bytes(data)


def test_a_checkpoint_that_meets_damage_leaves_no_file(tmp_path: Path) -> None:
    writer = three_segments(tmp_path)
    checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed[:2], entry_decoder())
    flip_a_bit(next(tmp_path.glob("*.snapshot")))
    for _ in range(3):
        with pytest.raises(CorruptLog):
            checkpoint(OS_DISK, SYSTEM, tmp_path, writer.sealed, entry_decoder())
    assert [name for name in partials(tmp_path) if ".snapshot." in name] == []
    writer.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_no_error_of_its_blocks_leaves_a_file_of_a_snapshot(tmp_path: Path, error: type[BaseException]) -> None:
    writer = three_segments(tmp_path)
    writer.close()
    header = SnapshotHeader(**asdict(writer.appender.header), last_sequence=9, last_crc=0, last_timestamp=1)

    def blocks() -> Iterator[list[tuple[object, ...]]]:
        yield [(b"key", "str", b"value", "bytes", False, 1)]
        raise error

    with pytest.raises(error):
        write_snapshot(OS_DISK, SYSTEM, tmp_path, header, blocks())
    assert partials(tmp_path) == []


class NoRename(OsDisk):
    """A disk on which no file gets another name."""

    def rename(self, old: Path, new: Path) -> None:
        raise PermissionError(13, "Permission denied", str(new))


def test_a_file_that_cannot_get_its_name_is_deleted(tmp_path: Path) -> None:
    with pytest.raises(PermissionError):
        write_file(NoRename(), tmp_path / "note", [b"text"])
    assert list(tmp_path.iterdir()) == []


def test_a_sort_that_ends_early_leaves_no_run(tmp_path: Path) -> None:
    disk = FakeDisk()
    runs = Runs(disk, tmp_path, key=lambda row: row[0])
    for number in range(3):
        runs.add((b"%d" % number, "", bytes(33 << 20)))
    rows = runs.in_order()
    next(rows)
    assert partials(tmp_path) == ["run-0.partial", "run-1.partial", "run-2.partial"]
    rows.close()  # type: ignore[attr-defined]
    disk.fail("write_at")
    with pytest.raises(OSError, match="Input/output"):
        Runs(disk, tmp_path, key=lambda row: row[0]).add((b"key", "", bytes(33 << 20)))
    assert partials(tmp_path) == []


@contextmanager
def written_by_another(path: Path) -> Iterator[None]:
    """Another process writes the file in the `with` block. At its end the process is killed."""
    arguments = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        try:
            yield
        finally:
            process.kill()


def recover_it(writer: Writer, folder: Path) -> None:
    writer.crash()
    recovered(folder)


def checkpoint_it(writer: Writer, folder: Path) -> None:
    job = Checkpoint(str(folder), [SegmentRef.of(segment) for segment in writer.sealed], 0)
    assert isinstance(answer(job), Checkpointed)


@pytest.mark.parametrize("clean", [recover_it, checkpoint_it])
def test_a_snapshot_that_a_living_process_writes_stays_and_that_of_a_killed_one_goes(
    tmp_path: Path, clean: Callable[[Writer, Path], None]
) -> None:
    """An archiver may outlive its killed parent, and its parent may outlive an archiver."""
    orphan = tmp_path / "00000000000000000009.snapshot.00c0ffee.partial"
    with written_by_another(orphan):
        clean(three_segments(tmp_path), tmp_path)
        assert orphan.exists()
    found = recovered(tmp_path)[0]
    writer = Writer(tmp_path, after=found)
    writer.group(1)
    writer.appender.rotate()
    orphan.touch()
    if clean is checkpoint_it:
        job = Checkpoint(str(tmp_path), [SegmentRef.of(segment) for segment in writer.sealed if segment.first > 9], 0)
        answer(job)
    else:
        clean(writer, tmp_path)
    assert not orphan.exists()


def recover_a_log(folder: Path) -> None:
    recover_it(three_segments(folder), folder)


def seed_an_archive(folder: Path) -> None:
    assert isinstance(answer(seed(10, folder)), Archived)


@pytest.mark.parametrize("clean", [recover_a_log, seed_an_archive])
def test_the_folder_of_a_job_stays_while_its_archiver_lives_and_goes_when_it_was_killed(
    tmp_path: Path, clean: Callable[[Path], None]
) -> None:
    orphan = tmp_path / scratch_name(7)
    orphan.mkdir()
    (orphan / "seed").touch()
    with written_by_another(orphan / SCRATCH_MARK):
        delete_abandoned(OS_DISK, tmp_path)
        assert sorted(path.name for path in orphan.iterdir()) == ["seed", SCRATCH_MARK]
    clean(tmp_path)
    assert not orphan.exists()


def test_a_checkpoint_leaves_the_files_of_the_process_that_has_the_log_open(tmp_path: Path) -> None:
    writer = three_segments(tmp_path)
    own = tmp_path / "recycled-1.partial"
    own.touch()
    checkpoint_it(writer, tmp_path)
    assert own.exists()
    writer.close()


def test_an_unfinished_end_of_a_retired_log_goes(tmp_path: Path) -> None:
    folder = tmp_path / "default" / "local" / "_retired" / "n"
    folder.mkdir(parents=True)
    (folder / "jobs.snapshot.partial").touch()
    remove_abandoned(OS_DISK, tmp_path, "default", "local", "n")
    assert list(folder.iterdir()) == []
