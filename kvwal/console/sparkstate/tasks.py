"""The tasks of one stage attempt as Spark's REST API shows them, from the lines of their start and their end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from kvwal.console.sparkevents.accumulators import accumulator_rows
from kvwal.console.sparkevents.metrics import flat
from kvwal.console.sparkevents.task_events import TaskEnd, TaskInfo, TaskStart, accumulables_of, error_of
from kvwal.console.sparkstate.rows import TaskRow
from kvwal.spark.events import lenient
from kvwal.spark.kept.task_lines import StageAttempt
from kvwal.spark.redaction import redacted

E = TypeVar("E", TaskStart, TaskEnd)
_start, _end = msgspec.json.Decoder(TaskStart), msgspec.json.Decoder(TaskEnd)


def task_rows(lines: Iterable[bytes], of: StageAttempt, now: int) -> list[TaskRow]:
    """The tasks of a stage attempt, in the order of their numbers. A task that runs has run until `now`.

    Spark shows a task whose start was told, and its first end.
    """
    rows: dict[int, TaskRow] = {}
    running: set[int] = set()
    for line in lines:
        if b"TaskStart" in line[:40]:
            start = _decoded(line, _start, TaskStart)
            if start is not None and (start.stage_id, start.attempt) == of:
                rows[start.task_info.task_id] = _row(start.task_info, None, now)
                running.add(start.task_info.task_id)
        else:
            end = _decoded(line, _end, TaskEnd)
            if end is None or end.task_info is None or (end.stage_id, end.attempt) != of:
                continue
            if end.task_info.task_id in running:
                running.remove(end.task_info.task_id)
                rows[end.task_info.task_id] = _row(end.task_info, end, now)
    return [rows[number] for number in sorted(rows)]


def _decoded(line: bytes, decoder: msgspec.json.Decoder[E], kind: type[E]) -> E | None:
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return lenient.convert(lenient.load(line), kind)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return None


def _row(task: TaskInfo, end: TaskEnd | None, now: int) -> TaskRow:
    error = None if end is None else error_of(end.reason)
    return TaskRow(
        task_id=task.task_id, index=task.index, attempt=task.attempt, partition_id=task.partition_id,
        launched=task.launch_time, result_fetch_start=task.getting_result_time or -1,
        duration=(task.finish_time or now) - task.launch_time, executor_id=task.executor_id, host=task.host,
        status=task.status, task_locality=task.locality, speculative=task.speculative,
        accumulator_updates=accumulator_rows(accumulables_of(task)), error_message=None if error is None else redacted(error),
        metrics=None if end is None else flat(end.task_metrics),
    )  # fmt: skip
