"""The lines of an event log that tell of tasks, and the stage attempt that each belongs to."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kvwal.spark.events import lenient
from kvwal.spark.events.base import EventStruct, Int, spark_names
from kvwal.spark.events.parser import PREFIX

TASK_EVENTS = ("SparkListenerTaskStart", "SparkListenerTaskEnd")
"""Events with the whole description of a task: its row is made of these two."""
_NAMES = tuple(name.encode() for name in TASK_EVENTS)


class StageAttempt(NamedTuple):
    """A stage of an application, and the attempt at it."""

    stage: int
    attempt: int


class _TaskHead(EventStruct, rename=spark_names(attempt="Stage Attempt ID")):
    stage_id: Int
    attempt: Int = 0
    event: str = ""


_decode = msgspec.json.Decoder(_TaskHead).decode


def stage_of(line: bytes) -> StageAttempt | None:
    """The stage attempt of a task's start or end; None for a line of another event, and for one that cannot be read."""
    if line.startswith(PREFIX):
        name = line[len(PREFIX) : line.find(b'"', len(PREFIX))]
        if name not in _NAMES:
            return None
        head = _head(line)
        return None if head is None else StageAttempt(head.stage_id, head.attempt)
    if b"Stage ID" not in line:
        return None
    head = _head(line)
    return StageAttempt(head.stage_id, head.attempt) if head is not None and head.event in TASK_EVENTS else None


def _head(line: bytes) -> _TaskHead | None:
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            return lenient.convert(lenient.load(line), _TaskHead)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return None
