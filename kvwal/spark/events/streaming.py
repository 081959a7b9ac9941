"""Events of Structured Streaming queries."""

from __future__ import annotations

from typing import Any

import msgspec

from kvwal.spark.events.base import EventStruct, Int


class StreamStarted(EventStruct, rename="camel"):
    """A streaming query begins."""

    id: str
    run_id: str
    name: str | None = None
    timestamp: str = ""


class StreamTerminated(EventStruct, rename="camel"):
    """A streaming query ends. `exception` is missing where it was stopped without an error."""

    id: str
    run_id: str
    exception: str | None = None
    error_class_on_exception: str | None = None


class SourceProgress(EventStruct, rename="camel"):
    """The input of a batch from one source. The JSON of an offset has a shape of its own in each source."""

    description: str = ""
    start_offset: Any = None
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: Int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None


class SinkProgress(EventStruct, rename="camel"):
    """The output of a batch. -1 rows: the sink does not count them."""

    description: str = ""
    num_output_rows: Int = -1


class StateOperator(EventStruct, rename="camel"):
    """The state of a stateful operator."""

    operator_name: str = ""
    num_rows_total: Int = 0
    num_rows_updated: Int = 0
    memory_used_bytes: Int = 0
    num_rows_dropped_by_watermark: Int = 0


class QueryProgress(EventStruct, rename="camel"):
    """One batch of a streaming query."""

    id: str
    run_id: str
    batch_id: Int
    name: str | None = None
    timestamp: str = ""
    batch_duration: Int = 0
    duration_ms: dict[str, Int] = msgspec.field(default_factory=dict)
    event_time: dict[str, str] = msgspec.field(default_factory=dict)
    state_operators: list[StateOperator] = msgspec.field(default_factory=list)
    sources: list[SourceProgress] = msgspec.field(default_factory=list)
    sink: SinkProgress = msgspec.field(default_factory=SinkProgress)


class StreamProgress(EventStruct, rename="camel"):
    """A batch ended."""

    progress: QueryProgress
