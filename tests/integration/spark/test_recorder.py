"""The live recorder on a real driver, and the questions that are asked of what it recorded."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError, KvwalError, LogFailed
from kvwal.spark import JobRecorder, queries, record, record_event_logs
from kvwal.spark.recording.driver import Driver
from tests.support.cli import kvwal as command
from tests.support.spark import ENDING_DRIVER, KILLED_DRIVER, LARGE_JOBS, Written, comparable, drain, environment

ROOT = Path(__file__).resolve().parent.parent.parent.parent


def recorded(root: Path, node: str | None = None) -> Mapping[str, Any]:
    """What is under a root, merged over its nodes."""
    with kvwal.open(root, node=node, read_only=True) as store:
        return dict(store.map("spark").items())


def run_jobs(spark: Any, count: int) -> None:
    spark.sparkContext.setJobDescription("a small job")
    for _ in range(count):
        spark.range(0, 10, 1, 2).collect()


def test_the_recorder_tells_what_the_event_log_tells(written: Written, tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "once", archive=None) as store:
        record_event_logs(store, [written.plain])
        log = dict(store.map("spark").items())
    live = recorded(written.root, node=written.app)
    for kind in ("job", "stage", "sql", "stream", "batch"):
        assert comparable(live, kind) == comparable(log, kind)
    executors, in_log = comparable(live, "executor"), comparable(log, "executor")
    assert all(executor["cores"] and executor["added"] for executor in executors.values())
    for executor in (*executors.values(), *in_log.values()):
        del executor["host"]  # the address of its blocks; in local mode the event has the name of the machine
    assert executors == in_log
    for fact in (
        "id",
        "name",
        "status",
        "started",
        "ended",
        "jobs",
        "stages",
        "sql",
        "tasks",
        "input_rows",
        "spark_version",
    ):
        assert live[f"{written.app}/app"][fact] == log[f"{written.app}/app"][fact], fact


def test_several_drivers_record_into_one_root_at_once(written: Written) -> None:
    nodes = {path.name for path in (written.root / "default" / "local" / "spark").iterdir()}
    assert nodes == {written.app, written.rolling_app, "reader"}
    apps = {one.app.name: one.app for one in queries.applications(recorded(written.root))}
    assert set(apps) == {"first", "second"}
    assert apps["second"].jobs == LARGE_JOBS
    assert (apps["second"].status, apps["second"].status_from) == ("SUCCEEDED", "python")
    assert not (written.root / "_spark").exists()


def test_an_application_is_seen_while_it_runs_and_a_recorder_may_come_back(spark: Any, tmp_path: Path) -> None:
    app = spark.sparkContext.applicationId
    for times in (1, 2):
        with JobRecorder(spark, tmp_path):
            run_jobs(spark, 2)
        found = recorded(tmp_path)[f"{app}/app"]
        assert (found["jobs"], found["status"], found["dropped"]) == (2 * times, "SUCCEEDED", 0)


def test_the_exception_that_ends_an_application_is_recorded(spark: Any, tmp_path: Path) -> None:
    def fail() -> None:
        with JobRecorder(spark, tmp_path):
            run_jobs(spark, 1)
            raise RuntimeError("the input is missing")

    with pytest.raises(RuntimeError):
        fail()
    (failed,) = queries.failures(recorded(tmp_path))
    assert (failed.what, failed.app.status, failed.error.message) == (
        "application",
        "FAILED",
        "RuntimeError: the input is missing",
    )
    assert "run_jobs" not in failed.error.stack
    assert "raise RuntimeError" in failed.error.stack


def test_secrets_are_not_recorded(spark: Any, tmp_path: Path) -> None:
    spark.sparkContext._conf.set("spark.hadoop.fs.s3a.secret.key", "hunter2")
    with JobRecorder(spark, tmp_path):
        run_jobs(spark, 1)
    env = recorded(tmp_path)[f"{spark.sparkContext.applicationId}/env"]
    assert env["spark"]["spark.app.name"] == "second"
    assert "hunter2" not in json.dumps(env)


class Broken:
    """A store whose disk fails after some transactions."""

    def __init__(self, store: kvwal.Store, works: int) -> None:
        self._store = store
        self._left = works
        self.root, self.namespace, self.cluster, self.node = store.root, store.namespace, store.cluster, store.node
        self.options = store.options

    def map(self, name: str) -> Any:
        self._records = self._store.map(name)
        self.get = self._records.get
        return self

    def __len__(self) -> int:
        return len(self._records)

    def put_many(self, entries: dict[str, Any]) -> None:
        self._left -= 1
        if self._left < 0:
            raise LogFailed("the disk is gone.")
        self._records.put_many(entries)


def test_a_failing_store_is_not_noticed_by_the_driver_and_loses_nothing(spark: Any, tmp_path: Path) -> None:
    app = spark.sparkContext.applicationId
    with kvwal.open(tmp_path, node="broken", archive=None) as store:
        broken: Any = Broken(store, works=1)
        recorder = JobRecorder(spark, broken).start()
        run_jobs(spark, 3)
        recorder.close()
    assert isinstance(recorder.failure, LogFailed)
    assert f"{app}/app" not in recorded(tmp_path)
    ran = command("record", tmp_path, "--json")
    assert ran.code == 0, ran.err
    found = recorded(tmp_path)[f"{app}/app"]
    assert (found["jobs"], found["status"]) == (3, "DETACHED")
    assert not (tmp_path / "_spark").exists()


@pytest.mark.long
def test_a_driver_that_is_killed_leaves_what_it_had_seen(tmp_path: Path) -> None:
    driver = subprocess.run(
        [sys.executable, "-c", KILLED_DRIVER, str(tmp_path)], env=environment(ROOT), start_new_session=True, check=False,
        capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    assert driver.returncode == -9, driver.stderr.decode()
    ran = command("record", tmp_path, "--json")
    assert ran.code == 0, ran.err
    (found,) = queries.applications(recorded(tmp_path))
    assert (found.app.name, found.app.status, found.app.jobs) == ("killed", "KILLED", 6)
    assert "RUNNING" not in {value.get("status") for value in recorded(tmp_path).values()}
    assert found.app.tasks == sum(value["tasks"] for value in recorded(tmp_path).values() if value["kind"] == "stage")


@pytest.mark.long
@pytest.mark.parametrize(
    ("ends", "code", "status"),
    [
        ("with JobRecorder(spark, root):\n    work()\nspark.stop()", 0, "SUCCEEDED"),
        ("with JobRecorder(spark, root):\n    work()\n    spark.stop()", 0, "SUCCEEDED"),
        ("with JobRecorder(spark, root):\n    work()\n    sys.exit(0)", 0, "SUCCEEDED"),
        ("with JobRecorder(spark, root):\n    work()\n    raise ValueError('wrong')", 1, "FAILED"),
        ("recorder = JobRecorder(spark, root).start()\nwork()\nrecorder.close()\nwork()", 0, "DETACHED"),
        ("record(spark)\nwork()", 0, "SUCCEEDED"),
        ("record(spark)\nwork()\nraise ValueError('wrong')", 1, "FAILED"),
        ("record(spark)\nwork()\nsys.exit(3)", 3, "FAILED"),
        ("record(spark)\nwork()\nsignal.raise_signal(signal.SIGINT)", -2, "KILLED"),
        ("record(spark)\nwork()\nos._exit(0)", 0, "KILLED"),
        # The JVM lives, and stops Spark in order.
        ("record(spark)\nwork()\nos.kill(os.getpid(), signal.SIGKILL)", -9, "KILLED"),
    ],
)
def test_the_status_says_how_python_ended(ends: str, code: int, status: str, tmp_path: Path) -> None:
    program = f"{ENDING_DRIVER}\n{ends}"
    driver = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment(ROOT),
        check=False,
        capture_output=True,
        cwd=tmp_path,
    )
    assert driver.returncode == code, driver.stderr.decode()
    if (tmp_path / "_spark").exists():
        ran = command("record", tmp_path)
        assert ran.code == 0, ran.err
    (ended,) = queries.applications(recorded(tmp_path))
    assert (ended.app.status, ended.app.jobs) == (status, 1)
    assert ended.app.exit_code == {"SUCCEEDED": 0, "FAILED": code, "KILLED": 130 if code == -2 else None}.get(status)
    assert (ended.app.error is not None) is (code == 1)


def test_trouble_with_the_store_at_the_start_is_the_recorders_own(spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("this is no folder")
    with JobRecorder(spark, file) as recorder:
        run_jobs(spark, 1)
    assert recorder.failure is not None
    with pytest.raises((KvwalError, OSError)):
        JobRecorder(spark, file, strict=True).start()


def test_ctrl_c_while_a_recording_begins_leaves_nothing_in_spark(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook goes on then, and may begin again."""

    def interrupt(driver: Driver) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(Driver, "_executors", interrupt)
        with pytest.raises(KeyboardInterrupt):
            JobRecorder(spark, tmp_path).start()
    assert list((tmp_path / "_spark").rglob("eventlog*")) == []
    with JobRecorder(spark, tmp_path) as recorder:
        run_jobs(spark, 1)
    assert recorder.failure is None
    found = recorded(tmp_path)[f"{spark.sparkContext.applicationId}/app"]
    assert (found["jobs"], found["status"]) == (1, "SUCCEEDED")
    assert not (tmp_path / "_spark").exists()


def test_a_recorder_that_is_started_twice_records_once(spark: Any, tmp_path: Path) -> None:
    for times in (1, 2):
        recorder = JobRecorder(spark, tmp_path, strict=True).start()
        assert recorder.start() is recorder
        run_jobs(spark, 1)
        recorder.close()
        recorder.close()
        assert recorded(tmp_path)[f"{spark.sparkContext.applicationId}/app"]["jobs"] == times


@pytest.mark.parametrize("is_listed", [True, False])
def test_an_executor_that_registers_while_a_recording_begins_counts_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_listed: bool
) -> None:
    """It registers before the recorder asks Spark for the executors that are there, or just after."""
    jvm, bus = spark.sparkContext._jvm, spark.sparkContext._jsc.sc().listenerBus()
    urls = jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap())
    info = jvm.org.apache.spark.scheduler.cluster.ExecutorInfo("host-7", 4, urls)
    events = jvm.org.apache.spark.scheduler
    list_executors = Driver._executors

    def register() -> None:
        bus.post(events.SparkListenerExecutorAdded(1_000, "7", info))
        drain(spark)

    def listed(driver: Driver) -> Any:
        if is_listed:
            register()
        found = list_executors(driver)
        if not is_listed:
            register()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Driver, "_executors", listed)
        with JobRecorder(spark, tmp_path, strict=True):
            bus.post(events.SparkListenerExecutorRemoved(2_000, "7", "the test is over"))
    found = recorded(tmp_path)
    executor = found[f"{spark.sparkContext.applicationId}/executor/000007"]
    assert (executor["cores"], executor["added"], executor["removed"]) == (4, 1_000, 2_000)
    assert found[f"{spark.sparkContext.applicationId}/app"]["cores"] == 2


def test_one_setting_says_where_to_record(spark: Any, written: Written) -> None:
    recorder = record(spark)
    run_jobs(spark, 1)
    recorder.close()
    root = written.root.parent / "by-configuration"
    assert queries.applications(recorded(root))[0].app.jobs == 1


def test_what_cannot_be_recorded_is_named(spark: Any, tmp_path: Path) -> None:
    class Client:
        """What a session of Spark Connect has of a context."""

    client: Any = Client()
    with pytest.raises(ConfigError, match="no driver in this process"):
        JobRecorder(client, tmp_path)
    conf = spark.sparkContext._conf
    conf.set("spark.kvwal.rot", "typo")
    with pytest.raises(ConfigError, match=r"spark\.kvwal\.rot"):
        record(spark)
    conf._jconf.remove("spark.kvwal.rot")
    conf.set("spark.kvwal.root", "another")
    with pytest.raises(ConfigError, match="both set"):
        record(spark)
    conf._jconf.remove("spark.kvwal.root")


def test_the_table_shows_applications_and_json_their_jobs(written: Written) -> None:
    ran = command("jobs", written.root)
    assert ran.code == 0, ran.err
    assert written.app in ran.out
    assert written.rolling_app in ran.out
    assert "write numbers" not in ran.out
    assert "counts, batch 1" in command("jobs", written.root, written.app).out
    told = [json.loads(line) for line in command("jobs", written.root, "--json").out.splitlines()]
    assert {one["kind"] for one in told} == {"app", "job"}


def test_one_application_is_told_in_full(written: Written) -> None:
    for name in (
        written.app,
        written.app[:-1] if written.app[:-1] != written.rolling_app[:-1] else written.app,
        "first",
    ):
        ran = command("jobs", written.root, name)
        assert ran.code == 0, ran.err
        for part in ("Jobs", "Stages", "Read and written", "Streaming batches", "sql", "ZeroDivisionError"):
            assert part in ran.out
    told = [json.loads(line) for line in command("jobs", written.root, written.app, "--json").out.splitlines()]
    assert {one["kind"] for one in told} >= {"app", "env", "executor", "job", "stage", "sql", "stream", "batch", "log"}
    assert command("jobs", written.root, "nobody").code == 2


def test_what_failed_and_how_runs_compare(written: Written) -> None:
    ran = command("jobs", written.root, "--failed", "--since", "yesterday")
    assert "fails on purpose" in ran.out
    assert "ZeroDivisionError" in ran.out
    assert "Nothing failed since" in command("jobs", written.root, "--failed", "--since", "2999-01-01").out
    failed = [json.loads(line) for line in command("jobs", written.root, "--failed", "--json").out.splitlines()]
    assert [one["title"] for one in failed] == ["fails on purpose"]
    assert "org.apache.spark" in failed[0]["stack"]
    runs = [json.loads(line) for line in command("jobs", written.root, "--runs", "counts", "--json").out.splitlines()]
    assert len(runs) == 2
    assert "100 %" in command("jobs", written.root, "--runs", "join and sum").out
    assert command("jobs", written.root, "--runs", "nothing").code == 2


def test_the_same_questions_in_sql(written: Written) -> None:
    sql = """SELECT value->>'name' AS name, (value->>'skew')::DOUBLE AS skew FROM spark
             WHERE value->>'kind' = 'stage' AND (value->>'tasks')::INT > 4 ORDER BY skew DESC LIMIT 1"""
    ran = command("query", written.root, sql, "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["skew"] > 1


def test_the_commands_of_the_page_answer(written: Written) -> None:
    page = (ROOT / "docs" / "spark-metadata.md").read_text()
    commands = [shlex.split(typed) for typed in re.findall(r"^```sh\nkvwal (.*?)\n```", page, re.MULTILINE | re.DOTALL)]
    answers = {}
    for verb, _, *rest in commands:
        asked = [word.replace("delays by carrier", "join and sum") for word in rest]
        ran = command(verb, written.root, *asked)
        assert ran.code == 0, (asked, ran.err)
        answers[" ".join(rest)] = ran.out
    assert len(answers) >= 8
    assert all("sums" in out or "numbers" in out for typed, out in answers.items() if "list_contains(jobs" in typed)
    assert all("fails on purpose" in out for typed, out in answers.items() if "FAILED" in typed or "--failed" in typed)
