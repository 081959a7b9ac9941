"""What Spark said of a run of the flights: its REST API and its live UI while it was alive, and its event log for the end.

The event log is asked for what neither of the two has: when the application ended, and the progress of its streaming query.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.support.rest_fields import moment

Row = dict[str, Any]
_STARTED = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent"
_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"


class Run:
    """One run of the flights: `folder` is that of the driver (see `driver`), `app` the id of the application."""

    def __init__(self, folder: Path, app: str) -> None:
        self.id = app
        self.work = folder / "work"
        self.answers = folder / app
        self._log = folder / "logs" / app

    def _answer(self, name: str) -> Any:
        return json.loads((self.answers / f"{name}.json").read_text())

    @cached_property
    def name(self) -> str:
        """The name of the application."""
        return str(self._answer("app")["name"])

    @cached_property
    def attempt(self) -> Row:
        """The application itself."""
        (attempt,) = self._answer("app")["attempts"]
        return dict(attempt)

    @cached_property
    def jobs(self) -> dict[int, Row]:
        """The jobs by number."""
        return {row["jobId"]: row for row in sorted(self._answer("jobs"), key=lambda row: row["jobId"])}

    @cached_property
    def stages(self) -> dict[tuple[int, int], Row]:
        """The attempts of stages that ran, by number and attempt."""
        rows = [row for row in self._answer("stages") if row["status"] != "SKIPPED"]
        return dict(sorted(((row["stageId"], row["attemptId"]), row) for row in rows))

    @cached_property
    def tasks(self) -> dict[tuple[int, int], list[Row]]:
        """The tasks of each attempt of a stage, in the order of their ends."""
        found = {}
        for name, rows in self._answer("tasks").items():
            stage, _, attempt = name.partition("/")
            found[int(stage), int(attempt)] = sorted(rows, key=lambda row: row["taskId"])
        return found

    @cached_property
    def sql(self) -> dict[int, Row]:
        """The SQL executions by number."""
        return {row["id"]: row for row in sorted(self._answer("sql"), key=lambda row: row["id"])}

    @cached_property
    def executor(self) -> Row:
        """The only executor: the driver."""
        (row,) = self._answer("executors")
        return dict(row)

    @cached_property
    def environment(self) -> Any:
        """The settings."""
        return self._answer("environment")

    @cached_property
    def events(self) -> list[Row]:
        """The events of the event log."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @cached_property
    def batches(self) -> list[Row]:
        """The progress of the streaming query after each batch."""
        return [event["progress"] for event in self.events if event["Event"] == _PROGRESS]

    @cached_property
    def stream(self) -> dict[str, str]:
        """The row of the streaming query in Spark's live UI, by the headings there."""
        (table,) = re.findall(r"<table.*?</table>", (self.answers / "streams.html").read_text(), re.DOTALL)
        headings, cells = (
            [
                re.sub(r"<[^>]*>|&nbsp;.*", "", each, flags=re.DOTALL).strip()
                for each in re.findall(pattern, table, re.DOTALL)
            ]
            for pattern in (r"<th\b.*?</th>", r"<td\b.*?</td>")
        )
        return dict(zip(headings, cells, strict=True))

    @cached_property
    def stream_started(self) -> int:
        """When the streaming query began: Spark's live UI has it to the second."""
        (event,) = (event for event in self.events if event["Event"] == _STARTED)
        began = spark_moment(event["timestamp"])
        assert f"{datetime.fromtimestamp(began / 1000, UTC):%Y/%m/%d %H:%M:%S}" == self.stream["Start Time"]
        return began

    @property
    def started(self) -> int:
        """When the application began."""
        began: int = self.attempt["startTimeEpoch"]
        return began

    @cached_property
    def ended(self) -> int:
        """When the application ended."""
        (end,) = (event["Timestamp"] for event in self.events if event["Event"] == "SparkListenerApplicationEnd")
        return int(end)

    @property
    def lasted(self) -> int:
        """The duration of the application, in milliseconds."""
        return self.ended - self.started

    def stages_of(self, job: int) -> list[Row]:
        """The stages that ran for a job."""
        return [row for row in self.stages.values() if row["stageId"] in self.jobs[job]["stageIds"]]

    def job_of(self, stage: Row) -> Row:
        """The job that a stage ran for."""
        (job,) = [row for row in self.jobs.values() if stage["stageId"] in row["stageIds"]]
        return job

    def tasks_of(self, stages: Iterable[Row]) -> list[Row]:
        """The tasks of attempts of stages."""
        return [task for row in stages for task in self.tasks[row["stageId"], row["attemptId"]]]

    def jobs_of(self, sql: Row) -> list[int]:
        """The jobs of an SQL execution."""
        return sorted([*sql["successJobIds"], *sql["failedJobIds"]])

    def executions(self, job: int) -> list[Row]:
        """The SQL executions that ran a job."""
        return [row for row in self.sql.values() if job in self.jobs_of(row)]


def start_of(row: Row) -> int:
    """When a job, a stage, or an execution began."""
    return moment(row["submissionTime"])


def end_of(row: Row) -> int:
    """When a job or a stage ended."""
    return moment(row["completionTime"])


def lasted(row: Row) -> int:
    """The duration of a job, or a stage."""
    return end_of(row) - start_of(row)


def tasks_ended(row: Row) -> int:
    """How many tasks of a job, or a stage, ended: those that failed or were killed included."""
    done: int = row.get("numCompleteTasks", row.get("numCompletedTasks", 0))
    return done + int(row["numFailedTasks"]) + int(row["numKilledTasks"])


def summed(rows: Iterable[Row], *names: str) -> int:
    """The sum of fields over rows."""
    return sum(int(row[name]) for row in rows for name in names)


def succeeded(tasks: Iterable[Row]) -> list[Row]:
    """The tasks that succeeded."""
    return [task for task in tasks if task["status"] == "SUCCESS"]


def status_of(row: Row) -> str:
    """The status of a job, a stage or an execution, in kvwal's words."""
    return {"COMPLETE": "SUCCEEDED", "COMPLETED": "SUCCEEDED"}.get(row["status"], str(row["status"]))


def description_of(row: Row) -> str:
    """What a person wrote about a job or an execution, else Spark's name of it. A batch has the name of its query."""
    return str(row.get("description") or row.get("name") or "").partition("\n")[0]


def read_by(task: Row) -> int:
    """The bytes that a task read, shuffled ones included."""
    metrics = task["taskMetrics"]
    shuffled = metrics["shuffleReadMetrics"]
    return int(metrics["inputMetrics"]["bytesRead"] + shuffled["localBytesRead"] + shuffled["remoteBytesRead"])


def spark_moment(text: str) -> int:
    """A time of a streaming query in Unix milliseconds."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
