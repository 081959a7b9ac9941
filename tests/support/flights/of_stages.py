"""What must stand on the page of a stage: its figures, its tasks, and how long they took."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import log2
from pathlib import Path
from typing import Any

from tests.support.console.expected import Cells, Expected
from tests.support.console.page import Place, Shown
from tests.support.console.said import Moment, Number, about, amount, count, ms, phrase, range_of, size
from tests.support.flights.answers import Row, Run, lasted, read_by, start_of, succeeded, summed, tasks_ended
from tests.support.flights.of_application import framed, time_parts
from tests.support.flights.rows import durations_of, number_of, skew_of, some
from tests.support.rest_fields import moment

_TIMES = "Where the time of the tasks went"
_DURATIONS = "Successful tasks by their durations"
_BINS = 40
_SAME_TIME_MS = 10
_QUANTILES: dict[str, tuple[Callable[[float], Number], Callable[[Any], Any]]] = {
    "garbage collection": (ms, lambda told: told["jvmGcTime"]),
    "peak memory": (size, lambda told: told["peakExecutionMemory"]),
    "read": (size, lambda told: told["inputMetrics"]["bytesRead"]),
    "written": (size, lambda told: told["outputMetrics"]["bytesWritten"]),
    "shuffle read": (size, lambda told: told["shuffleReadMetrics"]["readBytes"]),
    "shuffle written": (size, lambda told: told["shuffleWriteMetrics"]["writeBytes"]),
    "spilled from memory": (size, lambda told: told["memoryBytesSpilled"]),
    "spilled to disk": (size, lambda told: told["diskBytesSpilled"]),
}
"""The metrics of tasks that have quantiles, each with its place in the REST API."""
_HEADINGS = ("least", "p25", "median", "p75", "p95", "most")
_ENDED = {"SUCCESS": "SUCCEEDED"}


def page_of(run: Run, root: Path, stage: Row, texts: Mapping[Place, Shown]) -> Expected:
    """The page of an attempt of a stage. Of its histogram the axis is looked at in `texts`, those of the page."""
    number = number_of(stage)
    expected = framed(run, root, f"Stage {number}", "--tasks", f"{stage['stageId']}.{stage['attemptId']}")
    tasks = run.tasks_of([stage])
    expected.put("beside the title", None, stage["name"], f"of job {run.job_of(stage)['jobId']}")
    _failures(expected, tasks, texts)
    _figures(expected, stage)
    if succeeded(tasks):
        _slowest(expected, succeeded(tasks), texts)
        for kind in ("picture", "small picture"):
            _histogram(expected, kind, [task["duration"] for task in succeeded(tasks)], texts)
    time_parts(expected, run, [stage], _TIMES)
    expected.table("Quantiles", _quantiles(stage))
    ordered = sorted(tasks, key=lambda task: (task["status"] != "FAILED", -task["duration"]))
    expected.table("Failed and slowest tasks", map(_task_row, ordered), map(_task_row, tasks))
    expected.table("Hosts", [_host_row(tasks)])
    return expected


def _slowest(expected: Expected, tasks: Sequence[Row], texts: Mapping[Place, Shown]) -> None:
    """The slowest task, in the head of a panel: any of those that took as long as it."""
    place = next(place for place, shown in texts.items() if place.part == "head" and shown.text.startswith("slowest: "))
    longest = max(task["duration"] for task in tasks)
    told = [
        phrase(f"slowest: task {task['taskId']} (partition {task['partitionId']}), ", ms(longest), f" on {task['host']}, ",
               size(read_by(task)), " read")
        for task in tasks if task["duration"] == longest
    ]  # fmt: skip
    expected.put("head", next((each for each in told if each.fits(texts[place].text)), told[0]), at=place.row)


def _failures(expected: Expected, tasks: Sequence[Row], texts: Mapping[Place, Shown]) -> None:
    """Tasks that failed: how many, which was the first, and what it said. Of two at the same time either may be the first."""
    failed = sorted((task for task in tasks if task["status"] == "FAILED"), key=_end_of)
    if not failed:
        return
    message = failed[0]["errorMessage"].partition("\n\tat ")[0]
    assert {task["errorMessage"].partition("\n\tat ")[0] for task in failed} == {message}, "the flights have one error"
    first = [task for task in failed if _end_of(task) <= _end_of(failed[0]) + _SAME_TIME_MS]
    told = [phrase(f"failed with this error, first task {task['taskId']} on {task['host']}") for task in first]
    shown = texts[Place("failure", 1)].text
    number = next((number for number, each in enumerate(told) if each.fits(shown)), 0)
    expected.put("failure", amount(len(failed), "task"), told[number])
    expected.put("pre", message, first[number]["errorMessage"].strip())


def _end_of(task: Row) -> int:
    return moment(task["launchTime"]) + int(task["duration"])


def _figures(expected: Expected, stage: Row) -> None:
    durations = durations_of(stage)
    skew = skew_of(durations)
    expected.figure("started", Moment(start_of(stage)))
    expected.figure("duration", ms(lasted(stage)))
    failed = stage["numFailedTasks"]
    assert stage["numTasks"] == tasks_ended(stage)
    expected.figure("tasks", count(tasks_ended(stage)), phrase(failed, " failed") if failed else None)
    expected.figure("task time", ms(stage["executorRunTime"]), phrase(ms(stage["jvmGcTime"]), " in GC"))
    if durations:
        assert skew is not None
        expected.figure("median task", durations[2])
        expected.figure("slowest task", durations[-1], phrase(skew._replace(kind="count"), " × the median"))
    for name, how_many, of in (
        ("read", "inputBytes", "inputRecords"), ("written", "outputBytes", "outputRecords"),
        ("shuffle read", "shuffleReadBytes", "shuffleReadRecords"),
        ("shuffle written", "shuffleWriteBytes", "shuffleWriteRecords"),
    ):  # fmt: skip
        expected.figure(name, size(stage[how_many]), amount(stage[of], "row"))
    expected.figure("spilled", size(stage["diskBytesSpilled"]))


def _quantiles(stage: Row) -> list[Cells]:
    """The quantiles over tasks: the least and the greatest are exact, the others within 4 %, durations within 1 %."""
    durations = durations_of(stage)
    if not durations:
        return []
    found: list[Cells] = [{"over successful tasks": "duration", **dict(zip(_HEADINGS, durations, strict=True))}]
    told = stage["taskMetricsDistributions"]
    for name, (number, place) in _QUANTILES.items():
        least, *between, most = place(told)
        if most:
            shown = [number(least), *(about(number(each), 0.04, 1) for each in between), number(most)]
            found.append({"over successful tasks": name, **dict(zip(_HEADINGS, shown, strict=True))})
    return found


def _task_row(task: Row) -> Cells:
    metrics = task["taskMetrics"]
    shuffled = metrics["shuffleReadMetrics"]
    return {
        "task": str(task["taskId"]), "index": str(task["index"]), "attempt": some(task["attempt"]),
        "status": _ENDED.get(task["status"], task["status"]), "host": task["host"], "executor": task["executorId"],
        "launched": Moment(moment(task["launchTime"])), "duration": ms(task["duration"]), "GC": ms(metrics["jvmGcTime"]),
        "read": size(metrics["inputMetrics"]["bytesRead"]),
        "shuffled in": size(shuffled["localBytesRead"] + shuffled["remoteBytesRead"]),
        "shuffled out": size(metrics["shuffleWriteMetrics"]["bytesWritten"]), "spilled": size(metrics["diskBytesSpilled"]),
        "error": error_of(task),
    }  # fmt: skip


def error_of(task: Row) -> str | None:
    """The line that names the error of a task: the last one of Python's, before Spark's own."""
    lines = task.get("errorMessage", "").partition("\n\tat ")[0].splitlines()
    return next((line for line in reversed(lines) if re.match(r"\w+Error: ", line)), None)


def _host_row(tasks: Sequence[Row]) -> Cells:
    """The row of the only host."""
    (host,) = {task["host"] for task in tasks}
    times = sorted(task["duration"] for task in succeeded(tasks))
    metrics = [task["taskMetrics"] for task in tasks]
    return {
        "host": host, "executors": count(len({task["executorId"] for task in tasks})), "tasks": count(len(tasks)),
        "failed": some(sum(task["status"] == "FAILED" for task in tasks)),
        "median": ms(times[len(times) // 2]) if times else None, "slowest": ms(times[-1]) if times else None,
        "task time": ms(summed(metrics, "executorRunTime")), "read": size(sum(map(read_by, tasks))),
    }  # fmt: skip


def _histogram(expected: Expected, kind: str, durations: Sequence[int], texts: Mapping[Place, Shown]) -> None:
    """The histogram of durations: the tasks of each bar took as long as it says, and no task is missing.

    A duration is known to 1 %, and the edges of bins are rounded: so a bar may have a task that lies that near to its edges.
    """
    part = f"{kind} {_DURATIONS}"
    shown = [each.text for place, each in texts.items() if place.part == part]
    bars = {number: re.fullmatch(r"(\d+) tasks? from (.*) to (.*)", text) for number, text in enumerate(shown)}
    counted = [int(bar[1]) for bar in bars.values() if bar is not None]
    assert sum(counted) == len(durations), f"{counted} of {len(durations)} tasks are in the histogram"
    expected.put(part, count(max(counted)), "0")
    labels = [number for number, bar in bars.items() if bar is None][2:]
    every = -(-_BINS // (4 if kind == "small picture" else 7))
    least, most = min(durations), max(max(durations), min(durations) + 1)
    for number, bar in bars.items():
        if bar is not None:
            low, high = range_of(bar[2], "ms"), range_of(bar[3], "ms")
            assert low is not None
            assert high is not None
            surely = sum(low.high * 1.01 + 1 < each < high.low * 0.99 - 1 for each in durations)
            perhaps = sum(low.low * 0.99 - 1 <= each <= high.high * 1.01 + 1 for each in durations)
            within = Number("count", surely, perhaps)
            expected.put(part, phrase(within, f" task{'s'[: int(bar[1]) != 1]} from {bar[2]} to {bar[3]}"), at=number)
    for at, number in enumerate(labels):
        expected.put(part, about(ms(_edge(least, most, at * every / _BINS)), 0.01, 1), at=number)


def _edge(least: int, most: int, share: float) -> float:
    """Where the bin at a share of all begins: bins are as wide as each other, or grow where the tasks are very different."""
    if most / max(1, least) > 20:
        return float(max(1, least) * 2 ** (share * log2(most / max(1, least))))
    return least + (most - least) * share
