"""`kvwal log verify` and `kvwal archive verify` as scrubs: what they find beside damaged files, that an interrupted one goes
on where it stopped, and that a store at work is never taken for a damaged one.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kvwal.cli import show
from kvwal.errors import ConfigError
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import OS_DISK, OsDisk
from kvwal.scrub.compare_archive import verify_log
from kvwal.scrub.inspect import examine
from kvwal.scrub.progress import NotesFile, notes_file
from kvwal_archive import registry
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from tests.support.cli import Ran, kvwal
from tests.support.log.store import busy, fill_segments

PLACE = Place("default", "local", "b", "local")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of five sealed segments of three entries each, of which the archive has the first three."""
    root = tmp_path / "data"
    fill_segments(root, segments=5, archived=3)
    return root


def folder(root: Path) -> Path:
    return log_folder(root, PLACE)


def verify(root: Path, *arguments: object) -> Ran:
    return kvwal("log", "verify", root, "--json", *arguments)


def problems(ran: Ran) -> list[dict[str, Any]]:
    return [found for found in map(json.loads, ran.out.splitlines()) if found["problem"]]


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_sound_log_has_no_findings(root: Path) -> None:
    ran = verify(root)
    assert (ran.code, problems(ran)) == (0, [])


def test_a_missing_segment_that_the_archive_has(root: Path) -> None:
    (folder(root) / f"{4:020}.wal").unlink()
    ran = verify(root)
    assert ran.code == 4
    (found,) = problems(ran)
    assert (found["file"], found["problem"]) == (f"{7:020}.wal", "sequences 4 to 6 are in no segment.")


def test_a_missing_segment_that_no_copy_has(root: Path) -> None:
    (folder(root) / f"{10:020}.wal").unlink()
    (_, lost) = problems(verify(root))
    assert (lost["first"], lost["last"], lost["state"]) == (10, 12, "missing")
    assert "no object of the archive" in lost["problem"]


def test_what_a_snapshot_still_knows_is_said(tmp_path: Path) -> None:
    root = tmp_path / "data"
    fill_segments(root, segments=5, archived=4, checkpointed=4)
    for path in (root / "_archive").rglob(f"{4:020}-*.parquet"):
        path.unlink()
    lost = problems(verify(root))[-1]
    assert (lost["first"], lost["last"]) == (4, 6)
    assert "the snapshot has the latest values" in lost["problem"]


def test_a_log_whose_end_is_missing(root: Path) -> None:
    for first in (7, 10, 13, 16):
        (folder(root) / f"{first:020}.wal").unlink(missing_ok=True)
    (found,) = problems(verify(root))
    assert (found["first"], found["last"]) == (7, 9)
    assert "older copy" in found["problem"]


def test_an_archive_of_another_log_and_one_that_fenced_it(root: Path) -> None:
    objects = open_objects(str(root / "_archive"))
    registry.take_over(objects, PLACE, "another", 10)
    assert "this one is fenced" in problems(verify(root))[0]["problem"]
    for path in (root / "_archive").rglob("_log*"):
        path.unlink()
    registry.register(objects, PLACE, "another")
    assert "another log under this name" in problems(verify(root))[0]["problem"]


def test_a_log_under_another_name(root: Path) -> None:
    folder(root).parent.rename(folder(root).parent.with_name("c"))
    found = problems(verify(root, "--archive", "none"))
    assert len(found) == 5
    assert "written as default/local/b/local" in found[0]["problem"]


def test_a_segment_of_another_log(root: Path, tmp_path: Path) -> None:
    fill_segments(tmp_path / "other", segments=5, archived=0)
    shutil.copy(folder(tmp_path / "other") / f"{4:020}.wal", folder(root))
    found = problems(verify(root))
    assert "of another log" in found[0]["problem"]


def test_an_archive_that_does_not_answer_and_a_damaged_one(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    silent = verify(root, "--archive", tmp_path / "file" / "archive")
    assert (silent.code, len(silent.out.splitlines())) == (3, 5)
    path = next((root / "_archive").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-4])
    ran = verify(root)
    assert ran.code == 4
    assert problems(ran)[0]["problem"].startswith("the archive: ")


class BrokenDisk(OsDisk):
    """Cannot read a snapshot."""

    def try_read(self, path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def test_what_the_disk_cannot_give_is_a_finding(root: Path) -> None:
    assert kvwal("checkpoint", root).code == 0
    (snapshot,) = [file for file in examine(BrokenDisk(), root, PLACE) if file.is_snapshot]
    assert snapshot.problem == "it cannot be read: Input/output error."


@contextmanager
def interrupted(path: Path, subject: str) -> Iterator[NotesFile]:
    """Notes of a scrub that is interrupted where the block ends."""
    with suppress(KeyboardInterrupt), notes_file(OS_DISK, path, subject) as notes:
        yield notes
        raise KeyboardInterrupt


def test_notes_are_of_one_subject_and_a_torn_line_is_none(tmp_path: Path) -> None:
    path = tmp_path / "notes"
    with interrupted(path, "this") as notes:
        notes.add("a", "1", [1])
        notes.add("b", "2", [2])
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ConfigError, match="something else"), notes_file(OS_DISK, path, "that"):
        pass
    with notes_file(OS_DISK, path, "this") as notes:
        assert (notes.resumed, notes.known("a", "1"), notes.known("a", "2"), notes.known("b", "2")) == (
            1,
            [1],
            None,
            None,
        )
        notes.add("b", "2", [3])
    assert not path.exists()


@pytest.mark.parametrize("content", [b"no notes\n", b"no line", b"[]\n", b'["kvwal scrub",9,"this"]\n'])
def test_a_file_that_holds_no_notes_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "precious"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="Name another file"), notes_file(OS_DISK, path, "this"):
        pass
    assert path.read_bytes() == content


class Interrupting:
    """Progress that is interrupted at the n-th report of a file that was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self.left = after
        self.done: list[int] = []
        monkeypatch.setattr(show.Bars, "report", self.report)

    def report(self, done: int, total: int, what: str) -> None:
        if not self.done or done != self.done[-1]:
            self.done.append(done)
        if len(self.done) > self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize(("command", "reports"), [("log", 5), ("archive", 2)])
def test_an_interrupted_scrub_goes_on_where_it_stopped(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, reports: int
) -> None:
    whole = kvwal(command, "verify", root)
    notes = tmp_path / "notes"
    with monkeypatch.context() as patch:
        Interrupting(patch, after=reports)
        assert kvwal(command, "verify", root, "--resume", notes).code == 130
    assert len(notes.read_text().splitlines()) > 1
    again = kvwal(command, "verify", root, "--resume", notes)
    assert "before the interruption; going on" in again.err
    assert (again.code, again.out) == (0, whole.out)
    assert not notes.exists()
    assert kvwal(command, "verify", root, "--resume", notes).err == ""


def test_what_was_noted_is_not_read_again_and_what_is_damaged_is(root: Path, tmp_path: Path) -> None:
    damaged = folder(root) / f"{4:020}.wal"
    flip(damaged)
    notes = tmp_path / "notes"
    with interrupted(notes, "x") as kept:
        before = examine(OS_DISK, root, PLACE, notes=kept)
    assert len(notes.read_text().splitlines()) == 1 + 4
    flip(folder(root) / f"{1:020}.wal")
    flip(damaged)
    with notes_file(OS_DISK, notes, "x") as kept:
        after = examine(OS_DISK, root, PLACE, notes=kept)
    assert [file.first for file in before if file.problem] == [4]
    assert not [file for file in after if file.problem]
    assert [file.first for file in examine(OS_DISK, root, PLACE) if file.problem] == [1]


def test_a_store_at_work_is_never_taken_for_a_damaged_one(tmp_path: Path) -> None:
    root, archive = tmp_path / "data", tmp_path / "archive"
    with busy(root, archive):
        for _ in range(60):
            found = verify_log(OS_DISK, root, PLACE, open_objects(str(archive))).files
            assert not [file for file in found if file.problem]
