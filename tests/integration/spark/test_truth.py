"""Every number recorded is Spark's own: all rows and all fields of Spark's REST API, beside the records of the event log.

Three applications are recorded live, and by their event logs: files, a cache, retries and failures; streams; two executors, with
a speculative copy and an executor that is lost. `tests.support.rest_fields` says which field is compared with what.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark import records as rec
from kvwal.spark.index import is_application_key
from kvwal.spark.record_keys import executor_key, job_key, sql_key, stage_key
from tests.support import rest_fields as rest
from tests.support.recording.rest_rows import value_differences
from tests.support.spark import environment

ROOT = Path(__file__).resolve().parent.parent.parent.parent
APPLICATIONS = ("cluster", "streaming", "batch")


def records_of_applications(store: kvwal.Store) -> dict[str, Any]:
    """Every record of the applications, without the index."""
    return {key: value for key, value in store.map("spark").items() if is_application_key(key)}


class Ran(NamedTuple):
    """An application that has ended: its folder, its records from the event log, and those of the live recorder."""

    folder: Path
    prefix: str
    log: dict[str, Any]
    live: dict[str, Any]

    def answer(self, name: str) -> Any:
        """An answer of the REST API, asked when all jobs had ended."""
        return json.loads((self.folder / f"{name}.json").read_text())

    def told(self) -> rest.Told:
        """The records of the event log."""
        return {key: rec.from_value(value) for key, value in self.log.items()}


def run(name: str, place: Path) -> Ran:
    """The application, run in a process of its own."""
    folder = place / "out"
    driver = subprocess.run(
        [sys.executable, "-m", "tests.support.recording.truth", name, str(folder)],
        env=environment(ROOT), check=False, capture_output=True, cwd=place,
    )  # fmt: skip
    assert driver.returncode == 0, driver.stderr.decode()[-4_000:]
    return read(folder, place / "by-log")


def read(folder: Path, root: Path) -> Ran:
    """The application that ran with this folder, its event log read into `root`."""
    with kvwal.open(root, archive=None, flush="os") as store:
        record_event_logs(store, [folder / "logs"])
        log = records_of_applications(store)
    with kvwal.open(folder / "root", read_only=True) as store:
        live = records_of_applications(store)
    return Ran(folder, json.loads((folder / "app.json").read_text())["id"], log, live)


@pytest.mark.long
@pytest.mark.parametrize("name", APPLICATIONS)
def test_every_number_is_sparks_own(name: str, tmp_path: Path) -> None:
    ran = run(name, tmp_path)
    for compare in (
        compare_jobs, compare_stages, compare_skipped_stages, compare_durations_of_tasks, compare_quantiles, compare_executors,
        compare_sql, compare_application, compare_settings, compare_batches, compare_live_and_log,
    ):  # fmt: skip
        compare(ran)


def events(ran: Ran, name: str) -> list[Any]:
    """The events of a name in the event log."""
    (log,) = (ran.folder / "logs").iterdir()
    return [event for event in map(json.loads, log.read_text().splitlines()) if event["Event"] == name]


def keys_of(ran: Ran, folder: str) -> set[str]:
    return {key for key in ran.log if key.startswith(f"{ran.prefix}/{folder}/")}


def compare_jobs(ran: Ran) -> None:
    """All jobs."""
    rows = ran.answer("jobs")
    assert value_differences(ran.told(), rows, rest.JOB, key := lambda row: job_key(ran.prefix, row["jobId"])) == []
    assert {key(row) for row in rows} == keys_of(ran, "job")


def compare_stages(ran: Ran) -> None:
    """All stages that ran."""
    rows = [row for row in ran.answer("stages") if row["status"] != "SKIPPED"]
    key = lambda row: stage_key(ran.prefix, row["stageId"], row["attemptId"])  # noqa: E731
    assert value_differences(ran.told(), rows, rest.STAGE, key) == []
    assert {key(row) for row in rows} == keys_of(ran, "stage")


def compare_skipped_stages(ran: Ran) -> None:
    """The stages that Spark shows as skipped are skipped in a job."""
    theirs = {row["stageId"] for row in ran.answer("stages") if row["status"] == "SKIPPED"}
    jobs = rest.of_kind(ran.told(), rec.Job)
    assert {stage for job in jobs for stage in job.skipped} >= theirs - {stage for job in jobs for stage in job.ran}


def compare_durations_of_tasks(ran: Ran) -> None:
    """Quantiles are within 1 %. Of failed and killed tasks Spark takes the durations too, so stages with such are left out."""
    told = ran.told()
    for row in ran.answer("stages"):
        if row["status"] == "COMPLETE" and not row["numFailedTasks"] + row["numKilledTasks"]:
            stage = told[stage_key(ran.prefix, row["stageId"], row["attemptId"])]
            ours = [stage.task_p25_ms, stage.task_median_ms, stage.task_p75_ms, stage.task_p95_ms]
            theirs = row["taskMetricsDistributions"]["duration"]
            # A bucket is within 1 % of its tasks, and its value is rounded to a millisecond.
            assert all(abs(our - their) <= 0.01 * their + 1 for our, their in zip(ours, theirs, strict=True)), row


QUANTILES = {
    "gc_ms": lambda rows: rows["jvmGcTime"],
    "peak_memory_bytes": lambda rows: rows["peakExecutionMemory"],
    "input_bytes": lambda rows: rows["inputMetrics"]["bytesRead"],
    "output_bytes": lambda rows: rows["outputMetrics"]["bytesWritten"],
    "shuffle_read_bytes": lambda rows: rows["shuffleReadMetrics"]["readBytes"],
    "shuffle_write_bytes": lambda rows: rows["shuffleWriteMetrics"]["writeBytes"],
    "spill_memory_bytes": lambda rows: rows["memoryBytesSpilled"],
    "spill_disk_bytes": lambda rows: rows["diskBytesSpilled"],
}
"""The quantiles of a stage, each with its place in the REST API."""


def compare_quantiles(ran: Ran) -> None:
    """Quantiles of metrics are within 4 %. They are those of successful tasks, in Spark too."""
    told = ran.told()
    for row in ran.answer("stages"):
        if row["status"] == "COMPLETE":
            stage = told[stage_key(ran.prefix, row["stageId"], row["attemptId"])]
            for name, place in QUANTILES.items():
                ours = getattr(stage.quantiles, name) or rec.Quantiles()
                between = [ours.p25, ours.median, ours.p75, ours.p95]
                assert between == pytest.approx(place(row["taskMetricsDistributions"]), rel=0.04), (row, name)


def compare_executors(ran: Ran) -> None:
    """All executors, those that are gone and the driver included."""
    told, key = ran.told(), lambda row: executor_key(ran.prefix, row["id"])
    rows = [in_order_of_log(ran, row, told[key(row)]) for row in ran.answer("executors")]
    assert value_differences(told, rows, rest.EXECUTOR, key) == []
    assert {key(row) for row in rows} == keys_of(ran, "executor")
    hosts = {row["id"]: row["hostPort"].rpartition(":")[0] for row in rows}
    assert {one.id: one.host for one in rest.of_kind(told, rec.Executor)} == hosts


def in_order_of_log(ran: Ran, row: Any, executor: Any) -> Any:
    """The row of an executor that was lost, with the tasks that were lost with it counted as the event log's order has it.

    The end of such a task and the loss of the executor are events of two threads: the REST API and the log get them in any order.
    A task that ends after its executor is gone does not count; the REST API then shows it as active for ever.
    """
    if row["isActive"]:
        return row
    ended = [event for event in events(ran, "SparkListenerTaskEnd") if event["Task Info"]["Executor ID"] == row["id"]]
    lost = sum(event["Task End Reason"]["Reason"] == "ExecutorLostFailure" for event in ended)
    late = lost if executor.tasks < row["totalTasks"] else 0
    failed = row["failedTasks"] + row["activeTasks"] - late
    return {**row, "failedTasks": failed, "totalTasks": row["totalTasks"] - late}


def compare_sql(ran: Ran) -> None:
    """All SQL executions."""
    rows = ran.answer("sql")
    assert value_differences(ran.told(), rows, rest.SQL, key := lambda row: sql_key(ran.prefix, row["id"])) == []
    assert {key(row) for row in rows} == keys_of(ran, "sql")


def compare_application(ran: Ran) -> None:
    """The application, and its counts, which the REST API does not have."""
    told = ran.told()
    rows = ran.answer("app")["attempts"]
    assert value_differences(told, rows, rest.APPLICATION, lambda row: f"{ran.prefix}/app") == []
    app = told[f"{ran.prefix}/app"]
    jobs, stages, sql = (rest.of_kind(told, kind) for kind in (rec.Job, rec.Stage, rec.Sql))
    assert (app.jobs, app.stages, app.sql) == (len(jobs), len(stages), len(sql))
    assert app.jobs_failed == sum(job.status == "FAILED" for job in jobs)
    assert app.sql_failed == sum(execution.status == "FAILED" for execution in sql)
    (end,) = events(ran, "SparkListenerApplicationEnd")
    assert (app.ended, app.duration_ms, app.exit_code) == (
        end["Timestamp"],
        end["Timestamp"] - app.started,
        end["ExitCode"],
    )
    executors = rest.of_kind(told, rec.Executor)
    assert app.core_ms == sum(one.cores * (min(one.removed or app.ended, app.ended) - one.added) for one in executors)


def compare_settings(ran: Ran) -> None:
    """All settings, the classpath, and the resource profiles."""
    environment = ran.told()[f"{ran.prefix}/env"]
    theirs = dict(ran.answer("environment")["sparkProperties"])
    assert theirs.keys() == environment.spark.keys()
    assert [
        name for name, value in theirs.items() if environment.spark[name] not in (rec.cut(value), "*********(redacted)")
    ] == []
    heap = {
        str(one["id"]): one["executorResources"]["memory"]["amount"] << 20
        for one in ran.answer("environment")["resourceProfiles"]
    }
    assert environment.executor_memory_bytes == heap
    compare_properties(environment, ran.answer("environment"))


def compare_properties(environment: rec.Environment, theirs: Any) -> None:
    """The JVM's properties, those of metrics, the jars and the profiles; Hadoop's settings are not recorded."""
    assert theirs.keys() == {
        "runtime", "sparkProperties", "hadoopProperties", "systemProperties", "metricsProperties", "classpathEntries",
        "resourceProfiles",
    }  # fmt: skip
    assert sorted(environment.jvm.values()) == sorted(theirs["runtime"].values())
    for section, field in ((environment.system, "systemProperties"), (environment.metrics, "metricsProperties")):
        told = dict(theirs[field])
        assert told.keys() == section.keys()
        assert [name for name in told if section[name] not in (rec.cut(told[name]), "*********(redacted)")] == []
    jars = {folder.folder + entry: folder.source for folder in environment.classpath for entry in folder.entries}
    assert (jars, environment.left_out) == (dict(theirs["classpathEntries"]), {})
    amounts = lambda resources: {name: resource["amount"] for name, resource in resources.items()}  # noqa: E731
    assert environment.profiles == [
        rec.ResourceProfile(one["id"], amounts(one["executorResources"]), amounts(one["taskResources"]))
        for one in theirs["resourceProfiles"]
    ]


def compare_batches(ran: Ran) -> None:
    """All batches of streams, with what the queries themselves report: no REST API has them."""
    told = ran.told()
    if not (ran.folder / "progress.json").exists():
        assert rest.of_kind(told, rec.Batch) == []
        return
    reported = {
        (query, batch["batchId"]): batch for query, batches in ran.answer("progress").items() for batch in batches
    }
    recorded = {(batch.query, batch.batch): batch for batch in rest.of_kind(told, rec.Batch)}
    assert reported.keys() == recorded.keys()
    assert reported
    for key, batch in recorded.items():
        theirs = reported[key]
        assert (batch.input_rows, batch.duration_ms, batch.steps_ms, batch.output_rows) == (
            theirs["numInputRows"], theirs["batchDuration"], theirs["durationMs"], theirs["sink"]["numOutputRows"],
        )  # fmt: skip
        assert batch.state_rows == sum(operator["numRowsTotal"] for operator in theirs["stateOperators"])


ONE_SIDED = {
    "app": {"status_from"},  # only the recorder sees how Python ended
    "job": {"error"},  # Spark adds frames of the driver before or after it writes the event; the messages are compared
}


def compare_live_and_log(ran: Ran) -> None:
    """All records of the live recorder, with those of the event log."""
    positions = {f"{ran.prefix}/log", f"{ran.prefix}/recorder"}
    assert ran.live.keys() ^ ran.log.keys() <= positions
    for key in ran.log.keys() - positions:
        left_out = ONE_SIDED.get(ran.log[key]["kind"], set())
        ours, theirs = (
            {field: value for field, value in told[key].items() if field not in left_out}
            for told in (ran.live, ran.log)
        )
        assert ours == theirs, key
        if ran.log[key]["kind"] == "job" and ran.log[key]["error"]:
            assert ran.live[key]["error"]["message"] == ran.log[key]["error"]["message"]
