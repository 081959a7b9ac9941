"""The recorder's thread and its close after an unforeseen error, with a stand-in for Spark's driver."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark.recording import recorder
from kvwal.spark.recording import recording as running
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import LAST_ROLL
from tests.support.polling import until
from tests.support.recording.driver import Driver


@pytest.fixture(autouse=True)
def stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "Driver", Driver)


class Gone(BaseException):
    """As no handler of `Exception` expects it."""


@pytest.mark.parametrize("kind", [ValueError, MemoryError, SystemExit, KeyboardInterrupt, Gone])
def test_what_ends_the_thread_is_the_failure_and_the_spool_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    recording: Any = JobRecorder(None, tmp_path, archive=None)  # type: ignore[arg-type]
    with monkeypatch.context() as broken:

        def advance(self: object) -> int:
            raise kind("unforeseen")

        broken.setattr(running.LogReader, "advance", advance)
        recording.start()
        until(lambda: recording.failure)
        assert isinstance(recording.failure, kind)
        recording.close()
    assert list((tmp_path / "_spark").rglob("events_0_*")), "the events are still there"
    with JobRecorder(None, tmp_path, archive=None):  # type: ignore[arg-type]
        pass  # the next recorder of this node reads them
    assert not (tmp_path / "_spark").exists()


def test_a_full_disk_at_the_end_leaves_the_application_its_own_exception(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread has ended, the lock is let go of, and what happened is logged."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def application() -> None:
        with JobRecorder(None, tmp_path, archive=None):  # type: ignore[arg-type]
            monkeypatch.setattr(running, "add_roll", full)
            raise LookupError("the application's own")

    with pytest.raises(LookupError, match="the application's own"):
        application()
    assert "No space left on device" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "kvwal-recorder"]
    with kvwal.open(tmp_path, node="app-1", archive=None) as store:
        store.map("spark")
    assert (tmp_path / "_spark").exists()


def test_a_store_that_cannot_be_closed_keeps_the_spool(tmp_path: Path) -> None:
    recording: Any = JobRecorder(None, tmp_path, archive=None).start()  # type: ignore[arg-type]
    target = recording._recording._target

    def fail() -> None:
        target.close()
        raise OSError("it could not be closed")

    recording._recording._target = target._replace(close=fail)
    recording.close()
    assert isinstance(recording.failure, OSError)
    assert (tmp_path / "_spark").exists()


def test_a_recorder_without_a_thread_leaves_nothing_behind_and_can_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system has no more threads, as in a container with a limit on them."""
    recording: Any = JobRecorder(None, tmp_path, archive=None)  # type: ignore[arg-type]
    with monkeypatch.context() as crowded:
        start = threading.Thread.start

        def refused(thread: threading.Thread) -> None:
            if thread.name == "kvwal-recorder":
                raise RuntimeError("can't start new thread")
            start(thread)

        crowded.setattr(threading.Thread, "start", refused)
        recording.start()
        assert (recording.recording, str(recording.failure)) == (False, "can't start new thread")
        assert recording._driver.listener.is_halted
    with recording:
        assert (recording.recording, recording.failure) == (True, None)
    assert recording.failure is None
    assert not (tmp_path / "_spark").exists()


def test_a_forked_child_that_ends_in_order_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    recording: Any = JobRecorder(None, tmp_path, archive=None).start()  # type: ignore[arg-type]
    if (child := os.fork()) == 0:
        signal.alarm(60)
        recording.close()  # as its end does
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list((tmp_path / "_spark").rglob("events_0_*"))
    assert not list((tmp_path / "_spark").rglob(f"events_{LAST_ROLL}_*"))
    recording._driver.listener.write({"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"})
    recording.close()
    assert (recording.failure, recording.stats()["events"]) == (None, 4)
