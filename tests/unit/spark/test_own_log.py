"""Keeping of Spark's own event log by a recorder: when it is kept, where, and what keeps it from being kept."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError, StorageFull, StoreLocked
from kvwal.spark.eventlog.lines import CHUNK
from kvwal.spark.kept.contents import KEPT_LOGS
from kvwal.spark.recording import own_log, recorder
from kvwal.spark.recording.nodes import SHARED
from tests.support.cli import kvwal as command
from tests.support.event_logs import compressed, counts, event_log, write_rolling
from tests.support.polling import until
from tests.support.recording.driver import JOBS, LoggingDriver
from tests.support.recording.keeping import decompressed, kept_lines, run_stand_in

NAME = "app-1/app-1.zstd"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoggingDriver:
    return stand_in(monkeypatch, LoggingDriver(tmp_path / "logs"))


def stand_in(monkeypatch: pytest.MonkeyPatch, driver: LoggingDriver) -> LoggingDriver:
    monkeypatch.setattr(recorder, "Driver", lambda spark: driver)
    return driver


def begun(store: Any, **options: Any) -> recorder.JobRecorder:
    spark: Any = None
    return recorder.JobRecorder(spark, store, strict=True, keep_logs=True, **options).start()


def nodes(root: Path, business: str) -> list[str]:
    folder = root / "default" / "local" / business
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_close_keeps_the_log_of_a_spark_that_has_stopped_in_the_shared_node(
    driver: LoggingDriver, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    recording = begun(root, archive=None)
    driver.stop()
    assert recording.stats()["kept_log"] is None
    recording.close()
    told = recording.stats()
    assert (told["kept_log"], told["not_kept"], told["failure"]) == (NAME, None, None)
    assert kept_lines(root) == {NAME: driver.path.read_bytes()}
    assert (nodes(root, "spark"), nodes(root, KEPT_LOGS)) == (["app-1"], [SHARED])
    assert command("record", root).code == 0, "the node of the application can be merged"
    assert nodes(root, "spark") == [SHARED]
    assert kept_lines(root) == {NAME: driver.path.read_bytes()}


def test_a_log_of_one_node_goes_where_a_command_puts_it(driver: LoggingDriver, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        store.map("jobs")["a"] = 1
    recording = begun(root, archive=None)
    driver.stop()
    recording.close()
    assert nodes(root, KEPT_LOGS) == ["local"]
    with kvwal.open(root, archive=None) as store:
        first = store.content(KEPT_LOGS).stat(NAME)
    assert command("record", root, driver.path, "--keep-logs", "--archive", "none").code == 0
    with kvwal.open(root, archive=None) as store:
        assert store.content(KEPT_LOGS).stat(NAME) == first, "the command found it kept"


def test_a_spark_that_goes_on_has_its_log_kept_when_it_stops(driver: LoggingDriver, tmp_path: Path) -> None:
    recording = begun(tmp_path / "root", archive=None)
    recording.close()
    assert kept_lines(tmp_path / "root") == {}
    driver.stop()
    assert until(lambda: recording.stats()["kept_log"]) == NAME
    assert kept_lines(tmp_path / "root") == {NAME: driver.path.read_bytes()}


def test_an_application_that_is_recorded_again_has_its_log_kept_once(driver: LoggingDriver, tmp_path: Path) -> None:
    root = tmp_path / "root"
    recording = begun(root, archive=None)
    recording.close()
    recording.start()
    assert not [thread for thread in threading.enumerate() if thread.name == "kvwal-recorder-log"]
    driver.stop()
    assert kept_lines(root) == {}
    recording.close()
    with kvwal.open(root, node=SHARED, archive=None) as store:
        assert len(store.content(KEPT_LOGS).history(NAME)) == 1


def test_an_open_store_has_the_log_itself(driver: LoggingDriver, tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", node="mine", archive=None) as store:
        recording = begun(store)
        driver.stop()
        recording.close()
        assert decompressed(store.content(KEPT_LOGS).get(NAME)) == driver.path.read_bytes()


@pytest.mark.parametrize("archive", [None, "bucket"])
def test_a_store_that_was_closed_before_spark_stopped_is_opened_again(
    driver: LoggingDriver, tmp_path: Path, archive: str | None
) -> None:
    root, bucket = tmp_path / "root", tmp_path / archive if archive else None
    with kvwal.open(root, node="mine", archive=bucket, settings=kvwal.Settings(segment_bytes=1 << 20)) as store:
        recording = begun(store)
        recording.close()
    driver.stop()
    assert until(lambda: recording.stats()["kept_log"]) == NAME
    assert kept_lines(root) == {NAME: driver.path.read_bytes()}
    assert (nodes(root, KEPT_LOGS), (root / "_archive").exists()) == (["mine"], False)
    if bucket is not None:
        assert list(bucket.rglob("*.parquet")), "what was closed in order is archived"


def test_the_command_that_keeps_a_log_later_can_be_typed(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where folders have spaces in their names."""
    monkeypatch.setattr(own_log, "LOCK_SECONDS", 0.1)
    root = tmp_path / "my data"
    recording = begun(root, archive=None)
    driver.stop()
    with holding_the_node(root):
        recording.close()
    (said,) = [record.getMessage() for record in caplog.records if "keeps it, as long as" in record.getMessage()]
    words = shlex.split(said.split("`")[1])
    assert words == ["kvwal", "record", str(root), str(driver.path), "--keep-logs"]
    assert command(*words[1:]).code == 0
    assert kept_lines(root) == {NAME: driver.path.read_bytes()}


def test_the_log_of_a_lost_spark_is_kept_as_far_as_it_is_written(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_log, "FINISH_SECONDS", 0.0)
    recording = begun(tmp_path / "root", archive=None)
    driver.is_stopped = True
    recording.close()
    assert kept_lines(tmp_path / "root") == {f"{NAME}.inprogress": event_log("app-1", JOBS, ended=False)}
    assert recording.stats()["kept_log"] == f"{NAME}.inprogress"


@contextmanager
def holding_the_node(root: Path) -> Iterator[None]:
    with kvwal.open(root, node=SHARED, archive=None) as store:
        store.content(KEPT_LOGS)
        yield


def test_a_lock_that_is_not_free_in_time_is_told_and_a_command_keeps_the_log_later(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own_log, "LOCK_SECONDS", 0.0)
    root = tmp_path / "root"
    recording = begun(root, archive=None)
    driver.stop()
    with holding_the_node(root):
        recording.close()
    told = recording.stats()
    assert (told["kept_log"], told["failure"], recording.failure) == (None, None, None)
    assert f"{KEPT_LOGS}/{SHARED}: the log is held by pid {os.getpid()}" in told["not_kept"]
    assert not (root / "_spark").exists(), "the recording itself ended in order"
    (said,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert f"`kvwal record {root} {driver.path} --keep-logs` keeps it" in said
    assert command("record", root, driver.path, "--keep-logs", "--archive", "none").code == 0
    assert kept_lines(root) == {NAME: driver.path.read_bytes()}
    with kvwal.open(root, read_only=True) as store:
        assert counts(store.map("spark"), "app-1")[1] == JOBS


def test_a_lock_that_another_driver_has_is_waited_for(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, refused = tmp_path / "root", threading.Event()
    keep = own_log._keep_in

    def noted(*arguments: Any) -> Any:
        try:
            return keep(*arguments)
        except StoreLocked:
            refused.set()
            raise

    monkeypatch.setattr(own_log, "_keep_in", noted)
    recording = begun(root, archive=None)
    driver.stop()
    with holding_the_node(root):
        closing = threading.Thread(target=recording.close)
        closing.start()
        refused.wait()
    closing.join()
    assert (recording.stats()["kept_log"], kept_lines(root)) == (NAME, {NAME: driver.path.read_bytes()})


def test_a_disk_without_room_is_told(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise StorageFull("the disk is full.", hint="Make room.")

    monkeypatch.setattr(own_log, "keep_log", full)
    recording = begun(tmp_path / "root", archive=None)
    driver.stop()
    recording.close()
    assert recording.failure is None
    assert recording.stats()["not_kept"] == "the disk is full. Make room."
    assert "is not kept: the disk is full. Make room." in caplog.text


def test_a_log_that_was_deleted_is_told(driver: LoggingDriver, tmp_path: Path) -> None:
    recording = begun(tmp_path / "root", archive=None)
    driver.stop()
    driver.path.unlink()
    recording.close()
    assert recording.stats()["not_kept"] == "it was deleted before it could be kept."
    assert kept_lines(tmp_path / "root") == {}


def test_a_log_without_a_roll_is_not_kept_and_a_damaged_one_in_part(
    driver: LoggingDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recording = begun(tmp_path / "root", archive=None)
    driver.stop()
    whole = compressed(event_log("app-1", 2_000), "zstd", block_bytes=1_000)
    assert len(whole) > 2 * CHUNK
    driver.path.write_bytes(whole[:CHUNK] + bytes(50) + whole[CHUNK:])
    recording.close()
    assert recording.stats()["kept_log"] == NAME
    assert "what follows the damage" in recording.stats()["not_kept"]
    assert "is kept in part: what follows the damage" in caplog.text
    rolls = [event_log("app-1", 1)] * 3
    rolled = write_rolling(tmp_path / "logs", "app-1", rolls, in_progress=False)
    (rolled / "events_2_app-1").unlink()
    driver.path = rolled
    again = begun(tmp_path / "root", archive=None)
    again.close()
    assert (again.stats()["kept_log"], again.stats()["not_kept"]) == (
        None, "it is not kept, because its roll 2 is missing.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("place", "codec", "sentence"),
    [
        (None, None, r"writes no event log.*spark\.eventLog\.enabled"),
        ("file:/logs/app-1.lzf", "lzf", r"lzf, which kvwal cannot read.*zstd"),
        ("hdfs://host:9000/logs/app-1", None, r"no filesystem for hdfs://.*s3a://"),
        ("viewfs://host/logs/app-1", None, r"no filesystem for viewfs://.*s3a://"),
    ],
)
def test_a_log_that_cannot_be_kept_is_refused_at_once(
    driver: LoggingDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str | None, codec: str, sentence: str
) -> None:
    monkeypatch.setattr(driver, "event_log", lambda: place)
    monkeypatch.setattr(driver, "codec", codec)
    with pytest.raises(ConfigError, match=sentence):
        begun(tmp_path / "root")
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ("", 0),
        ("recording.close()", 0),
        ("raise ValueError('wrong')", 1),
        # A forked child that ends in order leaves the log to its parent.
        ("import os; os.fork() or sys.exit()", 0),
        ("import os; recording.close(); os.fork() or sys.exit()", 0),
    ],
)
def test_the_end_of_python_stops_spark_and_keeps_the_log(ends: str, code: int, tmp_path: Path) -> None:
    said = run_stand_in(ends, tmp_path / "root", tmp_path / "logs", "owned", code=code)
    assert said.count(f"is kept as {NAME}.") == 1
    assert kept_lines(tmp_path / "root") == {NAME: event_log("app-1", JOBS)}


def test_a_spark_that_goes_on_without_this_python_is_not_stopped(tmp_path: Path) -> None:
    run_stand_in("", tmp_path / "root", tmp_path / "logs", "shared")
    assert kept_lines(tmp_path / "root") == {f"{NAME}.inprogress": event_log("app-1", JOBS, ended=False)}
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["app-1.inprogress"]
