"""The ending of a recorded application: what a block or a program that ends in some way is recorded as."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kvwal.spark import queries
from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.projection.projection import Projection
from kvwal.spark.recording.endings import DETACHED, Ending

PROGRAM = """
import atexit, sys
from kvwal.spark.recording.endings import EXIT_WATCH
EXIT_WATCH.begin()
EXIT_WATCH.begin()
atexit.register(lambda: print(EXIT_WATCH.ending()[:2], type(EXIT_WATCH.ending().error).__name__))
{}
"""


@pytest.mark.parametrize(
    ("ends", "ending"),
    [
        ("", "('SUCCEEDED', 0) NoneType"),
        ("sys.exit()", "('SUCCEEDED', 0) NoneType"),
        ("sys.exit(3)", "('FAILED', 3) NoneType"),
        ("from sys import exit\nexit(True)", "('FAILED', 1) NoneType"),
        ("sys.exit('no input')", "('FAILED', 1) NoneType"),
        ("1 / 0", "('FAILED', 1) ZeroDivisionError"),
        ("raise SystemExit(3)", "('DETACHED', None) NoneType"),
        ("raise KeyboardInterrupt", "('KILLED', 130) NoneType"),
        ("def main():\n    sys.exit(3)\nmain()", "('FAILED', 3) NoneType"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    1 / 0", "('FAILED', 1) ZeroDivisionError"),
        ("try:\n    sys.exit(3)\nfinally:\n    print(end='')", "('FAILED', 3) NoneType"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    pass", "('SUCCEEDED', 0) NoneType"),
        (
            "def main():\n    try:\n        sys.exit(3)\n    except SystemExit: pass\nmain()",
            "('SUCCEEDED', 0) NoneType",
        ),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    sys.exit(4)", "('FAILED', 4) NoneType"),
        ("def main():\n    try:\n        sys.exit(3)\n    finally: print(end='')\nmain()", "('FAILED', 3) NoneType"),
        ("try:\n    sys.exit(3)\nexcept SystemExit:\n    raise", "('FAILED', 3) NoneType"),
        ("try:\n    sys.exit(3)\nexcept SystemExit as why:\n    raise", "('FAILED', 3) NoneType"),
        ("try:\n    sys.exit(0)\nexcept SystemExit:\n    pass\nraise SystemExit(5)", "('DETACHED', None) NoneType"),
        ("try:\n    sys.exit(0)\nexcept SystemExit:\n    raise SystemExit(5)", "('DETACHED', None) NoneType"),
        (
            "def main():\n    try:\n        sys.exit(0)\n    except SystemExit: pass\nmain()\nraise SystemExit(5)",
            "('DETACHED', None) NoneType",
        ),
        (
            "from contextlib import suppress\nwith suppress(SystemExit):\n    sys.exit(0)\nraise SystemExit(5)",
            "('DETACHED', None) NoneType",
        ),
        (
            "from contextlib import nullcontext\nwith nullcontext():\n    sys.exit(3)",
            "('FAILED', 3) NoneType",
        ),
        (
            "from threading import Thread\nthread = Thread(target=sys.exit, args=(3,))\nthread.start()\nthread.join()",
            "('SUCCEEDED', 0) NoneType",
        ),
    ],
)
def test_how_a_program_ends_is_noted(ends: str, ending: str) -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(ends)], capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == ending, ran.stderr


GARBAGE = """
import gc, sys, threading
from kvwal.spark.recording.endings import EXIT_WATCH

class Garbage(threading.local):
    def __init__(self):
        self.itself = self
    def __del__(self):
        Garbage()

def begin():
    Garbage()
    gc.set_threshold(1, 1, 1)
    EXIT_WATCH.begin()
    gc.set_threshold(700, 10, 10)
    print(gc.isenabled())

if sys.argv[1] == "main":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    begin()
else:
    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
"""


@pytest.mark.parametrize("thread", ["main", "another"])
def test_a_garbage_collection_does_not_hang_the_program_that_is_to_be_recorded(thread: str) -> None:
    """CPython 3.11 waits for its own lock if it collects a `threading.local` while it lists the frames of all threads."""
    ran = subprocess.run([sys.executable, "-c", GARBAGE, thread], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "True"), ran.stderr


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (None, "SUCCEEDED", 0),
        (SystemExit(0), "SUCCEEDED", 0),
        (SystemExit(), "SUCCEEDED", 0),
        (SystemExit(3), "FAILED", 3),
        (SystemExit(256 + 3), "FAILED", 3),
        (SystemExit("why"), "FAILED", 1),
        (KeyboardInterrupt(), "KILLED", 130),
        (ValueError("wrong"), "FAILED", 1),
    ],
)
def test_what_leaves_a_block_says_how_it_ends(error: BaseException | None, status: str, code: int) -> None:
    assert Ending.of(error)[:2] == (status, code)


def test_ctrl_c_in_a_shell_ends_the_recording_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert Ending.of(KeyboardInterrupt()) == DETACHED
    assert Ending.of(ValueError("wrong")).status == "FAILED"


START = events.ApplicationStart("a test", 1, app_id="app")
LEFT = events.Detached(9, status="DETACHED")
SUCCEEDED = events.Detached(9, status="SUCCEEDED", exit_code=0)
FAILED = events.Detached(9, status="FAILED", exit_code=1, error="ValueError: wrong")
GONE = events.Detached(killed=True)
SPARK_STOPPED = events.ApplicationEnd(7)
SPARK_ENDED_WITH_0 = events.ApplicationEnd(7, exit_code=0)
SPARK_FAILED = events.ApplicationEnd(7, exit_code=3)


@pytest.mark.parametrize(
    ("told", "status", "status_from", "code"),
    [
        ([], "RUNNING", "", None),
        ([SPARK_STOPPED], "SUCCEEDED", "spark", None),
        ([SPARK_FAILED], "FAILED", "spark", 3),
        ([LEFT], "DETACHED", "", None),
        ([LEFT, SPARK_STOPPED], "SUCCEEDED", "spark", None),
        ([SPARK_STOPPED, LEFT], "SUCCEEDED", "spark", None),
        ([SUCCEEDED], "SUCCEEDED", "python", 0),
        ([SPARK_STOPPED, SUCCEEDED], "SUCCEEDED", "python", 0),
        ([SPARK_FAILED, SUCCEEDED], "FAILED", "spark", 3),
        ([SUCCEEDED, SPARK_FAILED], "FAILED", "python", 3),
        ([SPARK_STOPPED, FAILED], "FAILED", "python", 1),
        ([FAILED, SPARK_STOPPED], "FAILED", "python", 1),
        ([GONE], "KILLED", "python", None),
        # The JVM of a Python that was killed stops Spark in order, and knows of no failure.
        ([SPARK_STOPPED, GONE], "KILLED", "python", None),
        ([SPARK_ENDED_WITH_0, GONE], "KILLED", "python", None),
        ([GONE, START, SPARK_STOPPED], "KILLED", "python", None),
        # A second recorder of an application that goes on.
        ([SUCCEEDED, START, events.Attached()], "RUNNING", "", None),
        ([LEFT, START, events.Attached(), FAILED], "FAILED", "python", 1),
        # As earlier recorders wrote it.
        ([events.Detached(9, error="ValueError: wrong")], "FAILED", "python", None),
        ([events.Detached(9)], "DETACHED", "", None),
    ],
)
def test_python_says_how_the_application_ended_and_spark_only_that_it_stopped(
    told: list[Any], status: str, status_from: str, code: int | None
) -> None:
    projection = Projection("app", lambda key: None)
    for event in [START, *told]:
        projection.apply(event, 1)
    app = rec.from_value(projection.take()["app/app"])
    assert isinstance(app, rec.Application)
    assert (app.status, app.status_from, app.exit_code) == (status, status_from, code)
    assert bool(app.ended) is (status != "RUNNING")
    assert (app.error is not None) is (status == "FAILED" and status_from == "python" and code != 3)


INTERRUPTED = events.Detached(9, status="KILLED", exit_code=130)
EXIT_3 = events.Detached(9, status="FAILED", exit_code=3)


@pytest.mark.parametrize(
    ("ending", "messages"),
    [
        (SUCCEEDED, []),
        (LEFT, []),
        (SPARK_STOPPED, []),
        (FAILED, ["ValueError: wrong"]),
        (EXIT_3, ["It ended with exit code 3."]),
        (SPARK_FAILED, ["It ended with exit code 3."]),
        (INTERRUPTED, ["It was interrupted."]),
        (GONE, ["Its driver was killed."]),
    ],
)
def test_an_application_that_failed_is_among_the_failures(ending: Any, messages: list[str]) -> None:
    projection = Projection("app", lambda key: None)
    projection.apply(START, 1)
    projection.apply(ending, 1)
    assert [failure.error.message for failure in queries.failures(projection.take())] == messages
