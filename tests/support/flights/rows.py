"""The rows that lists of jobs, stages and executions must have, from Spark's answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.support.console.expected import Cells
from tests.support.console.said import Moment, Number, about, count, ms, size
from tests.support.flights import accesses
from tests.support.flights.answers import (
    Row,
    Run,
    description_of,
    lasted,
    start_of,
    status_of,
    summed,
    tasks_ended,
)

_FEW = 3


def application_row(run: Run) -> Cells:
    """The row of an application."""
    stages = run.stages.values()
    return {
        "status": "SUCCEEDED", "application": run.name, "ID": run.id, "user": run.attempt["sparkUser"],
        "started": Moment(run.started), "duration": ms(run.lasted), "jobs": count(len(run.jobs)),
        "failed jobs": some(len(failed(run.jobs.values()))), "read": size(summed(stages, "inputBytes")),
        "written": size(summed(stages, "outputBytes")),
    }  # fmt: skip


def failed(rows: Iterable[Row]) -> list[Row]:
    """The jobs, stages or executions that failed."""
    return [row for row in rows if status_of(row) == "FAILED"]


def some(number: int) -> Number | None:
    """A number that is not shown if it is 0."""
    return count(number) if number else None


def job_row(run: Run, job: Row) -> Cells:
    """The row of a job."""
    stages = run.stages_of(job["jobId"])
    return {
        "job": str(job["jobId"]), "status": status_of(job), "description": description_of(job), "started": Moment(start_of(job)),
        "duration": ms(lasted(job)), "stages ran": f"{len(stages)}/{len(job['stageIds'])}", "tasks": count(tasks_ended(job)),
        "failed tasks": some(job["numFailedTasks"]), "task time": ms(summed(stages, "executorRunTime")),
        "read": size(summed(stages, "inputBytes")), "written": size(summed(stages, "outputBytes")),
    }  # fmt: skip


def stage_row(run: Run, stage: Row, *, titled: bool = True) -> Cells:
    """The row of an attempt of a stage; `titled` if its name stands above what a person wrote about its job."""
    job = run.job_of(stage)
    durations = durations_of(stage)
    title = job.get("description", "").partition("\n")[0]
    return {
        "stage": number_of(stage), "status": status_of(stage), "name": stage["name"],
        "name more": title if titled and title != stage["name"] else None,
        "job": str(job["jobId"]), "duration": ms(lasted(stage)), "task time": ms(stage["executorRunTime"]),
        "tasks": count(tasks_ended(stage)), "median": durations[2] if durations else None,
        "slowest": durations[-1] if durations else None, "skew": skew_of(durations),
        "read": size(summed([stage], "inputBytes", "shuffleReadBytes")),
        "written": size(summed([stage], "outputBytes", "shuffleWriteBytes")), "spilled": size(stage["diskBytesSpilled"]),
    }  # fmt: skip


def number_of(stage: Row) -> str:
    """The number of a stage, with the attempt if it is not the first one."""
    return f"{stage['stageId']}.{stage['attemptId']}" if stage["attemptId"] else str(stage["stageId"])


def durations_of(stage: Row) -> list[Number]:
    """The durations of the least, the quartiles, 95 % and all of the successful tasks: those between are known to 1 %.

    Spark takes the durations of the tasks that failed or were killed, too; so nothing is said of a stage that has such, unless
    none of its tasks succeeded: then there are none.
    """
    if not stage["numCompleteTasks"]:
        return []
    assert not stage["numFailedTasks"] + stage["numKilledTasks"], "Spark's quantiles are of other tasks"
    least, *between, most = stage["taskMetricsDistributions"]["duration"]
    return [ms(least), *(about(ms(each), 0.01, 1) for each in between), ms(most)]


def skew_of(durations: Sequence[Number]) -> Number | None:
    """The slowest task over the median."""
    if not durations:
        return None
    most, median = durations[-1].low, durations[2]
    return Number("times", most / median.high - 0.05, most / median.low + 0.05)


def execution_row(run: Run, sql: Row) -> Cells:
    """The row of an SQL execution."""
    touched = accesses.of(sql)
    return {
        "execution": str(sql["id"]), "status": status_of(sql), "description": description_of(sql),
        "description more": f"part of execution {sql['rootExecutionId']}" if sql["rootExecutionId"] != sql["id"] else None,
        "started": Moment(start_of(sql)), "duration": ms(sql["duration"]),
        "jobs": few([str(each) for each in run.jobs_of(sql)]),
        "reads": few([last_part(each.shown) for each in touched if not each.writes]),
        "writes": few([last_part(each.shown) for each in touched if each.writes]),
    }  # fmt: skip


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")


def last_part(name: str) -> str:
    """The last part of a path, cut after 60 letters. Of a list of files the first is named."""
    last = name.removesuffix(", ...").rpartition("/")[2]
    return last if len(last) <= 60 else f"{last[:59]}…"


def slowest_stages(run: Run) -> list[Row]:
    """The ten stages with most task time, those that failed first."""
    ordered = sorted(run.stages.values(), key=lambda row: -row["executorRunTime"])[:10]
    return sorted(ordered, key=lambda row: status_of(row) != "FAILED")
