"""`kvwal doctor`: each thing that it can find is made, found, and comes with what to do; and it works where little else does."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal as library
from kvwal.cli.commands import doctor as command
from kvwal.log.files.names import log_folder
from kvwal_archive import registry
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from tests.support.cli import Ran, kvwal
from tests.support.disk.faults import FakeClock, open_store
from tests.support.disk.mounts import small_disk
from tests.support.log.store import busy, fill_segments

PLACE = Place("default", "local", "b", "local")
NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed log of three segments, all archived."""
    fill_segments(tmp_path / "data", segments=3, archived=3)
    return tmp_path / "data"


def folder(root: Path) -> Path:
    return log_folder(root, PLACE)


def doctor(root: Path, *arguments: object) -> tuple[Ran, list[dict[str, str]]]:
    ran = kvwal("doctor", root, "--json", *arguments)
    return ran, [json.loads(line) for line in ran.out.splitlines()]


def one(root: Path, level: str, says: str, *arguments: object) -> dict[str, str]:
    """The finding of that level that says so; the exit code tells of problems, and each of them says what to do."""
    ran, found = doctor(root, *arguments)
    problems = [finding for finding in found if finding["level"] == "problem"]
    assert ran.code == bool(problems), ran.err
    assert all(finding["what to do"] for finding in problems)
    (finding,) = [finding for finding in found if finding["level"] == level and says in finding["found"]]
    return finding


def problems(root: Path, *arguments: object) -> list[str]:
    return [finding["found"] for finding in doctor(root, *arguments)[1] if finding["level"] == "problem"]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_a_sound_store(root: Path) -> None:
    ran, found = doctor(root)
    assert (ran.code, [finding["level"] for finding in found]) == (0, ["ok", "ok", "note", "ok"])
    assert "9 entries were logged" in found[1]["found"]
    assert "not held by any process" in found[1]["found"]
    assert found[3]["found"] == "all of it is archived, up to sequence 9."


def test_the_holder_of_the_lock_is_named(root: Path) -> None:
    with library.open(root) as store:
        store.map("b")
        assert f"held by pid {os.getpid()}" in one(root, "ok", "entries were logged")["found"]


def test_all_namespaces_and_clusters_are_looked_at(root: Path) -> None:
    for options in ({"namespace": "other"}, {"cluster": "second"}):
        with library.open(root, **options) as store:
            store.map("c")["k"] = 1
    about = {finding["about"] for finding in doctor(root)[1]}
    assert {"default/local/b/local", "other/local/c/local", "default/second/c/local"} <= about
    narrowed = {finding["about"] for finding in doctor(root, "--namespace", "other")[1]}
    assert "default/local/b/local" not in narrowed
    nothing = kvwal("doctor", root, "--namespace", "third")
    assert (nothing.code, "has no namespace 'third' (there are: other, default)" in nothing.err) == (2, True)


def test_a_folder_without_a_log(tmp_path: Path) -> None:
    assert one(tmp_path, "note", "holds no log")


def test_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, says in (("nothing", "there is no such folder"), ("file", "is a file")):
        ran = kvwal("doctor", tmp_path / name)
        assert (ran.code, says in ran.err, ran.err.count("\n")) == (2, True, 1)


@contextmanager
def somebody_else() -> Iterator[None]:
    """A user who may do only what modes allow."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("level", ["above", "root", "namespace", "log", "file"])
def test_what_may_not_be_read_is_a_finding(level: str) -> None:
    """The rest is looked at nevertheless."""
    with tempfile.TemporaryDirectory() as made:
        root = Path(made, "above", "data")
        fill_segments(root, segments=3, archived=3)
        with library.open(root, namespace="second", archive=None) as store:
            store.map("c")["k"] = 1
        for command_line in ("doctor", "log verify", "get"):  # so that every module is loaded
            kvwal(*command_line.split(), root, *(["b", "key-1", "--node", "local"] if command_line == "get" else []))
        for path in (Path(made), *Path(made).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        closed = {
            "above": root.parent, "root": root, "namespace": root / "default", "log": folder(root),
            "file": folder(root) / f"{4:020}.wal",
        }[level]  # fmt: skip
        closed.chmod(0o000)
        with somebody_else():
            ran, found = doctor(root)
            others = [kvwal("log", "verify", root), kvwal("get", root, "b", "key-1", "--node", "local")]
        closed.chmod(0o755)
    for other in others if level != "namespace" else ():
        assert (other.code, other.err.count("\n")) in ((2, 1), (4, 0)), other
    if level == "above":
        assert (ran.code, "Permission denied" in ran.err) == (2, True)
        return
    said = [finding["found"] for finding in found if finding["level"] == "problem"]
    assert ran.code == 1
    assert any("Permission denied" in text for text in said), said
    assert level == "root" or any("1 entry was logged" in finding["found"] for finding in found)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_damaged_file(root: Path) -> None:
    path = folder(root) / f"{4:020}.wal"
    flip(path, path.stat().st_size // 2)
    assert "log verify" in one(root, "problem", f"{path.name}: ")["what to do"]


def test_of_large_files_only_header_and_seal_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder(root) / f"{1:020}.wal"
    monkeypatch.setattr(command, "GLANCE_ABOVE", path.stat().st_size - 1)
    note = one(root, "note", "only header and seal")
    assert "log verify" in note["what to do"]
    for at, found in ((path.stat().st_size // 2, False), (40, True), (path.stat().st_size - 10, True)):
        whole = path.read_bytes()
        flip(path, at)
        assert bool(problems(root)) == found, at
        path.write_bytes(whole)


def test_a_missing_segment(root: Path) -> None:
    (folder(root) / f"{4:020}.wal").unlink()
    assert one(root, "problem", "sequences 4 to 6 are in no segment")


def test_what_a_crash_left(root: Path) -> None:
    with library.open(root) as store:
        store.map("b")["more"] = 1
        store.map("b")["last"] = 2
        kept = {path: path.read_bytes() for path in folder(root).iterdir()}
        store.close(archive=False)
    for path in folder(root).iterdir():
        path.unlink()
    for path, data in kept.items():
        path.write_bytes(data)
    assert one(root, "note", "it was not closed")
    last = folder(root) / f"{10:020}.wal"
    flip(last, last.read_bytes().index(b"last"))
    assert one(root, "note", "the next open cuts it")
    (folder(root) / "next.partial").touch()
    (folder(root) / f"{1:020}.wal.3.torn").touch()
    assert one(root, "note", "next.partial was not finished")
    assert "Delete it" in one(root, "note", ".torn keeps what was cut")["what to do"]


@pytest.mark.breaks("files", reason="what the doctor is to find")
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("_restoring", "a restore was not finished"), ("_saving", "a repair was not finished"),
        (".bench-x", "a bench was not finished"), ("notes.txt", "no folder of a log"),
        ("default/local/notes.txt", "no folder of a log"), ("default/a b/", "no name that kvwal gives"),
        ("default/local/b/_merged", "a merge of nodes was not finished"),
    ],
)  # fmt: skip
def test_what_has_no_business_under_a_root(root: Path, path: str, says: str) -> None:
    where = root / path
    where.touch() if path.endswith(".txt") else where.mkdir()
    found = one(root, "note", says)
    assert found["about"] == str(where)


@pytest.mark.breaks("files", reason="what the doctor is to find")
def test_what_has_no_business_in_a_log(root: Path) -> None:
    (folder(root) / "copy of 1.wal").touch()
    assert one(root, "note", "copy of 1.wal is no file of kvwal")


def test_a_file_of_another_user(root: Path) -> None:
    if os.geteuid():
        pytest.skip("giving a file to another user needs root")
    os.chown(folder(root) / "LOCK", NOBODY, -1)
    assert one(root, "problem", "LOCK of another user than the folder")["what to do"].startswith("sudo chown -R root:")


def test_a_file_that_everybody_may_write(root: Path) -> None:
    (folder(root) / "LOCK").chmod(0o666)
    assert one(root, "note", "everybody on this machine may write LOCK")


def test_a_clock_that_stepped_back(root: Path) -> None:
    with open_store(root, clock=FakeClock(now_ms() + 3_600_000)) as store:
        store.map("b")["k"] = 1
    assert "--accept-clock" in one(root, "problem", "in the future", "--archive", "none")["what to do"]


def test_a_long_log_without_a_checkpoint(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.scrub.diagnose.LONG_BYTES", 100)
    assert "of log after no snapshot" in one(root, "note", "an open reads")["found"]
    with library.open(root) as store:
        store.map("b")
        store.checkpoint()
    assert not [finding for finding in doctor(root)[1] if "an open reads" in finding["found"]]


def test_no_archive(root: Path) -> None:
    assert one(root, "note", "there is none", "--archive", "none")


def test_an_archive_that_does_not_answer(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert one(root, "problem", "is not a folder", "--archive", tmp_path / "file" / "archive")


def behind(root: Path, age_ms: int, check: Callable[[], Any]) -> None:
    """An open store whose last entry the archive does not have."""
    with open_store(root, clock=FakeClock(now_ms() - age_ms)) as store:
        store.map("b")["k"] = 1
        check()


def test_an_archive_that_is_behind(root: Path) -> None:
    behind(root, 0, lambda: one(root, "ok", "1 entry behind"))
    assert one(root, "note", "1 entry behind")["what to do"] == f"kvwal archive run {root}"


def test_an_archive_that_takes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "data"
    behind(root, 3_600_000, lambda: one(root, "problem", "1 entry behind, the oldest 60 min old"))


def test_a_gap_and_an_older_copy(root: Path, tmp_path: Path) -> None:
    (one_object,) = (root / "_archive").rglob(f"{4:020}*.parquet")
    one_object.rename(tmp_path / "object")
    assert not problems(root)
    (folder(root) / f"{4:020}.wal").unlink()
    assert one(root, "problem", "sequences 4 to 6: no segment and no object")
    (tmp_path / "object").rename(one_object)
    for first in (7, 10):
        (folder(root) / f"{first:020}.wal").unlink(missing_ok=True)
    assert "--take-over" in one(root, "problem", "older copy")["what to do"]


def test_an_archive_of_another_log(root: Path) -> None:
    registry.take_over(open_objects(str(root / "_archive")), PLACE, "another", 10)
    assert one(root, "problem", "this one is fenced")


def test_a_damaged_registration(root: Path) -> None:
    (path,) = (root / "_archive").rglob("_log")
    flip(path, 30)
    assert one(root, "problem", "registration")


def test_a_full_disk_a_read_only_one_and_one_without_inodes() -> None:
    with small_disk("tmpfs", 16 << 20) as disk:
        fill_segments(disk / "data", segments=2, archived=0)
        (disk / "filler").write_bytes(bytes(31 << 19))
        full = one(disk / "data", "problem", "0 B of them for writes")
        assert "go on by themselves" in full["what to do"]
        (disk / "filler").unlink()
        assert one(disk / "data", "note", "of them for writes")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert one(disk / "data", "problem", "mounted read-only")
        subprocess.run(["mount", "-o", "remount,rw,nr_inodes=50", str(disk)], check=True)
        for number in range(50):
            try:
                (disk / f"{number}").touch()
            except OSError:
                break
        assert one(disk / "data", "problem", "no inode left")


def test_a_store_at_work_has_no_problem(tmp_path: Path) -> None:
    root, archive = tmp_path / "data", tmp_path / "archive"
    with busy(root, archive):
        for _ in range(30):
            assert problems(root, "--archive", archive) == []


def test_people_get_a_table(root: Path) -> None:
    ran = kvwal("doctor", root)
    assert ran.out.splitlines()[0].split() == ["level", "about", "found", "what", "to", "do"]


def test_a_large_snapshot_and_nothing_after_it(tmp_path: Path) -> None:
    """The time of the last entry is in the header of the snapshot, of which no more is read."""
    with library.open(tmp_path / "data", archive=None) as store:
        store.map("b").put_many({number: os.urandom(1024) for number in range(2 * command.GLANCE_ABOVE >> 10)})
        store.checkpoint()
    finding = one(tmp_path / "data", "ok", "entries were logged", "--archive", "none")
    assert "the last one at 20" in finding["found"]
