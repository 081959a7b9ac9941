"""The flights application: every number on its pages is the live Spark UI's, and `kvwal jobs`'.

It runs twice, recorded as `make run` records it, and Spark is asked while it is alive. Each page of the console that leads to
another is read as a person reads it; a number that nobody accounts for fails the test, and a page that nobody has read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from kvwal.spark import records as rec
from kvwal.spark.record_keys import executor_key
from tests.repository.source import ROOT
from tests.support import rest_fields as rest
from tests.support.cli import kvwal
from tests.support.console.expected import Expected
from tests.support.console.page import Place, Shown
from tests.support.console.reading import Reader
from tests.support.flights import of_application, of_executions, of_lineage, of_runs, of_stages, of_streams
from tests.support.flights.answers import Row, Run, summed, tasks_ended
from tests.support.lineage.console import console
from tests.support.recording.rest_rows import different_from_spark, value_differences
from tests.support.rest_fields import moment
from tests.support.spark import environment

Expect = Callable[[Mapping[Place, Shown]], Expected]
PAGES = ("/app/", "/runs", "/compare", "/streams", "/lineage")
"""How the addresses of pages about applications begin."""


@pytest.mark.long
def test_every_number_of_the_flights_is_sparks_own(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.flights.driver", str(tmp_path)],
        env=environment(ROOT), check=False, capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-4_000:]
    runs = [Run(tmp_path, line) for line in ran.stdout.splitlines() if line.startswith("local-")]
    kept = kvwal("record", tmp_path / "root", tmp_path / "logs", "--keep-logs")
    assert kept.code == 0, kept.err
    compare(tmp_path, runs)


def compare(folder: Path, runs: list[Run]) -> None:
    """All pages about these runs, and all that `kvwal jobs` prints about them."""
    root = folder / "root"
    told = [records_of(root, run) for run in runs]
    with console(root, log=folder / "log") as running:
        reader = Reader(running.url)
        wrong = [each for path, expect in pages(runs, root, told) for each in reader.differences(path, expect)]
        assert wrong == []
        for run in runs:
            compare_texts_of_plans(reader, run)
    leads_to = {link for link in reader.linked if link.startswith(PAGES) and not link.endswith("/plan")}
    assert leads_to - reader.read == set()
    assert reader.numbers > 10_000
    for run, records in zip(runs, told, strict=True):
        compare_records(run, records)
        compare_tasks(root, run)
    compare_runs(root, runs)


def records_of(root: Path, run: Run) -> dict[str, Any]:
    """All records of an application by their keys, as `kvwal jobs --json` prints them."""
    ran = kvwal("jobs", root, run.id, "--json")
    assert ran.code == 0, ran.err
    return {record.pop("key"): record for record in map(json.loads, ran.out.splitlines())}


def pages(runs: list[Run], root: Path, told: list[dict[str, Any]]) -> Iterator[tuple[str, Expect]]:
    """Every page, with what must stand there."""
    now = runs[-1]
    executions = [executions_of(records) for records in told]
    yield "/", lambda _: of_runs.applications(runs, root)
    yield f"/runs?{urlencode({'name': now.name})}", lambda texts: of_runs.runs_page(runs, root, texts)
    for one, other in ((0, 1), (1, 0)):
        address = f"/compare?{urlencode({'a': runs[one].id, 'b': runs[other].id})}"
        yield (
            address,
            lambda _, one=one, other=other: of_runs.comparison(
                runs[one], runs[other], root, (executions[one], executions[other])
            ),
        )
    yield "/streams", lambda _: of_streams.of_all(runs, root)
    yield "/lineage", lambda _: of_lineage.data_sets_page(runs, root)
    for name in of_lineage.data_sets(runs):
        yield f"/lineage?{urlencode({'dataset': name})}", lambda _, name=name: of_lineage.graph(runs, root, name)
    for run, records in zip(runs, executions, strict=True):
        yield from pages_of(run, root, records)


def executions_of(records: Mapping[str, Any]) -> dict[int, Any]:
    """The records of the SQL executions by their numbers."""
    return {record["id"]: record for record in records.values() if record["kind"] == "sql"}


def pages_of(run: Run, root: Path, executions: Mapping[int, Any]) -> Iterator[tuple[str, Expect]]:
    """Every page of an application."""
    home = f"/app/{run.id}"
    yield home, lambda texts: of_application.summary(run, root, texts)
    yield f"{home}/failures", lambda _: of_application.failures_page(run, root)
    yield f"{home}/executors", lambda _: of_application.executors(run, root)
    yield f"{home}/settings", lambda _: of_application.settings(run, root)
    yield f"{home}/streams", lambda _: of_streams.of_application(run, root)
    yield f"{home}/stream/{run.stream['ID']}", lambda texts: of_streams.page_of(run, root, texts)
    for name in ("jobs", "stages", "sql"):
        yield f"{home}/{name}", lambda _, name=name: of_application.listed(run, root, name)
    for number, job in run.jobs.items():
        yield f"{home}/job/{number}", lambda _, job=job: of_executions.job_page(run, root, job)
    for (number, attempt), stage in run.stages.items():
        yield f"{home}/stage/{number}/{attempt}", lambda texts, stage=stage: of_stages.page_of(run, root, stage, texts)
    for number, sql in run.sql.items():
        yield (
            f"{home}/sql/{number}",
            lambda texts, sql=sql: of_executions.page_of(run, root, sql, executions[sql["id"]], texts),
        )


def compare_texts_of_plans(reader: Reader, run: Run) -> None:
    """The whole text of each plan that is recorded: of the batches of a query only the first keeps it."""
    for number, sql in run.sql.items():
        plan = reader.text(f"/app/{run.id}/sql/{number}/plan")
        assert plan in (rec.cut(sql["planDescription"], rec.MAX_PLAN), ""), number


def compare_records(run: Run, records: dict[str, Any]) -> None:
    """Everything that `kvwal jobs --json` prints about jobs, stages, executions, executors and the application."""
    assert different_from_spark(records, run.id, run.answers) == []
    told = {key: rec.from_value(value) for key, value in records.items()}
    assert value_differences(told, [run.executor], rest.EXECUTOR, lambda row: executor_key(run.id, row["id"])) == []
    assert value_differences(told, [run.attempt], rest.APPLICATION, lambda row: f"{run.id}/app") == []
    app, stages = records[f"{run.id}/app"], list(run.stages.values())
    assert (app["jobs"], app["stages"], app["sql"]) == (len(run.jobs), len(stages), len(run.sql))
    assert (app["ended"], app["duration_ms"], app["tasks"]) == (run.ended, run.lasted, sum(map(tasks_ended, stages)))
    assert {name: app[name] for name in SUMS} == {name: summed(stages, theirs) for name, theirs in SUMS.items()}


SUMS = {
    "failed": "numFailedTasks", "killed": "numKilledTasks", "run_ms": "executorRunTime", "gc_ms": "jvmGcTime",
    "input_bytes": "inputBytes", "input_rows": "inputRecords", "output_bytes": "outputBytes", "output_rows": "outputRecords",
    "shuffle_read_bytes": "shuffleReadBytes", "shuffle_read_rows": "shuffleReadRecords",
    "shuffle_wait_ms": "shuffleFetchWaitTime",
    "shuffle_write_bytes": "shuffleWriteBytes", "shuffle_write_rows": "shuffleWriteRecords",
    "spill_memory_bytes": "memoryBytesSpilled", "spill_disk_bytes": "diskBytesSpilled",
}  # fmt: skip
"""The sums of an application, each with the field of its stages in the REST API."""


def compare_tasks(root: Path, run: Run) -> None:
    """Every task of every stage, as `kvwal jobs --tasks` prints it."""
    for (number, attempt), tasks in run.tasks.items():
        ran = kvwal("jobs", root, run.id, "--tasks", f"{number}.{attempt}", "--format", "json")
        assert ran.code == 0, ran.err
        printed = [json.loads(line) for line in ran.out.splitlines()]
        expected = [as_printed(task) for task in tasks]
        assert [{name: task[name] for name in expected[0]} for task in printed] == expected


def as_printed(task: Row) -> dict[str, Any]:
    """A task of the REST API in the words of the command."""
    metrics = task["taskMetrics"]
    read, written = metrics["shuffleReadMetrics"], metrics["shuffleWriteMetrics"]
    return {
        "task": task["taskId"], "index": task["index"], "attempt": task["attempt"], "partition": task["partitionId"],
        "executor": task["executorId"], "host": task["host"], "speculative": task["speculative"],
        "status": "SUCCEEDED" if task["status"] == "SUCCESS" else task["status"],
        "launched": moment(task["launchTime"]), "duration_ms": task["duration"], "run_ms": metrics["executorRunTime"],
        "cpu_ms": pytest.approx(metrics["executorCpuTime"] / 1e6, abs=0.001), "gc_ms": metrics["jvmGcTime"],
        "input_bytes": metrics["inputMetrics"]["bytesRead"], "input_rows": metrics["inputMetrics"]["recordsRead"],
        "output_bytes": metrics["outputMetrics"]["bytesWritten"], "output_rows": metrics["outputMetrics"]["recordsWritten"],
        "shuffle_read_bytes": read["localBytesRead"] + read["remoteBytesRead"], "shuffle_read_rows": read["recordsRead"],
        "shuffle_wait_ms": read["fetchWaitTime"], "shuffle_write_bytes": written["bytesWritten"],
        "shuffle_write_rows": written["recordsWritten"], "spill_memory_bytes": metrics["memoryBytesSpilled"],
        "spill_disk_bytes": metrics["diskBytesSpilled"], "peak_memory_bytes": metrics["peakExecutionMemory"],
    }  # fmt: skip


def compare_runs(root: Path, runs: list[Run]) -> None:
    """The runs of the name, as `kvwal jobs --runs` prints them."""
    ran = kvwal("jobs", root, "--runs", runs[0].name, "--json")
    assert ran.code == 0, ran.err
    assert [json.loads(line) for line in ran.out.splitlines()] == [
        {"prefix": run.id, "what": "application", "started": run.started, "duration_ms": run.lasted, "status": "SUCCEEDED",
         "rows": summed(run.stages.values(), "inputRecords"), "bytes": summed(run.stages.values(), "inputBytes")}
        for run in runs
    ]  # fmt: skip
