"""Imports and exports on a disk that really fills: each says how far it came, and an export leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.cli.commands.transfer import write_file
from kvwal.cli.transfer.new_file import NotExported
from kvwal.errors import ConfigError
from kvwal_archive.objects import new_names
from tests.support.cli import kvwal as run
from tests.support.disk.mounts import MIB, small_disk

ROWS = 6_000


@pytest.fixture
def disk() -> Iterator[Path]:
    with small_disk("tmpfs", 8 * MIB) as disk:
        yield disk


def exported(path: Path) -> Path:
    """An export of 6,000 entries of 2 KiB, which is more than the disk has."""
    with path.open("w") as file:
        for number in range(1, ROWS + 1):
            fields = {"key": f"{number:06}", "key_class": "str", "value": "x" * 2_000, "value_class": "str"}
            file.write(json.dumps(fields) + "\n")
    return path


def test_an_import_that_fills_the_disk_says_how_far_it_came(disk: Path, tmp_path: Path) -> None:
    """And goes on when there is room."""
    file = exported(tmp_path / "jobs.jsonl")
    others = disk / "others"
    with others.open("wb") as taken:
        os.posix_fallocate(taken.fileno(), 0, 2 * MIB)
    ran = run("import", disk / "root", "b", file, "--archive", "none")
    assert (ran.code, ran.out) == (3, ""), ran
    assert "nothing was written" not in ran.err
    said = re.search(r"jobs.jsonl: ([0-9,]+) entries were put; line ([0-9,]+) is the first that was not", ran.err)
    assert said is not None, ran.err
    written, first = (int(number.replace(",", "")) for number in said.groups())
    assert 0 < written == first - 1 < ROWS
    assert "Free space" in ran.err
    assert "run the same command again" in ran.err
    with kvwal.open(disk / "root", archive=None, read_only=True) as store:
        assert sorted(store.map("b")) == [f"{number:06}" for number in range(1, first)]
    others.unlink()
    rest = tmp_path / "rest"
    rest.write_text("".join(file.read_text().splitlines(keepends=True)[written : written + 500]))
    assert run("import", disk / "root", "b", rest, "--archive", "none").code == 0


def test_an_export_that_fills_the_disk_leaves_no_file(disk: Path, tmp_path: Path) -> None:
    assert run("import", tmp_path / "root", "b", exported(tmp_path / "file"), "--archive", "none").code == 0
    ran = run("export", tmp_path / "root", "b", disk / "out")
    assert (ran.code, ran.out) == (3, ""), ran
    assert "cannot be written (No space left on device); the unfinished file was removed. Free space" in ran.err
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_export_that_is_interrupted_leaves_no_file(tmp_path: Path, error: type[BaseException]) -> None:
    def lines() -> Iterator[dict[str, str]]:
        yield {"key": "half"}
        raise error

    with pytest.raises(error):
        write_file(tmp_path / "out", lines())
    assert list(tmp_path.iterdir()) == []


def test_an_export_replaces_no_file(tmp_path: Path) -> None:
    """Neither one that is there, nor one that comes meanwhile."""
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("b")["k"] = 1
    (tmp_path / "out").write_text("kept")
    ran = run("export", tmp_path / "root", "b", tmp_path / "out")
    assert (ran.code, "Name a new file." in ran.err) == (2, True)

    def lines() -> Iterator[dict[str, str]]:
        (tmp_path / "late").write_text("kept")
        yield {"key": "mine"}

    with pytest.raises(ConfigError, match="already"):
        write_file(tmp_path / "late", lines())
    assert (tmp_path / "out").read_text() == (tmp_path / "late").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late", "out", "root"]


def test_an_export_has_its_name_where_no_call_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On file systems behind FUSE, as for a bucket: neither links nor such renames. None can be mounted in a test."""

    def refuse(old: Path, new: Path) -> None:
        raise OSError(95, "Operation not supported", str(new))

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(new_names, "_rename_new", refuse)
    assert write_file(tmp_path / "out", [{"whole": 1}]) == 1
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", '{"whole":1}\n')]


@pytest.mark.parametrize("refused", [None, errno.EINVAL], ids=["synced", "a file system that syncs no folders"])
def test_the_name_of_an_export_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int | None) -> None:
    """The file, and then its folder, which has the name by then."""
    synced = refuse_folder_syncs(monkeypatch, refused)
    write_file(tmp_path / "out", [{"whole": 1}])
    assert synced == [("file", 0), ("folder", 1)]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_export_whose_name_cannot_be_synced_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_folder_syncs(monkeypatch, errno.EIO)
    with pytest.raises(NotExported, match="the unfinished file was removed"):
        write_file(tmp_path / "out", [{"whole": 1}])
    assert list(tmp_path.iterdir()) == []


def refuse_folder_syncs(monkeypatch: pytest.MonkeyPatch, number: int | None) -> list[tuple[str, int]]:
    """What is synced from now on, each with how many files its folder has under the name `out`. Folders fail with `number`."""
    synced, fsync = [], os.fsync

    def sync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        folder = path if path.is_dir() else path.parent
        synced.append(("folder" if path.is_dir() else "file", len(list(folder.glob("out")))))
        if number is not None and path.is_dir():
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return synced


def test_a_bad_line_comes_after_the_good_ones_before_it(tmp_path: Path) -> None:
    """How many of them are there is said."""
    lines = exported(tmp_path / "file").read_text().splitlines(keepends=True)[:700]
    (tmp_path / "bad").write_text("".join([*lines, "{\n"]))
    ran = run("import", tmp_path / "root", "b", tmp_path / "bad")
    assert (ran.code, "line 701 is no JSON object" in ran.err, "700 entries before it were put" in ran.err) == (
        2, True, True,
    )  # fmt: skip
    with kvwal.open(tmp_path / "root", archive=None, read_only=True) as store:
        assert len(store.map("b")) == 700
