"""A real process with eight threads: its system calls fail, are slow (`strace`), or short (a tracer of our own), it has no file
descriptor left, its disk goes read-only, somebody else wants its lock.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.archiver.jobs import Checkpoint, encode
from tests.support.disk.mounts import MIB, abort, mount, small_disk, unmount
from tests.support.programs.acknowledge import WRITES
from tests.support.programs.fill import THREADS
from tests.support.programs.filler import Filler, check, counts, filling
from tests.support.sweep import syscalls
from tests.support.sweep.syscalls import launched

DESCRIPTORS = 64
CROWDED = ["sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh"]


def injecting(call: str, fault: str) -> list[str]:
    """The command that runs a program in which `call` meets `fault`."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    try_it = subprocess.run(["strace", "-o", os.devnull, "true"], check=False, stderr=subprocess.PIPE, text=True)
    if try_it.returncode:
        pytest.skip(f"this machine does not let a test trace a process: {try_it.stderr.strip()}")
    return ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}", "-e", f"inject={call}:{fault}"]


def is_poisoned(filler: Filler, answer: Any, what: str) -> None:
    """Every thread was told the cause, later writes are refused, and reading goes on with what was acknowledged."""
    kinds = {kind for kind, _ in answer["errors"]}
    assert answer["refused"] == THREADS
    assert kinds <= {"CommitUnknown", "LogFailed"}
    assert "CommitUnknown" in kinds
    assert all(what in text for _, text in answer["errors"])
    later = filler.tell("once")
    assert (later["refused"], [kind for kind, _ in later["errors"]]) == (THREADS, ["LogFailed"])
    assert "reopen the store" in later["errors"][0][1]
    assert filler.tell("read") == filler.known
    assert what in filler.tell("stats")["businesses"]["jobs"]["failed"]


def recovers(root: Path, filler: Filler) -> None:
    """A fresh store has what was acknowledged, of what was on its way all or nothing, and can be written to."""
    with kvwal.open(root, archive=None) as store:
        jobs = store.map("jobs")
        check(counts(jobs), filler.known, filler.may())
        jobs["0-0"] = [1, "again"]


@pytest.mark.parametrize(
    ("call", "error", "what"),
    [
        ("fdatasync", "EIO", "Input/output error"),
        ("pwritev2", "ENOSPC", "No space left"),
        ("pwritev2", "EIO", "Input/output"),
    ],
)
@pytest.mark.parametrize("nth", [8, 60])
@pytest.mark.variants(3)
def test_a_call_of_the_log_that_fails(call: str, error: str, what: str, nth: int, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with filling(root, "none", injecting(call, f"error={error}:when={nth}")) as filler:
        is_poisoned(filler, filler.tell("fill"), what)
        assert filler.close() == 0, "it ends by itself"
    recovers(root, filler)


def test_a_disk_that_fails_for_good(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with filling(root, "none", injecting("fdatasync,fsync", "error=EIO:when=20+")) as filler:
        is_poisoned(filler, filler.tell("fill"), "Input/output error")
        assert filler.close() == 0, "it ends by itself"
    recovers(root, filler)


def test_a_slow_fsync_makes_groups_large_and_loses_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with filling(root, "none", injecting("fdatasync", "delay_enter=30000")) as filler:
        for _ in range(10):
            assert filler.tell("once")["refused"] == 0
        stats = filler.tell("stats")["businesses"]["jobs"]
        assert stats["groups"] <= 10 * THREADS // 2, "those who wait for one fsync share the next"
        assert filler.tell("read") == filler.known
        assert filler.close() == 0
    recovers(root, filler)


def test_every_write_of_a_log_is_short(tmp_path: Path) -> None:
    lacking = syscalls.missing()
    if lacking:
        pytest.skip(lacking)
    root, chance, short, rest = tmp_path / "root", random.Random(1), 0, 0
    command = ["-m", "tests.support.programs.acknowledge", str(root), "4"]
    with launched(command, ["pwritev", "pwritev2", "pwrite64"]) as program:
        for call in program.calls:
            if rest or not call.path.endswith(".wal"):
                rest = False
                call.go()
                continue
            call.write_part(chance.randrange(1, 40))
            short, rest = short + 1, chance.random() < 0.5
        assert program.process.wait() == 0
        assert program.process.stdout is not None
        assert program.process.stdout.read().count(b"acknowledged") == 4 * WRITES
    assert short > WRITES
    with kvwal.open(root, archive=None) as store:
        jobs = store.map("jobs")
        assert [jobs[f"{name}"] for name in range(4)] == [WRITES - 1] * 4


def test_without_a_file_descriptor_writes_are_refused_and_then_go_on(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with filling(root, archive, CROWDED) as filler:
        assert filler.tell("once")["refused"] == 0
        filler.tell("crowd")
        for command in ("archive", "checkpoint", "open 1"):
            refused = filler.tell(command)
            assert refused["error"] in ("ArchiveError", "StorageFull"), refused
            assert "Too many open files" in refused["text"] or "0 of 64 file descriptors are free" in refused["text"]
        full = filler.tell("fill")
        assert {kind for kind, _ in full["errors"]} == {"StorageFull"}
        assert all("no file descriptor is left" in text and "ulimit" in text for _, text in full["errors"])
        assert filler.tell("read") == filler.known
        filler.tell("leave")
        assert filler.tell("once")["refused"] == 0
        assert filler.tell("archive") is None
        stats = filler.tell("stats")["businesses"]["jobs"]
        assert (stats["failed"], stats["full"], stats["archive_lag_entries"]) == (None, None, 0)
        assert filler.close() == 0
    recovers(root, filler)


def test_a_disk_that_goes_read_only_under_eight_threads(tmp_path: Path) -> None:
    with small_disk("ext4", 64 * MIB) as disk:
        root = disk / "root"
        with filling(root, "none") as filler:
            assert filler.tell("once")["refused"] == 0
            abort(disk)
            answer = filler.tell("fill")
            assert answer["refused"] == THREADS
            assert {kind for kind, _ in answer["errors"]} <= {"CommitUnknown", "LogFailed"}
            assert filler.tell("read") == filler.known
            assert "reopen the store" in filler.tell("once")["errors"][0][1]
            assert filler.close() == 0, "it ends by itself"
        with kvwal.open(root, archive=None) as store, pytest.raises(kvwal.ConfigError, match="Mend the disk"):
            store.map("jobs")
        unmount(disk)
        mount("ext4", disk.with_name("image"), disk, 64 * MIB)
        recovers(root, filler)


def test_a_second_process_that_wants_the_lock_is_told_who_holds_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with filling(root, "none") as filler:
        assert filler.tell("once")["refused"] == 0
        with kvwal.open(root, archive=None) as store:
            with pytest.raises(kvwal.StoreLocked, match=f"pid {filler.process.pid} on "):
                store.map("jobs")
            assert filler.tell("once")["refused"] == 0, "the holder notices nothing"
            with kvwal.open(root, archive=None, read_only=True) as reader:
                assert counts(reader.map("jobs")) == filler.known
            filler.kill()
            assert counts(store.map("jobs")) == filler.known, "who was refused can try again"


def test_an_archiver_whose_program_was_killed_ends_without_a_word(tmp_path: Path) -> None:
    job = encode(Checkpoint(str(tmp_path), [], 0)) + b"\n"
    command = [sys.executable, "-m", "kvwal.archiver", "1"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(job * 2)
        process.stdin.close()
        assert process.stderr.read() == b""
