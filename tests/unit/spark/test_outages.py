"""The recorder while its store is away: events wait in the spool, arrive once when the store is back, and are bounded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ClusterUnreachable, ConfigError
from kvwal.spark.recording import delivery, recorder, recording
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import Spool
from tests.support.event_logs import TASKS, counts, job_events
from tests.support.polling import until
from tests.support.recording.driver import HALTED, AwayStore, Driver


@pytest.fixture(autouse=True)
def stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "Driver", Driver)
    monkeypatch.setattr(delivery, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(delivery, "LONGEST_WAIT_SECONDS", 0.02)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path, node="cluster", archive=None) as opened:
        yield opened


def begin(store: AwayStore) -> tuple[JobRecorder, Any]:
    """A recorder that has begun, and the listener of its stand-in for Spark."""
    spark: Any = None
    target: Any = store
    started = JobRecorder(spark, target).start()
    driver: Any = started._driver
    return started, driver.listener


def recorded(store: kvwal.Store, condition: Callable[[Any], bool]) -> Any:
    """Wait for a state of the application's record."""

    def look() -> Any:
        app = store.map("spark").get("app-1/app")
        return app if app is not None and condition(app) else None

    return until(look)


@pytest.mark.parametrize("away_at_start", [True, False])
def test_events_wait_for_the_store_and_arrive_while_the_driver_runs(
    store: kvwal.Store, caplog: pytest.LogCaptureFixture, away_at_start: bool
) -> None:
    cluster = AwayStore(store, away=away_at_start)
    with caplog.at_level(logging.WARNING):
        started, listener = begin(cluster)
        if not away_at_start:
            recorded(store, lambda app: True)
            cluster.away = True
        listener.write(*job_events(0), *job_events(1))
        until(lambda: cluster.tries > 3 or None)
        stats = started.stats()
        assert stats["recording"]
        assert stats["troubles"] > 0
        assert (stats["waiting"], stats["failure"]) == ("no node of the cluster answers.", None)
        assert stats["spool_bytes"] > 0
        cluster.away = False
        recorded(store, lambda app: app["jobs"] == 2)
        until(lambda: started.stats()["waiting"] is None or None)
        listener.write(*job_events(2))
        recorded(store, lambda app: app["jobs"] == 3)
    said = [one.message for one in caplog.records]
    assert len([line for line in said if "waits for its store" in line]) == 1
    assert len([line for line in said if "answers the recorder again" in line]) == 1
    started.close()
    assert started.failure is None
    assert counts(store.map("spark"), "app-1") == ("DETACHED", 3, 3 * TASKS, 3)
    assert not (Path(store.root) / "_spark").exists()


def test_the_rest_of_a_recording_is_not_lost_to_the_next_one_of_the_application(
    store: kvwal.Store, caplog: pytest.LogCaptureFixture
) -> None:
    """Both begin while the store is away, and it comes back for the second one."""
    cluster = AwayStore(store)
    first, listener = begin(cluster)
    listener.write(*job_events(0))
    first.close()
    assert isinstance(first.failure, ClusterUnreachable)
    assert f"`kvwal record {store.root}` reads them" in caplog.text
    second, listener = begin(cluster)
    listener.write(*job_events(1))
    cluster.away = False
    recorded(store, lambda app: app["jobs"] == 2)
    second.close()
    assert counts(store.map("spark"), "app-1") == ("DETACHED", 2, 2 * TASKS, 2)
    assert not (Path(store.root) / "_spark").exists()


def test_a_position_in_another_recording_of_the_application_skips_nothing(store: kvwal.Store) -> None:
    """A driver is killed after the first recording was stored, and before the store took anything of the second one."""
    first, listener = begin(AwayStore(store, away=False))
    listener.write(*job_events(0))
    first.close()
    driver = Driver(None)
    spool = Spool(Path(store.root), store.namespace, store.cluster, "cluster")
    spool.make()
    driver.attach(spool.folder).write(*job_events(1))
    spool.read_rest(store.map("spark"))
    assert counts(store.map("spark"), "app-1") == ("KILLED", 2, 2 * TASKS, 2)


def test_a_full_spool_is_said_and_takes_no_more_events(
    store: kvwal.Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recording, "MOST_SPOOLED", 5_000)
    cluster = AwayStore(store)
    started, listener = begin(cluster)
    until(lambda: cluster.tries or None)
    assert not started.stats()["spool_full"]
    for job in range(5):
        listener.write(*job_events(job))
    until(lambda: started.stats()["spool_full"] or None)
    assert listener.is_halted
    assert "has reached its bound" in caplog.text
    cluster.away = False
    recorded(store, lambda app: app["jobs"] == 5)
    started.close()
    assert store.map("spark")["app-1/app"]["dropped"] == HALTED


def test_a_store_that_fails_for_good_ends_the_recording_and_the_spool_stays_bounded(
    store: kvwal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MOST_SPOOLED", 5_000)
    cluster = AwayStore(store, away=False)

    def refuse(key: str, default: Any = None) -> Any:
        raise ConfigError("the cluster has another namespace.")

    monkeypatch.setattr(cluster, "get", refuse)
    started, listener = begin(cluster)
    until(lambda: started.failure)
    for job in range(5):
        listener.write(*job_events(job))
    until(lambda: started.stats()["spool_full"] or None)
    started.close()
    assert isinstance(started.failure, ConfigError)
    assert listener.log.path.exists()


def test_a_strict_recorder_needs_its_store_at_the_start(store: kvwal.Store) -> None:
    spark: Any = None
    target: Any = AwayStore(store)
    strict = JobRecorder(spark, target, strict=True)
    with pytest.raises(ClusterUnreachable):
        strict.start()
    assert not strict.recording
    with suppress(StopIteration):
        assert not next(Path(store.root).glob("_spark/**/events_*"))
