"""Signals, and every way in which an interpreter ends: it ends, quietly, and what it had acknowledged is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import StoreLocked
from tests.support.disk.faults import FakeDisk, open_store
from tests.support.programs.endings import WRITES

LINES = 60
NOISE = ("Fatal Python", "Exception ignored", "never awaited", "Task was destroyed", "never retrieved", "Traceback")


@pytest.fixture(autouse=True)
def hang_up_ends_a_process() -> Iterator[None]:
    """As a shell starts programs. Who runs the tests by `nohup` has them ignore SIGHUP, and processes inherit that."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


class Program:
    """`tests.support.programs.endings`, in a session of its own. `lines` are what it said so far."""

    def __init__(self, how: str, root: Path, *more: object) -> None:
        command = [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "ignore::ResourceWarning",
            "-m",
            "tests.support.programs.endings",
            how,
        ]
        self.process = subprocess.Popen(
            [*command, str(root), *map(str, more)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
            start_new_session=True,
        )  # fmt: skip
        self.lines: list[str] = []

    def read(self, count: int) -> None:
        """Read on until it has said so many lines."""
        assert self.process.stdout is not None
        while len(self.lines) < count:
            line = self.process.stdout.readline()
            assert line, f"it ended after {self.lines[-3:]}: {self.process.communicate()[1]}"
            self.lines.append(line.rstrip("\n"))

    def end(self) -> tuple[int, str]:
        """Its exit code, and its standard error."""
        out, err = self.process.communicate()
        self.lines += out.splitlines()
        return self.process.returncode, err


@contextmanager
def running(how: str, root: Path, *more: object) -> Iterator[Program]:
    """The program, after some lines; killed at the end of the test, also of a failed one."""
    program = Program(how, root, *more)
    try:
        program.read(LINES)
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


def content(root: Path, business: str = "jobs") -> dict[Any, Any]:
    with kvwal.open(root, archive=None) as store:
        return dict(store.map(business))


def check(lines: list[str], found: dict[Any, Any]) -> None:
    """Each key that was said is there, and nothing is there in part."""
    said = {line for line in lines if "-" in line or line.isdigit()}
    assert said
    assert said <= set(found)
    for key in found.keys() - {"interrupting", "0-first"}:
        assert (key.removesuffix("-too") if key.endswith("-too") else f"{key}-too") in found


ENDINGS = {
    "script_end": 0, "script_end_with_daemons": 0, "script_end_before_threads": 0, "exit_in_a_thread": 0, "exit_at_once": 9,
    "exception": 1, "closed_at_exit": 0, "hammered": 0, "loop_ends_first": 0,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.parametrize("archived", [False, True], ids=["alone", "archived"])
def test_an_interpreter_that_ends(tmp_path: Path, how: str, archived: bool) -> None:
    """Whether or not the store was closed: no hang, no crash, no noise, and what was acknowledged is there."""
    program = Program(how, tmp_path / "root", *([tmp_path / "archive"] if archived else []))
    code, noise = program.end()
    if how == "exception":
        assert noise.rstrip().endswith("ZeroDivisionError")
        noise = noise[: noise.index("Traceback")]
    assert not [word for word in NOISE if word in noise], noise
    assert code == ENDINGS[how], noise
    found = content(tmp_path / "root")
    if how == "script_end_before_threads":
        found |= content(tmp_path / "root", "late")
        assert f"late-{WRITES - 1}" in program.lines
    check(program.lines, found)
    assert "never interrupted" not in program.lines
    if how in ("script_end_before_threads", "closed_at_exit", "loop_ends_first"):
        assert program.lines.count("closed") == 1


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGHUP", "SIGQUIT"])
def test_a_signal_without_a_handler(tmp_path: Path, name: str) -> None:
    """It is the end of the process, as by a crash; also for the archiver's process, which gets it too."""
    with running("endless", tmp_path / "root", tmp_path / "archive") as program:
        number = getattr(signal, name)
        os.killpg(program.process.pid, number)
        code, _ = program.end()
        assert code == -number
        check(program.lines, content(tmp_path / "root"))


@pytest.mark.long
def test_ctrl_c_closes_the_store(tmp_path: Path) -> None:
    """`KeyboardInterrupt` in the main thread, out of a put, through the `with` block."""
    with running("endless", tmp_path / "root", tmp_path / "archive") as program:
        os.killpg(program.process.pid, signal.SIGINT)
        code, noise = program.end()
        assert code == -signal.SIGINT
        assert noise.rstrip().splitlines()[-1] == "KeyboardInterrupt"
        assert "Fatal Python" not in noise
        check(program.lines, content(tmp_path / "root"))
        check_archive(program, tmp_path)


def check_archive(program: Program, folder: Path) -> None:
    """The close archived the tail: the archive alone has what was acknowledged."""
    kvwal.restore(folder / "archive", folder / "second")
    check(program.lines, content(folder / "second"))


@pytest.mark.long
def test_sigterm_to_all_processes_closes_the_store_and_archives_the_tail(tmp_path: Path) -> None:
    """As a service manager sends it: to the archiver's process too, whose work the close still needs."""
    with running("served", tmp_path / "root", tmp_path / "archive") as program:
        os.killpg(program.process.pid, signal.SIGTERM)
        code, noise = program.end()
        assert (code, program.lines.count("closed")) == (0, 1), noise  # a thread may say its last write after that
        check(program.lines, content(tmp_path / "root"))
        check_archive(program, tmp_path)


@pytest.mark.long
def test_a_process_that_is_stopped_keeps_its_lock_and_goes_on(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with running("served", root) as program:
        process = program.process
        for _ in range(3):
            os.killpg(process.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            with kvwal.open(root, archive=None) as other, pytest.raises(StoreLocked, match=f"pid {process.pid} "):
                other.map("jobs")
            with kvwal.open(root, archive=None, read_only=True) as reader:
                check(program.lines, dict(reader.map("jobs")))
            os.killpg(process.pid, signal.SIGCONT)
            program.read(len(program.lines) + LINES)
        process.terminate()
        code, noise = program.end()
        assert (code, program.lines.count("closed")) == (0, 1), noise  # a thread may say its last write after that
        check(program.lines, content(root))


def test_ctrl_c_in_an_event_loop_closes_the_store(tmp_path: Path) -> None:
    with running("loop", tmp_path) as program:
        program.process.send_signal(signal.SIGINT)
        code, noise = program.end()
        assert code == -signal.SIGINT
        assert noise.rstrip().splitlines()[-1] == "KeyboardInterrupt"
        assert not [word for word in NOISE if word in noise and word != "Traceback"], noise
        assert "closing" in program.lines
        check([line for line in program.lines if line[0].isdigit()], content(tmp_path))


def test_ctrl_c_ends_a_put_that_waits_for_the_disk(tmp_path: Path) -> None:
    """The put raises; the write goes on, whole, and the store is usable."""
    disk = FakeDisk()
    interrupted = threading.Event()

    def once(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        """Until it is noticed: an interpreter that is just about to wait for a lock does not see a signal before the next."""
        disk.wait_for("held datasync", 1)
        while not interrupted.wait(0.05):
            signal.pthread_kill(main, signal.SIGINT)

    main = threading.main_thread().ident
    assert main is not None
    before = signal.signal(signal.SIGINT, once)
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["before"] = 1
        disk.hold("datasync")
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            jobs.put_many({"a": 1, "b": 1})
        thread.join()
        signal.signal(signal.SIGINT, before)
        assert dict(jobs) == {"before": 1}
        disk.go_on()
        jobs["after"] = 1
        assert dict(jobs) == {"before": 1, "a": 1, "b": 1, "after": 1}
    assert content(tmp_path) == {"before": 1, "a": 1, "b": 1, "after": 1}
