"""A value that nobody can read costs its field, and not the event: the rest of the line counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvwal.spark import records as rec
from kvwal.spark.events.parser import DamagedLine, parse_line
from kvwal.spark.events.sql import SqlStart
from kvwal.spark.events.streaming import StreamProgress
from kvwal.spark.events.tasks import TaskEnd
from kvwal.spark.projection.projection import Projection

STREAM = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
METRICS = {"Executor Run Time": 1000, "Executor CPU Time": 500_000_000, "JVM GC Time": 10}


def task(index: int, metrics: dict[str, Any] | None, message: str = "") -> bytes:
    """The end of a task, as Spark writes it; NaN is written as a bare word, as no JSON is."""
    reason = (
        {"Reason": "ExceptionFailure", "Class Name": "E", "Description": message} if message else {"Reason": "Success"}
    )
    event = {
        "Event": "SparkListenerTaskEnd", "Stage ID": 0, "Stage Attempt ID": 0, "Task End Reason": reason,
        "Task Info": {"Task ID": index, "Index": index, "Launch Time": 1, "Finish Time": 2, "Executor ID": "1"},
        "Task Metrics": metrics,
    }  # fmt: skip
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode("latin-1")


def progress(batch: int, **rates: Any) -> bytes:
    source = {"description": "rate", "numInputRows": 5, **rates}
    query = {"id": "q", "runId": "r", "batchId": batch, "timestamp": "2026-01-01T00:00:00.000Z", "sources": [source]}
    return json.dumps({"Event": STREAM, "progress": query}).encode()


def recorded(*lines: bytes) -> dict[str, rec.Record]:
    projection = Projection("app", lambda key: None)
    for line in lines:
        event = parse_line(line)
        assert event is not None
        projection.apply(event, len(line))
    return {key: rec.from_value(value) for key, value in projection.take().items()}


def test_a_task_with_a_number_that_is_none_counts_without_it() -> None:
    unreadable = [{"Executor CPU Time": float("nan")}, {"JVM GC Time": None}, {"JVM GC Time": "many"}]
    found = recorded(*(task(index, {**METRICS, **each}) for index, each in enumerate(unreadable)), task(3, None))
    stage = found["app/stage/0000000000/0000"]
    assert isinstance(stage, rec.Stage)
    assert (stage.tasks, stage.failed, stage.run_ms, stage.cpu_ms, stage.gc_ms) == (4, 0, 3000, 1000.0, 10)


def test_a_run_time_below_zero_does_not_lower_the_sum() -> None:
    stage = recorded(task(0, METRICS), task(1, {**METRICS, "Executor Run Time": -5}))["app/stage/0000000000/0000"]
    assert isinstance(stage, rec.Stage)
    assert stage.run_ms == 1000


def test_bytes_that_are_no_text_are_replaced() -> None:
    stage = recorded(task(0, METRICS), task(1, METRICS, "caf\xe9 zu"))["app/stage/0000000000/0000"]
    assert isinstance(stage, rec.Stage)
    assert (stage.tasks, stage.failed, stage.failures[0].message) == (2, 1, "E: caf\ufffd zu")


@pytest.mark.parametrize("rate", ["NaN", "Infinity", float("nan"), float("inf"), None])
def test_a_batch_with_a_rate_that_is_no_number_counts_and_has_none(rate: Any) -> None:
    lines = progress(0, inputRowsPerSecond=rate, processedRowsPerSecond=4.1), progress(1, inputRowsPerSecond=5.0)
    found = recorded(*lines)
    first, second, stream = (found[f"app/stream/q{part}"] for part in ("/000000000000", "/000000000001", ""))
    assert isinstance(first, rec.Batch)
    assert isinstance(second, rec.Batch)
    assert isinstance(stream, rec.Stream)
    assert (first.input_rows_per_second, first.processed_rows_per_second) == (None, 4.1)
    assert (second.input_rows_per_second, second.processed_rows_per_second) == (5.0, None)
    assert (stream.batches, stream.input_rows) == (2, 10)


def test_half_a_character_is_replaced_so_that_the_record_can_be_stored() -> None:
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
    event = parse_line(json.dumps({"Event": name, "executionId": 1, "description": "a\ud800"}).encode())
    assert isinstance(event, SqlStart)
    assert event.description.encode() == b"a?"


def test_a_part_that_cannot_be_read_goes_and_its_neighbours_stay() -> None:
    line = json.dumps({"Event": STREAM, "progress": {
        "id": "q", "runId": "r", "batchId": 1, "durationMs": {"a": 1, "b": "NaN"}, "eventTime": None,
        "sources": [None, {"numInputRows": 3}, {"numInputRows": "3"}], "sink": 7,
    }}).encode()  # fmt: skip
    event = parse_line(line)
    assert isinstance(event, StreamProgress)
    assert (event.progress.duration_ms, event.progress.event_time) == ({"a": 1}, {})
    assert [source.num_input_rows for source in event.progress.sources] == [3, 0]


@pytest.mark.parametrize("line", [
    task(0, METRICS).replace(b'"Task ID":0', b'"Task ID":NaN'), task(0, METRICS).replace(b'"Reason":"Success"', b'"Reason":null'),
])  # fmt: skip
def test_an_event_without_what_it_is_about_is_damage(line: bytes) -> None:
    with pytest.raises(DamagedLine):
        parse_line(line)


def test_a_line_that_can_be_read_is_read_once() -> None:
    assert isinstance(parse_line(task(0, METRICS)), TaskEnd)
