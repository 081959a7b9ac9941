"""deploy/hold.py, as a container runs it: it ends as its program does, and holds one whose configuration is wrong."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.repository.source import ROOT

HOLD = [sys.executable, str(ROOT / "deploy" / "hold.py")]


def held(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HOLD, sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("code", [0, 1, 3, 4, 70])
def test_it_ends_as_its_program_does(code: int) -> None:
    process = held(f"raise SystemExit({code})")
    process.communicate()
    assert process.returncode == code


def test_a_program_that_was_killed_is_an_error() -> None:
    process = held("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate()
    assert process.returncode == 128 + signal.SIGKILL


def test_a_wrong_configuration_is_held_until_the_container_is_stopped() -> None:
    process = held("raise SystemExit(2)")
    assert process.stderr is not None
    assert "not started again" in process.stderr.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 2


def test_a_stop_reaches_the_program_which_ends_in_order() -> None:
    process = held(
        "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(2)); print('here', flush=True); signal.pause()"
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 2, "it was asked to stop, so it is not held"
