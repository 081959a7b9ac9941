"""Disks that really fill, fail and forget nothing: a 16 MiB ext4 and a small tmpfs, eight threads that write, kill -9 on the full
disk, an ext4 that goes read-only under the writer; and what else a machine can run out of.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

import kvwal
from kvwal_archive.objects import open_objects
from kvwal_archive.verify import verify
from tests.support.disk.mounts import MIB, small_disk
from tests.support.programs.fill import THREADS
from tests.support.programs.filler import Filler, Known, check, counts, filling

SIZES = {"ext4": 16 * MIB, "tmpfs": 8 * MIB}
TURNS = 4


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


@pytest.mark.long
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


@pytest.mark.long
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
