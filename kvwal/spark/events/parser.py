"""The parser of one line of an event log: bytes in, event out.

A log holds one JSON object a line, and task ends make up most of its bytes. So the parser reads the event's name first. It
skips events that no record is made of, and decodes only the declared fields of the others.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.errors import KvwalError
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
from kvwal.spark.events.jobs import JobEnd, JobStart, StageCompleted, StageSubmitted
from kvwal.spark.events.sql import SqlDriverMetrics, SqlEnd, SqlMetricsAdded, SqlPlanUpdate, SqlStart
from kvwal.spark.events.streaming import StreamProgress, StreamStarted, StreamTerminated
from kvwal.spark.events.tasks import TaskEnd

PREFIX = b'{"Event":"'
_SQL = "org.apache.spark.sql.execution.ui."
_STREAM = "org.apache.spark.sql.streaming.StreamingQueryListener$"


class DamagedLine(KvwalError):
    """A line that is not an event: not JSON, or JSON whose fields do not fit the type of its event."""


Event = (
    LogStart | ApplicationStart | ApplicationEnd | Attached | Detached | EnvironmentUpdate
    | ResourceProfileAdded | ExecutorAdded | BlockManagerAdded | ExecutorRemoved
    | JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd
    | SqlStart | SqlPlanUpdate | SqlMetricsAdded | SqlDriverMetrics | SqlEnd
    | StreamStarted | StreamProgress | StreamTerminated
)  # fmt: skip

_TYPES: dict[str, type[Any]] = {
    "SparkListenerLogStart": LogStart,
    "SparkListenerApplicationStart": ApplicationStart,
    "SparkListenerApplicationEnd": ApplicationEnd,
    "kvwal.Attached": Attached,
    "kvwal.Detached": Detached,
    "SparkListenerEnvironmentUpdate": EnvironmentUpdate,
    "SparkListenerResourceProfileAdded": ResourceProfileAdded,
    "SparkListenerExecutorAdded": ExecutorAdded,
    "SparkListenerBlockManagerAdded": BlockManagerAdded,
    "SparkListenerExecutorRemoved": ExecutorRemoved,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    "SparkListenerTaskEnd": TaskEnd,
    _SQL + "SparkListenerSQLExecutionStart": SqlStart,
    _SQL + "SparkListenerSQLAdaptiveExecutionUpdate": SqlPlanUpdate,
    _SQL + "SparkListenerSQLAdaptiveSQLMetricUpdates": SqlMetricsAdded,
    _SQL + "SparkListenerDriverAccumUpdates": SqlDriverMetrics,
    _SQL + "SparkListenerSQLExecutionEnd": SqlEnd,
    _STREAM + "QueryStartedEvent": StreamStarted,
    _STREAM + "QueryProgressEvent": StreamProgress,
    _STREAM + "QueryTerminatedEvent": StreamTerminated,
}
_DECODE = {name.encode(): msgspec.json.Decoder(event_type).decode for name, event_type in _TYPES.items()}

# Events that are frequent or large and that no record is made of: they are not parsed.
_SKIPPED = frozenset(
    b"SparkListener" + name
    for name in (
        b"TaskStart", b"TaskGettingResult", b"BlockUpdated", b"BlockManagerRemoved", b"UnpersistRDD",
        b"ExecutorMetricsUpdate", b"StageExecutorMetrics", b"SpeculativeTaskSubmitted",
    )
)  # fmt: skip

_decode_any = msgspec.json.Decoder(dict[str, Any]).decode


def parse_line(line: bytes) -> Event | None:
    """The event of a line; None for an event that no record is made of. Raises `DamagedLine`."""
    name = _event_name(line)
    if name in _SKIPPED and line.endswith(b"}"):
        return None
    decode = _DECODE.get(name)
    try:
        if decode is not None:
            event: Event = decode(line)
            return event
        if not isinstance(_decode_any(line).get("Event"), str):
            raise DamagedLine("the line is JSON, but not an event")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLine(str(error)) from error
    return None


def _event_name(line: bytes) -> bytes:
    """The name of the event: from the first bytes if the line begins as Spark writes it, else from a full parse."""
    if line.startswith(PREFIX):
        return line[len(PREFIX) : line.find(b'"', len(PREFIX))]
    try:
        return str(_decode_any(line).get("Event", "")).encode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedLine(str(error)) from error
