"""An application that is tried again under its id: its later run replaces the records of the earlier one, which history keeps."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import pytest

import kvwal
from kvwal.spark import index, record_event_logs
from kvwal.spark.eventlog import log_reader, runs
from kvwal.spark.eventlog.folders import LocalFolder, RemoteFolder
from kvwal.spark.eventlog.log_reader import LogReader
from kvwal.spark.eventlog.logs import find_logs, identify
from kvwal.spark.recording import recorder
from kvwal.spark.recording.recorder import JobRecorder
from kvwal.spark.recording.spool import Spool
from kvwal.spark.retention import delete_applications
from tests.support.cli import kvwal as command
from tests.support.event_logs import CODECS, SUFFIXES, TASKS, compressed, counts, event_log, job_events, write_rolling
from tests.support.recording.driver import Driver, Listener
from tests.support.spark_records import DyingMap, Killed
from tests.unit.follower.test_follower import Setting, setting

__all__ = ["setting"]
APP = "app-1"
AGAIN = 3_601_000
"""When the second run starts."""
FAILED = (b'{"Result":"JobSucceeded"}', b'{"Result":"JobFailed","Exception":{"Message":"no input"}}')


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "store", archive=None, flush="os") as store:
        yield store


def first_run(jobs: int = 40, *, ended: bool = True) -> bytes:
    """A run whose jobs all failed."""
    return event_log(APP, jobs, ended=ended).replace(*FAILED)


def second_run(jobs: int, *, ended: bool = True) -> bytes:
    return event_log(APP, jobs, ended=ended, started=AGAIN)


def records_of(store: kvwal.Store) -> dict[str, Any]:
    """All records but the position, which names the log."""
    return {key: value for key, value in store.map("spark").items() if value["kind"] not in ("log", "index")}


def once(tmp_path: Path, text: bytes) -> dict[str, Any]:
    """The records of one log in a store of its own."""
    (tmp_path / "once").mkdir()
    (tmp_path / "once" / "log").write_bytes(text)
    with kvwal.open(tmp_path / "once" / "store", archive=None, flush="os") as store:
        record_event_logs(store, [tmp_path / "once" / "log"])
        return records_of(store)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("jobs", [2, 40, 90])
def test_a_finished_log_that_a_retry_replaces_is_read_anew_and_history_keeps_the_first_run(
    store: kvwal.Store, tmp_path: Path, codec: str, jobs: int
) -> None:
    log = tmp_path / f"{APP}{SUFFIXES[codec]}"
    log.write_bytes(compressed(first_run(), codec))
    record_event_logs(store, [log])
    text = second_run(jobs)
    log.write_bytes(compressed(text, codec))
    (read,) = record_event_logs(store, [log])
    assert (read.events, read.complete, read.replaced) == (text.count(b"\n"), True, 1_000)
    assert records_of(store) == once(tmp_path, text)
    (again,) = record_event_logs(store, [log])
    assert (again.events, again.replaced) == (0, 0)
    told = [entry.deleted for entry in store.map("spark").history(f"{APP}/job/0000000039")]
    assert told[-1] is False
    assert (True in told) == (jobs < 40)
    kept = [store.map("spark").at(entry.timestamp)[f"{APP}/app"] for entry in store.map("spark").history(f"{APP}/app")]
    assert [app["jobs_failed"] for app in kept] == [0, 40]


def test_a_log_of_the_same_length_is_read_anew(store: kvwal.Store, tmp_path: Path) -> None:
    log, text = tmp_path / APP, event_log(APP, 5, started=1_001, name="anew!!")
    log.write_bytes(event_log(APP, 5))
    assert log.stat().st_size == len(text)
    record_event_logs(store, [log])
    log.write_bytes(text)
    record_event_logs(store, [log])
    assert records_of(store) == once(tmp_path, text)


@pytest.mark.parametrize("most", [1, 7, 2_000])
def test_killed_at_every_transaction_the_later_run_is_whole_and_mixes_with_no_other(
    store: kvwal.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    log, text = tmp_path / APP, second_run(20)
    log.write_bytes(first_run())
    record_event_logs(store, [log])
    first, second = records_of(store), once(tmp_path, text)
    log.write_bytes(text)
    monkeypatch.setattr(runs, "MOST_DELETES", most)
    monkeypatch.setattr(log_reader, "MAX_PENDING", 5_000)
    (found,) = find_logs([log])
    identity = identify(found)
    assert identity is not None
    dying = DyingMap(store.map("spark"))
    complete = False
    while not complete:
        with suppress(Killed):
            reader = LogReader(dying, found, identity)
            reader.advance()
        reader.close()
        complete = not reader.problem and store.map("spark").get(f"{APP}/log", {}).get("complete", False)
        complete = complete and store.map("spark")[f"{APP}/app"]["started"] == AGAIN
        if store.map("spark")[f"{APP}/app"]["started"] == AGAIN:
            assert not [key for key, value in records_of(store).items() if first.get(key) == value != second.get(key)]
        else:
            assert records_of(store).items() <= first.items()
    assert dying.kills > 10
    assert records_of(store) == second


@pytest.mark.parametrize("backwards", [False, True])
def test_two_runs_in_one_call_do_not_mix_and_the_later_one_stays(
    store: kvwal.Store, tmp_path: Path, backwards: bool
) -> None:
    logs = [tmp_path / "b", tmp_path / "a"]
    for log, text in zip(logs, (first_run(), second_run(3)), strict=True):
        log.write_bytes(text)
    reads = record_event_logs(store, logs[::-1] if backwards else logs)
    assert [(read.path.name, read.complete, read.replaced) for read in reads] == [("b", True, 0), ("a", True, 1_000)]
    second = once(tmp_path, second_run(3))
    assert records_of(store) == second
    assert store.map("spark").history(f"{APP}/job/0000000039")[0].deleted
    earlier, later = record_event_logs(store, logs)
    assert "1970-01-01 00:00:01Z. A later run is recorded, which started at 1970-01-01 01:00:01Z" in earlier.skipped
    assert (earlier.events, later.events, later.complete) == (0, 0, True)
    assert records_of(store) == second


@pytest.mark.parametrize("becomes", [second_run(3), b"no event log\n", b""])
def test_a_log_that_is_replaced_while_others_are_read_is_left_to_the_next_call(
    store: kvwal.Store, tmp_path: Path, becomes: bytes
) -> None:
    logs = [tmp_path / "one", tmp_path / "two"]
    logs[0].write_bytes(event_log("app-0", 1))
    logs[1].write_bytes(first_run(2))

    def replace(done: int, total: int, name: str) -> None:
        logs[1].write_bytes(becomes)

    reads = record_event_logs(store, logs, replace)
    assert [read.complete for read in reads] == [True, False]
    assert "the next one reads it" in reads[1].skipped
    assert f"{APP}/app" not in store.map("spark")


def test_the_command_says_which_run_is_replaced_and_which_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(first_run(2))
    (tmp_path / "two").write_bytes(second_run(3))
    logs = [tmp_path / "two", tmp_path / "one"]
    ran = command("record", tmp_path / "root", *logs)
    assert ran.code == 0, ran.err
    assert (
        "two: a later run of app-1. Its records replace those of the run that started at 1970-01-01 00:00:01Z"
        in ran.err
    )
    again = command("record", tmp_path / "root", *logs)
    assert again.code == 0
    assert "Skipped one: " in again.err
    assert "Read the log into another store to see the earlier run." in again.err
    assert "no input" not in command("jobs", tmp_path / "root", "--failed").out


def test_a_position_without_the_start_of_its_run_is_read(store: kvwal.Store, tmp_path: Path) -> None:
    """As earlier versions stored it."""
    log = tmp_path / APP
    log.write_bytes(first_run())
    record_event_logs(store, [log])
    records = store.map("spark")
    earlier = {name: value for name, value in records[f"{APP}/log"].items() if name != "started"}
    records[f"{APP}/log"] = earlier
    assert record_event_logs(store, [log])[0].events == 0
    assert records[f"{APP}/log"] == earlier
    log.write_bytes(second_run(3))
    record_event_logs(store, [log])
    assert records_of(store) == once(tmp_path, second_run(3))


def test_an_application_that_was_pruned_is_recorded_when_it_runs_again(store: kvwal.Store, tmp_path: Path) -> None:
    log = tmp_path / APP
    log.write_bytes(first_run())
    record_event_logs(store, [log])
    delete_applications(store.map("spark"), [APP], before=AGAIN)
    record_event_logs(store, [log])
    assert records_of(store) == {}
    log.write_bytes(second_run(3))
    record_event_logs(store, [log])
    assert records_of(store) == once(tmp_path, second_run(3))


def test_the_attempts_of_an_application_stay_when_it_runs_again_without_attempts(
    store: kvwal.Store, tmp_path: Path
) -> None:
    attempt = (b'"App ID":"app-1"', b'"App ID":"app-1","App Attempt ID":"1"')
    (tmp_path / "attempt").write_bytes(event_log(APP, 2).replace(*attempt))
    (tmp_path / "plain").write_bytes(first_run(2))
    record_event_logs(store, [tmp_path / "attempt", tmp_path / "plain"])
    (tmp_path / "plain").write_bytes(second_run(1))
    record_event_logs(store, [tmp_path / "plain"])
    records = store.map("spark")
    assert counts(records, APP) == ("SUCCEEDED", 1, TASKS, 1)
    assert counts(records, f"{APP}/1") == ("SUCCEEDED", 2, 2 * TASKS, 2)
    assert index.summary_key(f"{APP}/1") in records


def place(logs: Path, *, remote: bool) -> tuple[LocalFolder | RemoteFolder, Callable[[], None]]:
    """A folder to follow, and the call that shows in it what `logs` has now."""
    if not remote:
        return LocalFolder(logs), lambda: None
    memory, name = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}"

    def copy() -> None:
        if memory.exists(name):
            memory.rm(name, recursive=True)
        memory.put(str(logs), name, recursive=True)

    return RemoteFolder(f"memory:/{name}"), copy


Write = Callable[[Path, bytes, bool], None]


def write_plain(logs: Path, text: bytes, ended: bool) -> None:
    (logs / f"{APP}{'' if ended else '.inprogress'}").write_bytes(text)


def write_rolls(logs: Path, text: bytes, ended: bool) -> None:
    """A log in as many rolls as it has jobs, and at most three."""
    shutil.rmtree(logs / f"eventlog_v2_{APP}", ignore_errors=True)
    lines = text.splitlines(keepends=True)
    ends = [number for number, line in enumerate(lines, 1) if b"SparkListenerJobEnd" in line][:2]
    cuts = [0, *ends, len(lines)]
    rolls = [b"".join(lines[begin:end]) for begin, end in pairwise(cuts)]
    write_rolling(logs, APP, rolls, in_progress=not ended)


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
@pytest.mark.parametrize("restarted", [False, True], ids=["going on", "restarted"])
@pytest.mark.parametrize("ended", [False, True], ids=["in progress", "ended"])
@pytest.mark.parametrize("jobs", [1, 90])
@pytest.mark.parametrize("write", [write_plain, write_rolls])
def test_a_follower_reads_a_log_that_was_replaced_by_that_of_another_run(
    setting: Setting, tmp_path: Path, write: Write, jobs: int, ended: bool, restarted: bool, remote: bool
) -> None:
    folder, show = place(setting.logs, remote=remote)
    write(setting.logs, first_run(ended=ended), ended)
    show()
    follower = setting.follower(folders=[folder])
    follower.round()
    assert counts(setting.records, APP)[1] == 40
    write(setting.logs, second_run(jobs, ended=ended), ended)
    show()
    if restarted:
        follower.close()
        follower = setting.follower(folders=[folder])
    follower.round()
    assert counts(setting.records, APP) == ("SUCCEEDED" if ended else "RUNNING", jobs, jobs * TASKS, jobs)
    assert not [key for key in setting.records if key.startswith(index.FAILURES)]
    opened = setting.status.logs_read
    follower.round()
    assert setting.status.logs_read == opened


def test_a_retry_is_followed_beside_the_finished_log_that_it_replaces_at_its_end(setting: Setting) -> None:
    """Spark deletes the finished log of the name when it renames the new one."""
    write_plain(setting.logs, first_run(), True)
    follower = setting.follower()
    follower.round()
    for jobs in (1, 2):
        write_plain(setting.logs, second_run(jobs, ended=False), False)
        follower.round()
        assert counts(setting.records, APP) == ("RUNNING", jobs, jobs * TASKS, jobs)
    running = setting.logs / f"{APP}.inprogress"
    running.write_bytes(second_run(3))
    running.rename(setting.logs / APP)
    follower.round()
    assert counts(setting.records, APP) == ("SUCCEEDED", 3, 3 * TASKS, 3)
    assert len([key for key in setting.records if key.startswith("!log/")]) == 1


def test_an_older_copy_of_a_log_beside_the_finished_one_changes_nothing(setting: Setting, tmp_path: Path) -> None:
    write_plain(setting.logs, event_log(APP, 2, ended=False), False)
    write_plain(setting.logs, event_log(APP, 5), True)
    follower = setting.follower()
    for _ in range(2):
        follower.round()
        assert counts(setting.records, APP) == ("SUCCEEDED", 5, 5 * TASKS, 5)
        assert setting.records[f"{APP}/log"]["complete"]


def test_a_follower_leaves_the_log_of_an_earlier_run_alone(setting: Setting) -> None:
    setting.write("a", second_run(3))
    setting.write("b", first_run())
    follower = setting.follower()
    for _ in range(2):
        follower.round()
        last = setting.status.last
        assert last is not None
        assert (last.complete, last.skipped, last.whole) == (1, 1, True)
    assert counts(setting.records, APP) == ("SUCCEEDED", 3, 3 * TASKS, 3)
    assert "!lease/app-1" not in setting.records


class DriverOfJobs(Driver):
    """Its application has run some jobs before the recorder reads."""

    jobs = 0

    def attach(self, folder: Path) -> Listener:
        listener = super().attach(folder)
        listener.write(*(event for job in range(self.jobs) for event in job_events(job, self.started)))
        return listener


@pytest.mark.parametrize("moved", [False, True], ids=["own node", "moved to the shared node"])
def test_a_recorder_of_a_later_run_replaces_the_records_of_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    monkeypatch.setattr(recorder, "Driver", DriverOfJobs)

    def record(started: int, jobs: int, app: str = APP) -> None:
        monkeypatch.setattr(DriverOfJobs, "started", started)
        monkeypatch.setattr(DriverOfJobs, "jobs", jobs)
        with JobRecorder(app, tmp_path, archive=None):  # type: ignore[arg-type]
            pass

    record(1_000, 5)
    record(1_000, 1, "another")
    if moved:
        assert command("record", tmp_path).code == 0
    record(AGAIN, 2)
    with kvwal.open(tmp_path, read_only=True) as store:
        assert counts(store.map("spark"), APP) == ("SUCCEEDED", 2, 2 * TASKS, 2)
        assert counts(store.map("spark"), "another") == ("SUCCEEDED", 1, TASKS, 1)


def test_what_a_killed_driver_of_an_earlier_run_left_stays_in_its_spool(store: kvwal.Store, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spools", "default", "local", APP)
    spool.make()
    left = Listener(spool.folder, APP, 1_000)
    left.write(*job_events(7))
    (tmp_path / APP).write_bytes(second_run(3))
    record_event_logs(store, [tmp_path / APP])
    records = store.map("spark")
    before = dict(records.items())
    (read,) = spool.read_rest(records)
    assert "A later run is recorded" in read.skipped
    assert spool.logs() == [left.log]
    assert dict(records.items()) == before
