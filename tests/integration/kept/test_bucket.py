"""Recorders that keep an event log which Spark wrote to a bucket, with a stand-in for Spark and a real S3 server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvwal.spark.recording import recorder
from tests.support.archive import s3
from tests.support.event_logs import compressed, event_log, write_rolling
from tests.support.recording.driver import LoggingDriver
from tests.support.recording.keeping import kept_lines, run_stand_in

NAME = "app-1/app-1.zstd"


@pytest.mark.parametrize("ends", ["", "recording.close()", "recording.close(); driver.is_stopped = True"])
def test_a_log_in_a_bucket_is_kept_at_the_end_of_python(ends: str, tmp_path: Path) -> None:
    """By then Python's own pool of threads, with which a request begins, takes no call."""
    server = s3.server()
    bucket = s3.bucket(server)
    log = compressed(event_log("app-1", 30), "zstd")
    s3.filesystem(server).pipe_file(f"{bucket}/logs/app-1.zstd", log)
    place = f"{bucket}/logs/app-1.zstd".replace("s3://", "s3a://")
    said = run_stand_in(ends, tmp_path / "root", tmp_path / "logs", "owned", place, **server.environment())
    assert f"The event log {place} is kept as {NAME}." in said
    assert kept_lines(tmp_path / "root") == {NAME: event_log("app-1", 30)}


def test_a_log_that_a_bucket_does_not_have_is_told(tmp_path: Path) -> None:
    server = s3.server()
    place = f"{s3.bucket(server)}/logs/app-1"
    said = run_stand_in("", tmp_path / "root", tmp_path / "logs", "owned", place, **server.environment())
    assert f"The event log {place} is not kept: it was deleted before it could be kept." in said


def test_a_rolling_log_in_a_bucket_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = LoggingDriver(tmp_path / "logs")
    monkeypatch.setattr(recorder, "Driver", lambda spark: driver)
    server = s3.server()
    bucket = s3.bucket(server)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    rolls = [event_log("app-1", 2, ended=False), event_log("app-1", 2, first=2)]
    rolled = write_rolling(tmp_path, "app-1", rolls, in_progress=False)
    for path in rolled.iterdir():
        s3.filesystem(server).pipe_file(f"{bucket}/logs/{rolled.name}/{path.name}", path.read_bytes())
    monkeypatch.setattr(driver, "event_log", lambda: f"{bucket}/logs/{rolled.name}")
    spark: Any = None
    recording = recorder.JobRecorder(spark, tmp_path / "root", keep_logs=True, strict=True, archive=None).start()
    driver.stop()
    recording.close()
    assert kept_lines(tmp_path / "root") == {NAME: b"".join(rolls)}
