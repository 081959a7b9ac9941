"""Events of streaming queries, applied to the records."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import msgspec

from kvwal.spark import records as rec
from kvwal.spark.events import streaming as events
from kvwal.spark.projection.state import Handler, ProjectionState, last_dropped
from kvwal.spark.projection.stopped import record_stop
from kvwal.spark.projection.storage import drop_rdds
from kvwal.spark.record_keys import job_key, sql_key, stage_key, stream_key
from kvwal.spark.records import cut
from kvwal.spark.versions import unix_ms

MAX_OFFSET = 20_000


def _stream(state: ProjectionState, query: str) -> rec.Stream:
    stream = state.cache.edit(stream_key(state.prefix, query), rec.Stream)
    stream.id = query
    return stream


def _started(state: ProjectionState, event: events.StreamStarted) -> None:
    stream = _stream(state, event.id)
    if stream.run != event.run_id:
        stream.run, stream.name, stream.status, stream.error = event.run_id, cut(event.name), "RUNNING", None
        stream.started, stream.ended, stream.broken_sql = unix_ms(event.timestamp), 0, []


def _progress(state: ProjectionState, event: events.StreamProgress) -> None:
    batch = _new_batch(event.progress)
    key = stream_key(state.prefix, batch.query, batch.batch)
    before = state.cache.fetch(key, rec.Batch)
    if before is not None and before.run == batch.run and before.at >= batch.at:
        return
    stream = _stream(state, batch.query)
    if batch.batch <= last_dropped(stream):
        return
    state.cache.add(key, batch)
    batch.jobs = [*(before.jobs if before else ()), *stream.running]
    batch.executions = [*(before.executions if before else ()), *stream.running_sql]
    stream.running, stream.running_sql = [], []
    stream.name = stream.name or batch.name
    stream.batches += before is None
    stream.input_rows += batch.input_rows - (before.input_rows if before else 0)
    stream.last_batch = max(stream.last_batch, batch.batch)
    _drop_batch(state, batch.query, last_dropped(stream))
    stream.watermark = batch.watermark or stream.watermark


def _drop_batch(state: ProjectionState, query: str, number: int) -> None:
    """Drop a batch, its SQL executions, its jobs and their stages. The sums of the application and of the query stay."""
    key = stream_key(state.prefix, query, number)
    batch = state.cache.fetch(key, rec.Batch) if number >= 0 else None
    if batch is None:
        return
    state.cache.drop(key)
    for execution in batch.executions:
        state.cache.drop(sql_key(state.prefix, execution))
    for job in batch.jobs:
        _drop_job(state, job)


def _drop_job(state: ProjectionState, number: int) -> None:
    job = state.job(number)
    for stage in job.ran if job else ():
        for attempt in count():
            key = stage_key(state.prefix, stage, attempt)
            record = state.cache.fetch(key, rec.Stage)
            if record is None:
                break
            drop_rdds(state, record)
            state.cache.drop(key)
    state.cache.drop(job_key(state.prefix, number))


def _terminated(state: ProjectionState, event: events.StreamTerminated) -> None:
    stream = _stream(state, event.id)
    stream.status = "FAILED" if event.exception else "SUCCEEDED"
    stream.ended = stream.ended or state.app().last_event
    if event.exception:
        message, _, stack = event.exception.partition("\n")
        stream.error = rec.Error(cut(message, rec.MAX_MESSAGE), cut(stack, rec.MAX_STACK))
    else:
        record_stop(state, stream)
    stream.broken_sql = []


HANDLERS: dict[type, Handler] = {
    events.StreamStarted: _started,
    events.StreamProgress: _progress,
    events.StreamTerminated: _terminated,
}


def _new_batch(progress: events.QueryProgress) -> rec.Batch:
    sources = progress.sources
    return rec.Batch(
        query=progress.id,
        run=progress.run_id,
        name=cut(progress.name),
        batch=progress.batch_id,
        at=unix_ms(progress.timestamp),
        duration_ms=progress.batch_duration,
        steps_ms=progress.duration_ms,
        input_rows=sum(source.num_input_rows for source in sources),
        input_rows_per_second=_rate(source.input_rows_per_second for source in sources),
        processed_rows_per_second=_rate(source.processed_rows_per_second for source in sources),
        watermark=progress.event_time.get("watermark", ""),
        event_time_max=progress.event_time.get("max", ""),
        state_rows=sum(operator.num_rows_total for operator in progress.state_operators),
        state_bytes=sum(operator.memory_used_bytes for operator in progress.state_operators),
        late_rows=sum(operator.num_rows_dropped_by_watermark for operator in progress.state_operators),
        sources=[_source(source) for source in sources],
        sink=cut(progress.sink.description),
        output_rows=progress.sink.num_output_rows,
    )


def _rate(rates: Iterable[float | None]) -> float | None:
    """The sum of the rates of the sources; None if no source has one."""
    known = [rate for rate in rates if rate is not None]
    return round(sum(known), 3) if known else None


def _source(source: events.SourceProgress) -> rec.BatchSource:
    return rec.BatchSource(
        what=cut(source.description),
        start=_offset(source.start_offset),
        end=_offset(source.end_offset),
        latest=_offset(source.latest_offset),
        rows=source.num_input_rows,
    )


def _offset(offset: Any) -> str:
    """An offset as JSON text. Each source has a shape of its own, and some numbers lose digits in other JSON parsers."""
    if offset is None:
        return ""
    text = offset if isinstance(offset, str) else msgspec.json.encode(offset).decode()
    return cut(text, MAX_OFFSET)
