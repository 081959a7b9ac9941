"""What must stand on the pages of an SQL execution and of a job: figures, the plan with its metrics, data, jobs and stages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.console.expected import Expected
from tests.support.console.page import Place, Shown
from tests.support.console.said import Moment, Number, Worded, amount, count, ms, phrase, range_of, size, total
from tests.support.flights import accesses, rows
from tests.support.flights.answers import Row, Run, description_of, end_of, lasted, start_of, summed, tasks_ended
from tests.support.flights.of_application import failed_task, failure, failures, framed, setting_rows

_MOST_PLAN = 20_000
_PICTURE = "picture Plan of execution "
_SPARKS_UNITS = {"ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
_RECORDED_UNITS = {"timing": 1.0, "nsTiming": 1e6}
_SHARE_OF_SLOW = 0.05
_NO_VALUE = ("0", "0 ms", "0.0 B", "")
"""What Spark's UI shows for a metric that nothing has counted, while the application is alive."""
_SHORT = {"number of output rows": "rows", "size of files read": "read", "shuffle bytes written": "shuffled"}
"""How a node of the picture names some metrics."""


def page_of(run: Run, root: Path, sql: Row, record: Mapping[str, Any], texts: Mapping[Place, Shown]) -> Expected:
    """The page of an execution.

    `record` is its record, as `kvwal jobs --json` prints it: Spark has no word for the numbers of the plan's nodes, and for
    their order. `texts` are those of the page: the nodes of the picture stand where there is room for them.
    """
    number = sql["id"]
    expected = framed(run, root, f"SQL execution {number}", "--json")
    root_id = sql["rootExecutionId"]
    expected.put("beside the title", None, description_of(sql))
    if root_id != number:
        expected.put("beside the title", f"part of execution {root_id}")
    if sql["status"] == "FAILED":
        failures(expected, run)
    _figures(expected, run, sql)
    if record["nodes"]:
        measured = list(metrics_of(sql, record))
        _picture(expected, sql, record, measured, texts)
        expected.put("pre", sql["planDescription"][:_MOST_PLAN].strip())
        expected.table("Metrics", [{"node": each.node, "metric": each.name, "value": each.said} for each in measured])
        expected.table("Settings that the session had changed", setting_rows(sql["modifiedConfigs"]))
    expected.table("Read and written", [each.cells for each in accesses.of(sql)])
    columns = ("job", "status", "description", "duration", "tasks", "task time", "read")
    expected.table("Jobs", [
        {name: rows.job_row(run, run.jobs[job])[name] for name in columns} for job in run.jobs_of(sql)
    ])  # fmt: skip
    return expected


def _figures(expected: Expected, run: Run, sql: Row) -> None:
    jobs = run.jobs_of(sql)
    expected.figure("started", Moment(start_of(sql)))
    expected.figure("duration", ms(sql["duration"]))
    expected.figure("jobs", count(len(jobs)))
    expected.figure("task time", ms(sum(summed(run.stages_of(job), "executorRunTime") for job in jobs)))
    for name, writes in (("read", False), ("written", True)):
        touched = [each for each in accesses.of(sql) if each.writes == writes]
        counted = [int(each.rows.low) for each in touched if each.rows is not None]
        sizes = [each.bytes for each in touched if each.bytes is not None]
        expected.figure(name, total([size(0), *sizes]), amount(sum(counted), "row") if counted else None)


class Measured(NamedTuple):
    """A metric of a node of the plan, as Spark's UI has it; `took` is the time that is recorded, in milliseconds."""

    node: str
    name: str
    said: Number
    is_drawn: bool
    took: float


def metrics_of(sql: Row, record: Mapping[str, Any]) -> Iterator[Measured]:
    """The metrics that have a value, in the order of the record: each with the value of Spark's own node.

    Nodes of a name come in the same order in both. Averages are not recorded; and no metric of Spark's with a value is missing.
    """
    theirs: dict[str, list[dict[str, list[str]]]] = {}
    for node in sorted(sql["nodes"], key=lambda node: node["nodeId"]):
        by_name: dict[str, list[str]] = {}
        for each in node["metrics"]:
            by_name.setdefault(each["name"], []).append(each["value"])
        theirs.setdefault(node["nodeName"].strip(), []).append(by_name)
    ours: dict[str, dict[str, list[Any]]] = {node: {} for node in record["nodes"]}
    for metric in record["metrics"]:
        if metric["value"] is not None and metric["node"]:
            ours[metric["node"]].setdefault(metric["name"], []).append(metric)
    for node, metrics in ours.items():
        name = node.partition(" ")[2]
        told = theirs[name].pop(0) if theirs.get(name) else {}
        for metric_name, values in told.items():
            counted = [value for value in values if value not in _NO_VALUE]
            shown = metrics.get(metric_name, [])
            assert metric_name.startswith("avg ") or len(counted) <= len(shown), (
                f"{node} {metric_name}: {values}, recorded: {shown}"
            )
        for metric_name, shown in metrics.items():
            values = sorted(told[metric_name], key=lambda value: value in _NO_VALUE)[: len(shown)]
            for metric, value in zip(shown, values, strict=True):
                took = metric["value"] / _RECORDED_UNITS.get(metric["type"], float("inf"))
                yield Measured(node, metric_name, _number(value), metric["value"] > 0, took)
    assert not any(any(each.values()) for left in theirs.values() for each in left), f"not recorded: {theirs}"


def _number(text: str) -> Number:
    """A metric as Spark's UI writes it: of several values the total, which stands in the second line."""
    value = text.rpartition("\n")[2].partition(" (")[0]
    if re.fullmatch(r"-?[\d,]+", value):
        return count(int(value.replace(",", "")))
    number, unit = value.split(" ")
    if unit in _SPARKS_UNITS:
        size_of_unit = _SPARKS_UNITS[unit]
        half = 0.0 if unit == "ms" else size_of_unit * 10.0 ** -len(number.partition(".")[2]) / 2
        return Number("ms", float(number) * size_of_unit - half, float(number) * size_of_unit + half)
    found = range_of(value, "bytes")
    assert found is not None, text
    return Number("bytes", found.low, found.high)


def _picture(
    expected: Expected, sql: Row, record: Mapping[str, Any], measured: Sequence[Measured], texts: Mapping[Place, Shown]
) -> None:
    """The picture of the plan. What a node says in its box, it says in full where one points at it."""
    expected.put(f"{_PICTURE} aria-label", phrase("Plan of execution ", sql["id"]))
    shown = [(place, each.text) for place, each in texts.items() if place.part == _PICTURE]
    numbers: dict[str, str] = {}
    node = ""
    for place, text in shown:
        first = text.partition("\n")[0]
        if first in record["nodes"]:
            node = first
            own = [each for each in measured if each.node == node and each.is_drawn]
            parts = [part for each in own for part in (f"\n{each.name}: ", each.said)]
            expected.put(_PICTURE, phrase(node, *parts), at=place.row)
            numbers = {_SHORT.get(name, name.removeprefix("number of ")): value
                       for name, _, value in (line.rpartition(": ") for line in text.splitlines()[1:])}  # fmt: skip
        elif (name := text.partition(": ")[0]) in numbers:
            expected.put(_PICTURE, Worded(f"{name}: {numbers[name]}"), at=place.row)
        elif any(letter.isdigit() for letter in text):
            expected.put(_PICTURE, Worded(node.partition(" ")[2]), at=place.row)
    drawn = {each.text.partition("\n")[0] for place, each in texts.items() if place.part == _PICTURE}
    assert {each.node for each in measured if each.is_drawn} <= drawn
    slowest = max(measured, key=lambda each: each.took, default=None)
    if slowest is not None and slowest.took >= max(1.0, _SHARE_OF_SLOW * sql["duration"]):
        expected.put("head", None, slowest.node.partition(" ")[2])


def job_page(run: Run, root: Path, job: Row) -> Expected:
    """The page of a job."""
    number, stages = job["jobId"], run.stages_of(job["jobId"])
    expected = framed(run, root, f"Job {number}", "--json")
    expected.put("beside the title", None, description_of(job))
    if job["status"] == "FAILED":
        task = failed_task(run, job)
        (stage,) = rows.failed(stages)
        failure(expected, f"job {number}", end_of(job), stage["failureReason"], task)
    expected.figure("started", Moment(start_of(job)))
    expected.figure("duration", ms(lasted(job)))
    skipped = len(job["stageIds"]) - len(stages)
    assert skipped == job["numSkippedStages"]
    expected.figure(
        "stages", phrase(len(stages), " of ", len(job["stageIds"])), phrase(skipped, " skipped") if skipped else None
    )
    failed = job["numFailedTasks"]
    expected.figure("tasks", count(tasks_ended(job)), phrase(failed, " failed") if failed else None)
    expected.figure(
        "task time", ms(summed(stages, "executorRunTime")), phrase(ms(summed(stages, "jvmGcTime")), " in GC")
    )
    for name, how_many, of in (
        ("read", "inputBytes", "inputRecords"), ("written", "outputBytes", "outputRecords"),
        ("shuffled", "shuffleWriteBytes", "shuffleWriteRecords"),
    ):  # fmt: skip
        expected.figure(name, size(summed(stages, how_many)), amount(summed(stages, of), "row"))
    _facts(expected, run, job)
    expected.table("Stages that ran", [rows.stage_row(run, row, titled=False) for row in stages])
    return expected


def _facts(expected: Expected, run: Run, job: Row) -> None:
    expected.put("fact Spark's name", job["name"])
    if job["jobTags"]:
        expected.put("fact tags", ", ".join(job["jobTags"]))
    if "jobGroup" in job:
        expected.put("fact group", job["jobGroup"])
    for sql in run.executions(job["jobId"]):
        expected.put("fact SQL execution", str(sql["id"]))
        batch = re.search(r"\nid = (.*)\nrunId = .*\nbatch = (\d+)$", sql["description"])
        if batch is not None:
            expected.put("fact streaming query", f"{batch[1]}, batch {batch[2]}")
    if job["killedTasksSummary"]:
        ((reason, number),) = job["killedTasksSummary"].items()
        expected.put("fact killed tasks", Worded(f"{number} × {reason}"))
