"""Disks that really fill, fail and forget nothing: a 16 MiB ext4 and a small tmpfs, eight threads that write, kill -9 on the full
disk, an ext4 that goes read-only under the writer; and what else a machine can run out of.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import kvwal
from archive.objects import open_objects
from archive.verify import verify
from tests.support.fill import THREADS
from tests.support.mounts import MIB, small_disk

SIZES = {"ext4": 16 * MIB, "tmpfs": 8 * MIB}
TURNS = 4
Known = dict[str, int]


class Filler:
    """The program `tests.support.fill`, told what to do. `known` is what it said was acknowledged."""

    def __init__(self, root: Path, archive: Path | str) -> None:
        command = [sys.executable, "-m", "tests.support.fill", str(root), str(archive)]
        where = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=where)
        self.known: Known = self._answer()

    def tell(self, word: str) -> Any:
        """Give a command, and return what it answers."""
        self.say(word)
        answer = self._answer()
        if isinstance(answer, dict) and "known" in answer:
            self.known = answer["known"]
        return answer

    def say(self, word: str) -> None:
        """Give a command, and do not wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def lines(self) -> Iterator[Any]:
        """What it says."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def _answer(self) -> Any:
        return next(self.lines())

    def close(self) -> int:
        """Let it close its store, and return how it ended."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait()

    def kill(self) -> None:
        """Kill -9."""
        self.process.kill()
        self.process.wait()


@contextmanager
def filling(root: Path, archive: Path | str) -> Iterator[Filler]:
    filler = Filler(root, archive)
    try:
        yield filler
    finally:
        filler.kill()
        for pipe in (filler.process.stdin, filler.process.stdout):
            assert pipe is not None
            pipe.close()


def others_take(disk: Path, name: str, size: int) -> Path:
    """A file of somebody else on the disk."""
    path = disk / name
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
    return path


def others_take_all(disk: Path, name: str) -> Path:
    """A file of somebody else to which the disk's last byte goes."""
    path = disk / name
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1024)):
            pass
    return path


def counts(jobs: kvwal.Map) -> Known:
    """What is there, as the counts that `fill` knows."""
    return {key: count for key, (count, _) in jobs.items()}


def full(filler: Filler) -> None:
    """Fill the disk: every thread is told so, and nobody is hurt."""
    assert filler.tell("fill")["refused"] == THREADS
    stats = filler.tell("stats")
    assert stats["businesses"]["jobs"]["failed"] is None
    assert "reserve" in stats["businesses"]["jobs"]["full"]
    assert stats["disk"]["free_bytes"] > 0, "the reserve is there"


def goes_on(filler: Filler) -> None:
    """There is room again: every thread can write, without a reopen."""
    assert filler.tell("once")["refused"] == 0
    assert filler.tell("stats")["businesses"]["jobs"]["full"] is None


@pytest.mark.parametrize("kind", SIZES)
def test_a_disk_that_fills_four_times_while_eight_threads_write(kind: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with small_disk(kind, SIZES[kind]) as disk:
        others = [others_take(disk, f"other-{turn}", MIB) for turn in range(TURNS)]
        with filling(disk / "root", archive) as filler:
            for other in others:
                full(filler)
                other.unlink()
                goes_on(filler)
                full(filler)
                before = filler.tell("stats")["disk"]["usable_bytes"]
                assert filler.tell("checkpoint") is None
                assert filler.tell("archive") is None
                stats = filler.tell("stats")
                assert stats["disk"]["usable_bytes"] > before + MIB, "segments went"
                assert stats["businesses"]["jobs"]["archive_lag_entries"] == 0
                goes_on(filler)
            assert filler.tell("read") == filler.known
            full(filler)
            known = filler.known
            assert filler.close() == 0, "on a full disk it ends by itself"
        with kvwal.open(disk / "root", archive=archive) as store:
            assert counts(store.map("jobs")) == known, "every acknowledged value, and nothing that was refused"
        kvwal.restore(archive, tmp_path / "second")
        with kvwal.open(tmp_path / "second") as store:
            assert counts(store.map("jobs")) == known
    assert verify(open_objects(str(archive))).findings == []


@pytest.mark.parametrize("kind", SIZES)
def test_kill_9_on_a_full_disk(kind: str, tmp_path: Path) -> None:
    with small_disk(kind, SIZES[kind]) as disk:
        root = disk / "root"
        other = others_take(disk, "other", MIB)
        with filling(root, "none") as filler:
            full(filler)
            other.unlink()
            must, may = spin_until_killed(filler)
        for _ in range(2):
            with kvwal.open(root, archive=None) as store:
                found = counts(store.map("jobs"))
                check(found, must, may)
                must, may = found, {}
        last = others_take_all(disk, "last")
        with kvwal.open(root, archive=None, read_only=True) as store:
            assert counts(store.map("jobs")) == found, "not a byte is left, and it can be read"
        with kvwal.open(root, archive=None) as store, pytest.raises(kvwal.StorageFull, match="Free space"):
            store.map("jobs")
        last.unlink()
        with kvwal.open(root, archive=None) as store:
            assert counts(store.map("jobs")) == found


def spin_until_killed(filler: Filler) -> tuple[Known, dict[str, list[int]]]:
    """Kill it when it is full again. What must be there, and what may be there instead."""
    must, may = dict(filler.known), {}
    filler.say("spin")
    begun = 0
    for line in filler.lines():
        if line == THREADS:
            break
        word, changes = line
        if word == "begin":
            begun += 1
            may |= {key: [*may.get(key, []), value] for key, value in changes.items()}
        else:
            must |= changes
            may = {key: values for key, values in may.items() if key not in changes}
        if begun == 150:
            break
    filler.kill()
    for line in filler.lines():
        if line != THREADS and line[0] == "done":
            must |= line[1]
        elif line != THREADS:
            may |= {key: [*may.get(key, []), value] for key, value in line[1].items()}
    return must, may


def check(found: Known, must: Known, may: dict[str, list[int]]) -> None:
    """Every acknowledged value or one that was on its way, and transactions whole."""
    assert set(found) >= set(must)
    assert not {key: value for key, value in found.items() if value not in (must.get(key), *may.get(key, []))}
    for name in range(THREADS):
        assert len({found.get(f"{name}-all-{part}") for part in range(3)}) == 1, "a transaction came back in part"
