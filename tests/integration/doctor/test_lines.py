"""The lines that `kvwal doctor` tells to type are whole: each is typed here as it stands, for a log with names of its own."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kvwal as library
from kvwal.cli.commands import doctor as command
from kvwal.log.files.names import log_folder
from kvwal_archive.layout import Place
from tests.support.cli import kvwal
from tests.support.disk.faults import FakeClock, open_store
from tests.support.disk.mounts import small_disk
from tests.support.log.store import fill_segments

PLACE = Place("my-space", "home", "b", "left")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A closed log of three segments, all archived, in a folder whose name a shell would take apart."""
    root = tmp_path / "it's my $HOME; really"
    for number in range(3):
        with library.open(root, namespace="my-space", cluster="home", node="left") as store:
            store.map("b").put_many({f"key-{number}-{i}": i for i in range(3)})
            store.archive()
    return root


def folder(root: Path) -> Path:
    return log_folder(root, PLACE)


def segments(root: Path) -> list[Path]:
    return sorted(folder(root).glob("*.wal"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def damaged(root: Path) -> None:
    path = segments(root)[1]
    flip(path, path.stat().st_size // 2)


def missing(root: Path) -> None:
    segments(root)[1].unlink()
    (lost,) = (root / "_archive").rglob(f"{4:020}*.parquet")
    lost.unlink()


def older(root: Path) -> None:
    for path in segments(root)[2:]:
        path.unlink()


def behind(root: Path) -> None:
    with library.open(root, namespace="my-space", cluster="home", node="left", archive=None) as store:
        store.map("b")["more"] = 1


def ahead(root: Path) -> None:
    clock = FakeClock(time.time_ns() // 1_000_000 + 3_600_000)
    with open_store(root, namespace="my-space", cluster="home", node="left", clock=clock) as store:
        store.map("b")["k"] = 1


def public(root: Path) -> None:
    (folder(root) / "LOCK").chmod(0o666)


def small(root: Path) -> None:
    """Nothing: what is small counts as large."""


CASES: list[tuple[Callable[[Path], None], str, list[str]]] = [
    (damaged, "problem", ["log verify", "log repair"]),
    (missing, "problem", ["archive verify", "log verify"]),
    (older, "problem", ["log repair"]),
    (behind, "note", ["archive run"]),
    (ahead, "problem", ["checkpoint"]),
    (small, "note", ["log verify"]),
    (small, "note", ["checkpoint"]),
    (small, "note", ["doctor"]),
    (public, "note", ["chmod"]),
]


@pytest.mark.parametrize(("provoke", "level", "commands"), CASES, ids=lambda one: getattr(one, "__name__", str(one)))
def test_what_doctor_tells_to_type_is_typed(
    root: Path, provoke: Callable[[Path], None], level: str, commands: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "GLANCE_ABOVE", 100)
    monkeypatch.setattr("kvwal.scrub.diagnose.LONG_BYTES", 100)
    provoke(root)
    found = [json.loads(line) for line in kvwal("doctor", root, "--json").out.splitlines()]
    told = [one["what to do"] for one in found if one["level"] == level]
    if commands == ["chmod"]:
        assert f"chmod o-w {shlex.quote(str(folder(root) / 'LOCK'))}" in told
        return
    (step,) = {text for text in told if [name_of(line, root) for line in lines(text)] == commands}
    for line in lines(step):
        typed = words(line)
        if name_of(line, root) != "doctor":
            at = typed.index("--namespace")
            assert typed[at : at + 6] == ["--namespace", "my-space", "--cluster", "home", "--node", "left"]
        ran = kvwal(*("none" if word == "URL" else word for word in typed))
        assert ran.code in (0, 1, 4), (line, ran)
        assert "Usage" not in ran.err


def name_of(line: str, root: Path) -> str:
    """The command of a line: what stands before the folder, which is one word."""
    typed = words(line)
    return " ".join(typed[: typed.index(str(root))])


def lines(text: str) -> list[str]:
    return [line.strip() for line in re.split(r"; (?=kvwal )", text) for line in quoted(line)]


def quoted(text: str) -> list[str]:
    """A line that stands alone, or those in backticks within a sentence."""
    if text.startswith("kvwal "):
        return [text]
    return [line for line in re.findall(r"`([^`]+)`", text) if line.startswith("kvwal ")]


def words(line: str) -> list[str]:
    return shlex.split(line)[1:]


def test_a_secret_in_the_address_of_an_archive_is_not_repeated(root: Path) -> None:
    behind(root)
    ran = kvwal("doctor", root, "--archive", "s3://key:sec/ret@bucket/x", "--json")
    assert "sec/ret" not in ran.out + ran.err


def test_one_cause_is_one_finding() -> None:
    """On a disk that is mounted read-only nobody may write, and no mode or room is wrong."""
    with small_disk("tmpfs", 64 << 20) as disk:
        fill_segments(disk / "data", segments=2, archived=2)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        found = [json.loads(line) for line in kvwal("doctor", disk / "data", "--json").out.splitlines()]
    levels = [(one["level"], one["about"]) for one in found if one["level"] != "ok"]
    assert levels == [("problem", "disk"), ("note", "archive")]
