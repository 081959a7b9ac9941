"""What must stand on the pages of an application: its summary, its lists, its failures, its executors and its settings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.console.expected import Cells, Expected
from tests.support.console.page import Place, Shown
from tests.support.console.said import Moment, Number, Stack, amount, count, escaped, ms, phrase, size
from tests.support.flights import accesses, rows
from tests.support.flights.answers import Row, Run, description_of, lasted, start_of, summed, tasks_ended
from tests.support.rest_fields import moment

_SKEWED = 3.0
_TICKS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
"""Seconds between the ticks of a timeline, which has seven at most."""


def framed(run: Run, root: Path, title: str, *command: str) -> Expected:
    """What stands on each page of an application. `command` are the words after its id."""
    expected = Expected()
    expected.put("location", str(root))
    expected.put("location title", f"The location that this console shows: {root}")
    for number, (name, every) in enumerate((("Jobs", run.jobs), ("Stages", run.stages), ("SQL", run.sql))):
        expected.put("nav", phrase(f"{name} ", len(every)), at=6 + number)
    if title:
        expected.put("title", f"{title} · {run.name} · kvwal")
        expected.put("crumbs", f"/ {title}", at=3)
        expected.put("h1", title)
    else:
        expected.put("crumbs", run.id, at=2)
    expected.put("footer", f"kvwal jobs {root} {shlex.join([run.id, *command])}", at=1)
    return expected


def failed_of(rows_of: Iterable[Row]) -> Any:
    """The second line of a figure: how many failed."""
    number = len(rows.failed(list(rows_of)))
    return phrase(number, " failed") if number else None


def summary(run: Run, root: Path, texts: Mapping[Place, Shown]) -> Expected:
    """The page of an application, of which there are two runs. `texts` are those of the page."""
    expected = framed(run, root, "")
    expected.put("beside the title", phrase(2, " runs of this name"), at=1)
    failures(expected, run)
    figures(expected, run)
    timeline(expected, run)
    time_parts(expected, run, list(run.stages.values()), "Where the time of all tasks went")
    expected.table("Stages with most task time", [rows.stage_row(run, row) for row in rows.slowest_stages(run)])
    _skewed(expected, run, texts)
    touched: dict[tuple[bool, str, str], Cells] = {}
    for sql in run.sql.values():
        for each in accesses.of(sql):
            touched.setdefault((each.writes, each.what, each.where), {**each.cells, "execution": str(sql["id"])})
    expected.table("Read and written", touched.values())
    return expected


def _skewed(expected: Expected, run: Run, texts: Mapping[Place, Shown]) -> None:
    """How many stages are skewed, if there are such: their slowest tasks took thrice as long as their medians, known to 1 %."""
    skews = [skew for row in run.stages.values() if (skew := rows.skew_of(rows.durations_of(row))) is not None]
    surely, perhaps = sum(skew.low > _SKEWED for skew in skews), sum(skew.high >= _SKEWED for skew in skews)
    places = [place for place, shown in texts.items() if place.part == "head" and shown.text.endswith(" skewed")]
    assert places or not surely
    for place in places:
        several = "" if texts[place].text.startswith("1 ") else "s"
        expected.put("head", phrase(Number("count", max(1, surely), perhaps), f" stage{several} skewed"), at=place.row)


def figures(expected: Expected, run: Run) -> None:
    """The figures of an application."""
    stages = list(run.stages.values())
    cores = run.executor["totalCores"]
    core_hours = cores * (run.ended - added(run)) / 3.6e6
    expected.figure("started", Moment(run.started))
    expected.figure("duration", ms(run.lasted))
    expected.figure("jobs", count(len(run.jobs)), failed_of(run.jobs.values()))
    expected.figure("stages", count(len(stages)), failed_of(stages))
    failed = summed(stages, "numFailedTasks")
    expected.figure("tasks", count(sum(map(tasks_ended, stages))), phrase(failed, " failed"))
    expected.figure("SQL executions", count(len(run.sql)), failed_of(run.sql.values()))
    for name, how_many, of in (
        ("read", "inputBytes", "inputRecords"), ("written", "outputBytes", "outputRecords"),
        ("shuffled", "shuffleWriteBytes", "shuffleWriteRecords"),
    ):  # fmt: skip
        expected.figure(name, size(summed(stages, how_many)), amount(summed(stages, of), "row"))
    assert summed(stages, "diskBytesSpilled") == 0
    expected.figure(
        "task time",
        ms(summed(stages, "executorRunTime")),
        phrase(Number("count", core_hours, core_hours), " core-hours"),
    )


def added(run: Run) -> int:
    """When the executor was added."""
    return moment(run.executor["addTime"])


def failures(expected: Expected, run: Run) -> None:
    """What failed, on each page that has it: one execution, with its message and its stack."""
    (sql,) = rows.failed(list(run.sql.values()))
    (job,) = (run.jobs[number] for number in run.jobs_of(sql))
    at = start_of(sql) + sql["duration"]
    failure(expected, f"sql {sql['id']}", at, sql["errorMessage"], failed_task(run, job))


def failure(expected: Expected, what: str, at: int, message: str, task: Row) -> None:
    """A failure: what failed when, Spark's message, and the stack of the task that made it fail."""
    expected.put("failure", what)
    expected.put("failure", Moment(at), at=2)
    expected.put("pre", message, Stack(frames_of(task)))


def failed_task(run: Run, job: Row) -> Row:
    """The task that made a job fail: the first that did."""
    return next(task for task in run.tasks_of(run.stages_of(job["jobId"])) if task["status"] == "FAILED")


def frames_of(task: Row) -> tuple[str, ...]:
    """The frames of the stack of a failed task, without the names of Java's modules, which the driver does not know."""
    lines = [line.strip() for line in task["errorMessage"].splitlines()]
    return tuple(line.replace("at java.base/", "at ") for line in lines if line.startswith("at "))


def time_parts(expected: Expected, run: Run, stages: Sequence[Row], title: str) -> None:
    """Where the time of tasks went: the bar, and its legend with the share of each part."""
    ran = summed(stages, "executorRunTime")
    cpu = min(summed(stages, "executorCpuTime") / 1e6, ran)
    gc, waiting = summed(stages, "jvmGcTime"), min(summed(stages, "shuffleFetchWaitTime"), ran)
    parts = {
        "CPU": cpu, "garbage collection": gc, "waiting for shuffled data": waiting,
        "reading, writing, Python": max(0.0, ran - cpu - gc - waiting),
        "scheduler delay": summed(run.tasks_of(stages), "schedulerDelay"),
    }  # fmt: skip
    shown = {name: value for name, value in parts.items() if value >= 0.5}
    total = sum(shown.values())
    for name, value in shown.items():
        # The CPU is counted in nanoseconds, and shown in milliseconds: so the rest is known to one, too.
        known = Number("ms", value - 0.5, value + 0.5)
        share = Number("percent", (value - 0.5) / (total + 1), (value + 0.5) / max(1.0, total - 1))
        expected.put(f"picture {title}", phrase(f"{name}: ", known))
        expected.put("li", None, known, phrase("(", share, ")"))


def timeline(expected: Expected, run: Run) -> None:
    """Executors, jobs and stages as bars, each with what it was and how long it took."""
    part = "picture When jobs ran"
    expected.put(f"{part} aria-label", phrase("When ", len(run.jobs), " jobs ran"))
    expected.put(part, None, f"driver · {run.executor['hostPort'].rpartition(':')[0]}")
    for kind, bars in (
        ("job", [(start_of(row), row["jobId"], lasted(row), description_of(row)) for row in run.jobs.values()]),
        ("stage", [(start_of(row), row["stageId"], lasted(row), row["name"]) for row in run.stages.values()]),
    ):
        expected.put(part, None)
        for _, number, took, title in sorted(bars, key=lambda bar: bar[0]):
            told = phrase(f"{kind} {number}, ", ms(took), f": {title}")
            expected.put(part, told)
            expected.put(f"{part} aria-label", told)
    step = next(each for each in _TICKS if run.lasted / 1000 / each <= 7)
    expected.put(part, "0", *(phrase("+", ms(1000 * at)) for at in range(step, run.lasted // 1000 + 1, step)))


def listed(run: Run, root: Path, name: str) -> Expected:
    """The page of all jobs, stages or executions."""
    title = {"jobs": "Jobs", "stages": "Stages", "sql": "SQL executions"}[name]
    expected = framed(run, root, title, "--limit", "0")
    every = {"jobs": run.jobs, "stages": run.stages, "sql": run.sql}[name]
    make = {"jobs": rows.job_row, "stages": rows.stage_row, "sql": rows.execution_row}[name]
    expected.put("chips", count(len(rows.failed(list(every.values())))))
    expected.put("head", phrase(len(every), " of ", len(every)), at=0)
    expected.table(title, [make(run, row) for row in every.values()])
    return expected


def failures_page(run: Run, root: Path) -> Expected:
    """The page of all failures: one execution."""
    expected = framed(run, root, "Failures", "--failed")
    failures(expected, run)
    (sql,) = rows.failed(list(run.sql.values()))
    expected.table("All failures", [{
        "what": f"sql {sql['id']}", "failed at": Moment(start_of(sql) + sql["duration"]), "description": description_of(sql),
        "error": sql["errorMessage"].splitlines()[-2],
    }])  # fmt: skip
    return expected


def executors(run: Run, root: Path) -> Expected:
    """The page of the executors: the driver alone. Spark's own sums of its times are others: they count more than the tasks."""
    expected = framed(run, root, "Executors", "--json")
    stages, driver = list(run.stages.values()), run.executor
    (profile,) = run.environment["resourceProfiles"]
    expected.table("Executors", [{
        "executor": driver["id"], "host": driver["hostPort"].rpartition(":")[0], "cores": count(driver["totalCores"]),
        "memory": size(profile["executorResources"]["memory"]["amount"] << 20), "added": Moment(added(run)),
        "tasks": count(driver["totalTasks"]), "failed": count(driver["failedTasks"]),
        "task time": ms(summed(stages, "executorRunTime")), "GC": ms(summed(stages, "jvmGcTime")),
        "read": size(driver["totalInputBytes"]), "shuffled in": size(driver["totalShuffleRead"]),
        "shuffled out": size(driver["totalShuffleWrite"]), "spilled": size(summed(stages, "diskBytesSpilled")),
    }])  # fmt: skip
    return expected


_PARTS = {"Spark": "sparkProperties", "Metrics": "metricsProperties", "System properties": "systemProperties"}


def settings(run: Run, root: Path) -> Expected:
    """The page of the settings."""
    expected = framed(run, root, "Settings", "--json")
    for title, name in _PARTS.items():
        expected.table(title, setting_rows(dict(run.environment[name])))
    java = run.environment["runtime"]
    expected.table("JVM", setting_rows({
        "Java Home": java["javaHome"], "Java Version": java["javaVersion"], "Scala Version": java["scalaVersion"],
    }))  # fmt: skip
    return expected


def setting_rows(found: dict[str, str]) -> list[Cells]:
    """The rows of settings, by their names."""
    return [{"setting": name, "value": escaped(value)} for name, value in sorted(found.items())]
