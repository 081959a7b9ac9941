"""The parser of one line of an event log: bytes in, event out.

A log holds one JSON object a line, and task ends make up most of its bytes. So the parser reads the event's name first. It
skips events that no record is made of, and decodes only the declared fields of the others.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.errors import KvwalError
from kvwal.spark.events import lenient
from kvwal.spark.events.application import (
    ApplicationEnd,
    ApplicationStart,
    Attached,
    BlockManagerAdded,
    Detached,
    EnvironmentUpdate,
    ExecutorAdded,
    ExecutorRemoved,
    LogStart,
    ResourceProfileAdded,
)
from kvwal.spark.events.executors import Excluded, ExecutorMetricsUpdate, StageExecutorMetrics, Unexcluded
from kvwal.spark.events.jobs import JobEnd, JobStart, StageCompleted, StageSubmitted, UnpersistRdd
from kvwal.spark.events.sql import SqlDriverMetrics, SqlEnd, SqlMetricsAdded, SqlPlanUpdate, SqlStart
from kvwal.spark.events.streaming import StreamProgress, StreamStarted, StreamTerminated
from kvwal.spark.events.tasks import TaskEnd

PREFIX = b'{"Event":"'
_SQL = "org.apache.spark.sql.execution.ui."
_SCHEDULER = "org.apache.spark.scheduler.SparkListener"
_STREAM = "org.apache.spark.sql.streaming.StreamingQueryListener$"


_EXCLUSIONS = (
    ("Excluded", ""), ("Excluded", "ForStage"), ("Unexcluded", ""),
    ("Blacklisted", ""), ("Blacklisted", "ForStage"), ("Unblacklisted", ""),
)  # fmt: skip
"""Names of events about exclusion. Before version 3.1 Spark had only the second three, and it writes both since."""


class DamagedLine(KvwalError):
    """A line that is not an event: not JSON, or JSON whose fields do not fit the type of its event."""


Event = (
    LogStart | ApplicationStart | ApplicationEnd | Attached | Detached | EnvironmentUpdate
    | ResourceProfileAdded | ExecutorAdded | BlockManagerAdded | ExecutorRemoved
    | Excluded | Unexcluded | ExecutorMetricsUpdate | StageExecutorMetrics
    | JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd | UnpersistRdd
    | SqlStart | SqlPlanUpdate | SqlMetricsAdded | SqlDriverMetrics | SqlEnd
    | StreamStarted | StreamProgress | StreamTerminated
)  # fmt: skip

_TYPES: dict[str, type[Any]] = {
    "SparkListenerLogStart": LogStart,
    "DBCEventLoggingListenerMetadata": LogStart,
    "SparkListenerApplicationStart": ApplicationStart,
    "SparkListenerApplicationEnd": ApplicationEnd,
    "kvwal.Attached": Attached,
    "kvwal.Detached": Detached,
    "SparkListenerEnvironmentUpdate": EnvironmentUpdate,
    "SparkListenerResourceProfileAdded": ResourceProfileAdded,
    "SparkListenerExecutorAdded": ExecutorAdded,
    "SparkListenerBlockManagerAdded": BlockManagerAdded,
    "SparkListenerExecutorRemoved": ExecutorRemoved,
    "SparkListenerExecutorMetricsUpdate": ExecutorMetricsUpdate,
    "SparkListenerStageExecutorMetrics": StageExecutorMetrics,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    "SparkListenerTaskEnd": TaskEnd,
    "SparkListenerUnpersistRDD": UnpersistRdd,
    _SQL + "SparkListenerSQLExecutionStart": SqlStart,
    _SQL + "SparkListenerSQLAdaptiveExecutionUpdate": SqlPlanUpdate,
    _SQL + "SparkListenerSQLAdaptiveSQLMetricUpdates": SqlMetricsAdded,
    _SQL + "SparkListenerDriverAccumUpdates": SqlDriverMetrics,
    _SQL + "SparkListenerSQLExecutionEnd": SqlEnd,
    _STREAM + "QueryStartedEvent": StreamStarted,
    _STREAM + "QueryProgressEvent": StreamProgress,
    _STREAM + "QueryTerminatedEvent": StreamTerminated,
    **{
        f"{_SCHEDULER}{place}{verb}{what}": Unexcluded if verb.startswith("Un") else Excluded
        for place in ("Executor", "Node")
        for verb, what in _EXCLUSIONS
    },
}
_DECODE = {name.encode(): msgspec.json.Decoder(event_type).decode for name, event_type in _TYPES.items()}

# Events that are frequent or large and that no record is made of: they are not parsed.
_SKIPPED = frozenset(
    b"SparkListener" + name
    for name in (
        b"TaskStart", b"TaskGettingResult", b"BlockUpdated", b"BlockManagerRemoved",
        b"SpeculativeTaskSubmitted",
    )
)  # fmt: skip

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def parse_line(line: bytes) -> Event | None:
    """The event of a line; None for an event that no record is made of. Raises `DamagedLine`.

    A value that cannot be read is left out, if the event has a default for it.
    """
    try:
        return _parse(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        try:
            return _parse_leniently(line)
        except (ValueError, RecursionError, msgspec.DecodeError):
            raise DamagedLine(str(error)) from error


def _parse(line: bytes) -> Event | None:
    name = _event_name(line)
    if name in _SKIPPED and line.endswith(b"}"):
        return None
    decode = _DECODE.get(name)
    if decode is not None:
        event: Event = decode(line)
        return event
    if not isinstance(_decode_any(line).get("Event"), str):
        raise DamagedLine("the line is JSON, but not an event")
    return None


def _parse_leniently(line: bytes) -> Event | None:
    value = lenient.load(line)
    name = value.get("Event") if isinstance(value, dict) else None
    if not isinstance(name, str):
        raise DamagedLine("the line is JSON, but not an event")
    event_type = _TYPES.get(name)
    event: Event | None = lenient.convert(value, event_type) if event_type is not None else None
    return event


def _event_name(line: bytes) -> bytes:
    """The name of the event: from the first bytes if the line begins as Spark writes it, else from a full parse."""
    if line.startswith(PREFIX):
        return line[len(PREFIX) : line.find(b'"', len(PREFIX))]
    return str(_decode_any(line).get("Event", "")).encode()
