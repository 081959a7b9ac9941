"""deploy/hold.py and deploy/ready.py, as a container runs them.

The first ends as its program does, and holds one whose configuration is wrong. The second waits for a program that starts, and
not for one that is held.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.repository.source import ROOT
from tests.support.ports import free_port

HOLD = [sys.executable, str(ROOT / "deploy" / "hold.py")]
READY = [sys.executable, str(ROOT / "deploy" / "ready.py")]


def held(script: str, scratch: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*HOLD, sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | ({} if scratch is None else {"TMPDIR": str(scratch)}),
    )  # fmt: skip


def check(scratch: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*READY, *arguments], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(scratch)}
    )


@contextmanager
def answering(port: int, code: int) -> Iterator[None]:
    """Something at this port that answers each question with a code."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", port), Answer)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


@pytest.mark.parametrize("code", [0, 1, 3, 4, 70])
def test_it_ends_as_its_program_does(code: int) -> None:
    process = held(f"raise SystemExit({code})")
    process.communicate()
    assert process.returncode == code


def test_a_program_that_was_killed_is_an_error() -> None:
    process = held("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    process.communicate()
    assert process.returncode == 128 + signal.SIGKILL


def test_a_wrong_configuration_is_held_until_the_container_is_stopped(tmp_path: Path) -> None:
    process = held("raise SystemExit(2)", tmp_path)
    assert process.stderr is not None
    line = json.loads(process.stderr.readline())
    assert "not started again" in line["event"]
    assert process.poll() is None
    checked = check(tmp_path, "--within", "3600", f"http://127.0.0.1:{free_port()}/readyz")
    assert "not started again" in checked.communicate()[0], "the check does not wait for a program that is held"
    assert checked.returncode == 1
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


def test_the_check_waits_for_a_service_that_starts_and_not_for_one_that_was_ready(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/readyz"
    waiting = check(tmp_path, "--within", "3600", url)
    with answering(port, 200):
        waiting.communicate()
    assert waiting.returncode == 0
    with answering(port, 503):
        later = check(tmp_path, "--within", "3600", url)
        later.communicate()
    assert later.returncode == 1


def test_the_time_that_a_check_waits_counts_from_the_first_check(tmp_path: Path) -> None:
    """Else a service that never is ready would be unhealthy after as many such times as the engine repeats the check."""
    url = f"http://127.0.0.1:{free_port()}/readyz"
    first = check(tmp_path, "--within", "0.1", url)
    first.communicate()
    (began,) = tmp_path.iterdir()
    os.utime(began, (0, 0))
    second = check(tmp_path, "--within", "3600", url)
    second.communicate()
    assert (first.returncode, second.returncode) == (1, 1)
