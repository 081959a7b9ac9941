"""Forked archivers are processes of their own, in the folder of the program whose store has them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvwal.archiver.remote import start_child
from kvwal.ports.processes import Child, NotStarted


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Child:
    monkeypatch.chdir(tmp_path)
    return start_child()


def process_of(child: Any) -> psutil.Process:
    return psutil.Process(child._process.pid)


def test_it_is_a_process_of_its_own_that_ends_with_its_input(child: Child, tmp_path: Path) -> None:
    with pytest.raises(EOFError, match="ended with code 1"):
        child.ask(b"no job")
    child.close()
    other = start_child()
    other._await_ready()
    process = process_of(other)
    assert process.pid != os.getpid()
    assert process.cwd() == str(tmp_path)
    other.close()
    assert not process.is_running()


def test_a_killed_one_is_told_with_its_signal(child: Child) -> None:
    process_of(child).send_signal(signal.SIGSTOP)
    child.kill()
    with pytest.raises((EOFError, NotStarted), match=f"ended with code -{signal.SIGKILL:d}"):
        child.ask(b"no job")
    child.close()
