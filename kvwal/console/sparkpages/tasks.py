"""The tasks of a stage from the kept event log of its application: the slowest, and those of each host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from statistics import median_high
from typing import NamedTuple

from kvwal.console.pages import texts
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.errors import ConfigError
from kvwal.location.readers import LocationReader
from kvwal.spark.eventlog.logs import settings_of
from kvwal.spark.kept.contents import KEPT_LOGS, kept_logs
from kvwal.spark.kept.frames import DamagedKeptLog
from kvwal.spark.kept.reader import KeptLog
from kvwal.spark.kept.replay import kept_event_log
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.kept.tasks import Task, tasks_of
from kvwal.spark.records.texts import gist
from kvwal.spark.redaction import Redaction, applied
from kvwal.store.contents.stored import StoredContents

MOST_TASKS = 5_000
"""Tasks of a stage that a page reads."""
SLOWEST = 25
"""Tasks that a page shows."""
_TASK_COLUMNS = (
    Column("task", "task", "plain"),
    Column("index", "index", "plain", wide=True),
    Column("attempt", "attempt", "some", wide=True),
    Column("status", "status", "status"),
    Column("host", "host", "clip"),
    Column("executor", "executor", "clip", wide=True),
    Column("launched", "launched", "moment", wide=True),
    Column("duration_ms", "duration", "duration"),
    Column("gc_ms", "GC", "duration", wide=True),
    Column("input_bytes", "read", "size", wide=True),
    Column("shuffle_read_bytes", "shuffled in", "size", wide=True),
    Column("shuffle_write_bytes", "shuffled out", "size", wide=True),
    Column("spill_disk_bytes", "spilled", "size", wide=True),
    Column("message", "error", "text", wide=True),
)
_HOST_COLUMNS = (
    Column("host", "host", "clip"),
    Column("executors", "executors", "count", wide=True),
    Column("tasks", "tasks", "count"),
    Column("failed", "failed", "some"),
    Column("median_ms", "median", "duration"),
    Column("max_ms", "slowest", "duration"),
    Column("run_ms", "task time", "duration", wide=True),
    Column("read", "read", "size", wide=True),
)


class KeptTasks(NamedTuple):
    """The tasks of a stage attempt, or why there are none. `is_part`: the stage has more than those that were read."""

    tasks: list[Task]
    missing: str = ""
    is_part: bool = False


def kept_tasks(reader: LocationReader, prefix: str, stage: int, attempt: int) -> KeptTasks:
    """The tasks of a stage attempt from the kept log of its application."""
    if KEPT_LOGS not in reader.businesses():
        return KeptTasks(
            [], "No event log is kept here, so single tasks are not known. kvwal record … --keep-logs keeps them."
        )
    try:
        contents = StoredContents(reader.read_business(KEPT_LOGS), KEPT_LOGS)
        name = next(kept_logs(contents, prefix), None)
        if name is None:
            return KeptTasks(
                [], "The event log of this application is not kept, so single tasks are not known. "
                "kvwal record … --keep-logs keeps it.",
            )  # fmt: skip
        log, of = kept_event_log(contents, name), StageAttempt(stage, attempt)
        with contents.open(str(name)) as file, applied(Redaction(settings_of(log))):
            lines = list(islice(KeptLog(file, log.length).lines(of), 2 * MOST_TASKS + 1))
            return KeptTasks(tasks_of(lines[: 2 * MOST_TASKS], of), "", len(lines) > 2 * MOST_TASKS)
    except DamagedKeptLog as error:
        return KeptTasks([], f"The kept event log cannot be read: {error}. kvwal content verify tells what is damaged.")
    except ConfigError as error:  # a cluster keeps no event logs
        return KeptTasks([], error.what)


def slowest_tasks(kept: KeptTasks) -> Table:
    """The slowest tasks, failed ones first."""
    order = sorted(kept.tasks, key=lambda task: (task.status != "FAILED", -task.duration_ms))
    note = f"of the first {texts.count(len(kept.tasks))} that were read" if kept.is_part else ""
    return Table(
        "tasks", "Failed and slowest tasks", _TASK_COLUMNS, [_task_row(task) for task in order[:SLOWEST]],
        kept.missing or "The kept event log has no task of this stage.", None, lambda: map(_task_row, kept.tasks), note,
    )  # fmt: skip


def _task_row(task: Task) -> Row:
    values = {name: getattr(task, name) for name in Task.__struct_fields__}
    values |= {"message": gist(task.message), "duration_ms": task.duration_ms if task.ended else None}
    return Row(values, mark="bad" if task.status == "FAILED" else "warn" if task.speculative else "")


def hosts_of(tasks: Sequence[Task]) -> Table:
    """The tasks of each host, the slowest host first."""
    by_host: dict[str, list[Task]] = {}
    for task in tasks:
        by_host.setdefault(task.host, []).append(task)
    rows = []
    for host, own in by_host.items():
        times = [task.duration_ms for task in own if task.status == "SUCCEEDED"]
        rows.append(Row({
            "host": host, "executors": len({task.executor for task in own}), "tasks": len(own),
            "failed": sum(task.status == "FAILED" for task in own), "median_ms": median_high(times) if times else None,
            "max_ms": max(times, default=None), "run_ms": sum(task.run_ms for task in own),
            "read": sum(task.input_bytes + task.shuffle_read_bytes for task in own),
        }))  # fmt: skip
    rows.sort(key=lambda row: (-row.values["failed"], -(row.values["median_ms"] or 0)))
    return Table("hosts", "Hosts", _HOST_COLUMNS, rows)
