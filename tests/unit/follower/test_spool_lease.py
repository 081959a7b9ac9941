"""One application with a recorder in its driver and a follower of its event log: one reads at a time, each event counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import kvwal
from kvwal.errors import ClusterUnreachable
from kvwal.ports.clock import SystemClock
from kvwal.spark import leases
from kvwal.spark.eventlog.folders import LocalFolder
from kvwal.spark.eventlog.log_reader import LogReader
from kvwal.spark.follower.follower import Follower
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.leases import Leases
from kvwal.spark.recording import delivery, recorder
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import POSITION, Spool
from kvwal.spark.state import LeaseHeld
from kvwal.spark.state.lease import LEASE_SECONDS
from tests.support.event_logs import TASKS, counts, event_log, job_events, lines
from tests.support.polling import until
from tests.support.recording.driver import AwayStore, Driver, Listener

APP = "app-1"


def now(seconds: float) -> bool:
    """The pause of a reader that gives up."""
    return True


class LaterClock(SystemClock):
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.later = 0.0

    def elapsed(self) -> float:
        return super().elapsed() + self.later


class Setting:
    """A store that stands for a cluster, the spool of an application, and the folder of its event log."""

    def __init__(self, folder: Path, store: kvwal.Store) -> None:
        self.store = store
        self.records = store.map("spark")
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.clock = LaterClock()
        self.status = FollowerStatus(self.clock)
        self.spool = Spool(Path(store.root), store.namespace, store.cluster, "cluster")
        self.spool.make()
        self.spool.name_addresses(["node-1:5701"])
        self.follower = self.new_follower()

    def new_follower(self) -> Follower:
        return Follower(self.records, [LocalFolder(self.logs)], self.status, self.clock, lambda: False)

    def log(self, jobs: int, *, ended: bool = False) -> None:
        """Write Spark's own event log."""
        (self.logs / APP).unlink(missing_ok=True)
        (self.logs / f"{APP}.inprogress").unlink(missing_ok=True)
        name = APP if ended else f"{APP}.inprogress"
        (self.logs / name).write_bytes(event_log(APP, jobs, ended=ended))

    def begin(self, store: Any = None) -> tuple[JobRecorder, Listener]:
        """A recorder that has begun, and the listener of its stand-in for Spark."""
        spark: Any = None
        started = JobRecorder(spark, self.store if store is None else store).start()
        driver: Any = started._driver
        return started, driver.listener

    def elsewhere(self) -> int:
        """Logs that the last round of a follower left alone."""
        assert self.status.last is not None
        return self.status.last.elsewhere

    def wait(self, jobs: int) -> None:
        until(lambda: (self.records.get(f"{APP}/app") or {"jobs": 0})["jobs"] == jobs or None)

    def leases(self) -> list[str]:
        return [key for key in self.records if key.startswith(("!lease/", "!follower/"))]


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    monkeypatch.setattr(recorder, "Driver", Driver)
    monkeypatch.setattr(delivery, "FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(delivery, "LONGEST_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(leases, "ASK_SECONDS", 0.01)
    with kvwal.open(tmp_path / "store", node="cluster", archive=None, flush="os") as store:
        yield Setting(tmp_path, store)


def test_a_follower_leaves_an_application_that_a_recorder_reads_and_finishes_it_afterwards(setting: Setting) -> None:
    recording, listener = setting.begin()
    listener.write(*chain(job_events(0), job_events(1)))
    setting.wait(2)
    setting.log(3)
    setting.follower.round()
    assert setting.elsewhere() == 1
    assert setting.status.ready()[1]["elsewhere"] == 1
    assert f"{APP}/log" not in setting.records
    recording.close()
    assert recording.failure is None
    setting.follower.round()
    assert setting.elsewhere() == 0
    setting.log(4, ended=True)
    setting.follower.round()
    setting.follower.close()
    assert counts(setting.records, APP) == ("SUCCEEDED", 4, 4 * TASKS, 4)
    assert setting.leases() == []


def test_a_follower_hands_an_application_over_to_its_recorder(setting: Setting) -> None:
    """It has read the beginning of a job whose rest the recorder hears. The recorder waits until it has handed over."""
    setting.log(2)
    half = list(job_events(2))
    with (setting.logs / f"{APP}.inprogress").open("ab") as log:
        log.write(lines(*half[:2]))
    setting.follower.round()
    assert counts(setting.records, APP) == ("RUNNING", 3, 2 * TASKS, 3)
    recording, listener = setting.begin()
    listener.write(*half[2:], *job_events(3))
    until(lambda: setting.records[f"!lease/{APP}"].get("wanted"))
    assert f"{APP}/recorder" not in setting.records
    setting.log(4)
    setting.follower.round()
    assert setting.elsewhere() == 1
    setting.wait(4)
    recording.close()
    assert recording.failure is None
    setting.log(5, ended=True)
    setting.follower.round()
    setting.follower.close()
    assert counts(setting.records, APP) == ("SUCCEEDED", 5, 5 * TASKS, 5)
    assert setting.records[f"{APP}/job/0000000002"]["tasks"] == TASKS
    assert setting.leases() == []


def kill_recorder(setting: Setting, *jobs: int) -> None:
    """Leave what a recorder leaves that was killed: a lease, the records of a part of its spool, and the spool."""
    spark: Any = None
    driver = Driver(spark)
    listener = driver.attach(setting.spool.folder)
    killed = Leases(setting.records, setting.clock)
    setting.spool.name_holder(killed.holder)
    assert killed.take(APP)
    setting.spool.begin(setting.records, listener.log, driver.identity)
    reader = LogReader(setting.records, listener.log, driver.identity, position=POSITION)
    *stored, last = jobs
    begins, *rest = job_events(last)
    listener.write(*chain.from_iterable(map(job_events, stored)), begins)
    reader.advance()
    reader.close()
    listener.write(*rest)


def finish_spool(setting: Setting) -> None:
    """Read the spool that was left, as the next recorder on the machine does."""
    with setting.spool.locked(), setting.spool.leased(setting.records, now) as reader:
        setting.spool.read_rest(reader.records)


def finish_log(setting: Setting) -> None:
    """Let a follower read the event log, once the lease of the recorder has run out."""
    setting.follower.round()
    if setting.elsewhere():
        for _ in range(7):  # it keeps its own beat meanwhile
            setting.clock.later += 10
            setting.follower.round()
    assert setting.elsewhere() == 0
    setting.follower.close()


@pytest.mark.parametrize("first", [finish_spool, finish_log])
def test_a_recorder_that_was_killed_is_finished_by_who_comes_first(
    setting: Setting, tmp_path: Path, first: Callable[[Setting], None]
) -> None:
    """From its spool, or from the event log; the other one comes later, and counts nothing again."""
    kill_recorder(setting, 0, 1, 2)
    setting.log(3)
    first(setting)
    status, *numbers = counts(setting.records, APP)
    assert numbers == [3, 3 * TASKS, 3]
    assert status == {finish_spool: "KILLED", finish_log: "RUNNING"}[first]
    {finish_spool: finish_log, finish_log: finish_spool}[first](setting)
    assert counts(setting.records, APP) == ("KILLED", 3, 3 * TASKS, 3)
    assert {value["status"] for key, value in setting.records.items() if "/job/" in key} == {"SUCCEEDED"}
    assert setting.leases() == []
    assert not (Path(setting.store.root) / "_spark").exists()


def test_a_spool_whose_lease_another_reader_keeps_stays(setting: Setting) -> None:
    kill_recorder(setting, 0)
    setting.records.delete(f"!lease/{APP}")
    setting.log(1)
    setting.follower.round()
    with (
        pytest.raises(LeaseHeld, match="does not hand it over"),
        setting.spool.locked(),
        setting.spool.leased(setting.records, now),
    ):
        raise AssertionError
    assert setting.spool.logs()
    setting.follower.round()
    finish_spool(setting)
    assert counts(setting.records, APP) == ("KILLED", 1, TASKS, 1)


@pytest.mark.parametrize("hands_over", [False, True], ids=["the follower keeps it", "the follower hands it over"])
def test_a_recording_that_ends_waits_some_time_for_a_follower(
    setting: Setting, monkeypatch: pytest.MonkeyPatch, hands_over: bool
) -> None:
    """The events that it could not deliver wait in the spool for the next reader."""
    monkeypatch.setattr("kvwal.spark.recording.recording.HAND_OVER_SECONDS", 15.0 if hands_over else 0.1)
    setting.log(1)
    setting.follower.round()
    recording, listener = setting.begin()
    listener.write(*chain(job_events(0), job_events(1)))
    until(lambda: setting.records[f"!lease/{APP}"].get("wanted"))
    ending = Thread(target=recording.close)
    ending.start()
    if hands_over:
        setting.follower.round()
    ending.join()
    assert isinstance(recording.failure, type(None) if hands_over else LeaseHeld)
    assert counts(setting.records, APP)[1] == (2 if hands_over else 1)
    assert bool(setting.spool.logs()) is not hands_over


def test_an_outage_that_outlasts_the_lease_costs_no_event(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other reader has taken the lease, so the recorder goes on under it."""
    monkeypatch.setattr(leases, "BEAT_SECONDS", 0.0)
    cluster = AwayStore(setting.store, away=False)
    recording, listener = setting.begin(cluster)
    listener.write(*job_events(0))
    setting.wait(1)
    cluster.away = True
    listener.write(*job_events(1))
    until(lambda: cluster.tries > 3 or None)
    cluster.away = False
    setting.wait(2)
    listener.write(*job_events(2))
    recording.close()
    assert recording.failure is None
    assert counts(setting.records, APP) == ("DETACHED", 3, 3 * TASKS, 3)
    assert not (Path(setting.store.root) / "_spark").exists()


def test_a_recorder_whose_application_another_one_took_over_counts_nothing_twice(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """It stood still for so long that a follower read on. Then it asks for the lease, and reads what the store says."""
    cluster = AwayStore(setting.store, away=False)
    recording, listener = setting.begin(cluster)
    listener.write(*job_events(0))
    setting.wait(1)
    cluster.away = True
    listener.write(*job_events(1))
    setting.log(2)
    setting.follower.round()
    setting.clock.later += LEASE_SECONDS + 1
    setting.follower.round()
    assert setting.elsewhere() == 0
    assert counts(setting.records, APP) == ("RUNNING", 2, 2 * TASKS, 2)
    cluster.away = False
    until(lambda: setting.records[f"!lease/{APP}"].get("wanted"))
    assert "takes the lease of the application again" in caplog.text
    setting.follower.close()
    listener.write(*job_events(2))
    setting.wait(3)
    recording.close()
    assert recording.failure is None
    assert counts(setting.records, APP) == ("DETACHED", 3, 3 * TASKS, 3)


@pytest.mark.parametrize(
    "goes_away", [False, True], ids=["the recorder goes on", "the next reader of the spool goes on"]
)
def test_a_transaction_of_unknown_outcome_that_arrives_late_changes_nothing(setting: Setting, goes_away: bool) -> None:
    """The reader that goes on waits for nothing. The first try arrives when it has written."""
    cluster = AwayStore(setting.store, away=False)
    recording, listener = setting.begin(cluster)
    setting.wait(0)
    begins, *rest = job_events(0)
    cluster.loses_answer, cluster.goes_away = True, goes_away
    listener.write(begins)
    until(lambda: cluster.late or None)
    listener.write(*rest)
    if goes_away:
        recording.close()
        assert isinstance(recording.failure, ClusterUnreachable)
        finish_spool(setting)
    else:
        setting.wait(1)
        recording.close()
        assert recording.failure is None
    before = dict(setting.records)
    assert [send() for send in cluster.late] == [False]
    assert dict(setting.records) == before
    assert counts(setting.records, APP)[1:] == (1, TASKS, 1)
    assert setting.records[f"{APP}/job/0000000000"]["status"] == "SUCCEEDED"
