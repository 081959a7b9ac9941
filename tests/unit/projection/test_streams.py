"""Streaming queries: of many batches the last ones are kept, with what they ran, and the sums are those of all."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark import records as rec
from kvwal.spark.events import application, jobs, sql, streaming
from kvwal.spark.projection import state
from kvwal.spark.projection.projection import Projection

KEPT = 5
QUERY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(autouse=True)
def few_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "KEPT_BATCHES", KEPT)


def batch(number: int) -> list[Any]:
    """A batch with one SQL execution, whose job has two stages, the second with two attempts; and a job without SQL."""
    at, first = 1_000 * (number + 1), 2 * number
    description = f"counts\nid = {QUERY}\nrunId = {QUERY}\nbatch = {number}"
    properties = {"description": description, "batch": str(number), "query": QUERY}
    attempts = [(first, 0), (first + 1, 0), (first + 1, 1)]
    stages = [jobs.StageInfo(stage, attempt, "s", submission_time=at) for stage, attempt in attempts]
    return [
        sql.SqlStart(number, description=description, time=at),
        jobs.JobStart(
            job_id=first,
            submission_time=at,
            stage_ids=[first, first + 1],
            properties=jobs.JobProperties(sql=str(number), **properties),
        ),
        *map(jobs.StageSubmitted, stages),
        *map(jobs.StageCompleted, stages),
        jobs.JobEnd(first, jobs.JobResult("JobSucceeded"), at + 1),
        sql.SqlEnd(number, at + 2),
        jobs.JobStart(job_id=first + 1, submission_time=at, properties=jobs.JobProperties(**properties)),
        jobs.JobEnd(first + 1, jobs.JobResult("JobSucceeded"), at + 1),
        progress(number),
    ]


def progress(number: int, rows: int = 3) -> streaming.StreamProgress:
    source = streaming.SourceProgress(num_input_rows=rows)
    return streaming.StreamProgress(
        streaming.QueryProgress(QUERY, QUERY, number, "counts", timestamp=_time(number, rows), sources=[source])
    )


def _time(number: int, rows: int) -> str:
    """A second for each batch, and a millisecond for each row, as Spark writes it."""
    return f"2026-01-01T{number // 3600:02d}:{number // 60 % 60:02d}:{number % 60:02d}.{rows:03d}Z"


class Recorded:
    """An application in a store, as a reader of its event log stores it."""

    def __init__(self, store: kvwal.Store) -> None:
        self.records = store.map("spark")
        self.projection = Projection("app", self.records.get)
        self.apply(application.ApplicationStart("stream", 1, "ada", "app"))

    def apply(self, *events: Any) -> None:
        for event in events:
            self.projection.apply(event, 1)
        self.records.submit_many(self.projection.take(), self.projection.take_dropped()).result()

    def record(self, key: str) -> Any:
        return rec.from_value(self.records[f"app/{key}"])

    def numbers(self, folder: str, part: int) -> list[int]:
        return sorted({int(key.split("/")[part]) for key in self.records if key.startswith(f"app/{folder}/")})


@pytest.fixture
def recorded(tmp_path: Path) -> Any:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        yield Recorded(store)


@pytest.mark.parametrize("at_once", [1, 4, 40])
def test_the_last_batches_are_kept_with_what_they_ran(recorded: Recorded, at_once: int) -> None:
    for first in range(0, 40, at_once):
        recorded.apply(*(event for number in range(first, first + at_once) for event in batch(number)))
    kept = range(40 - KEPT, 40)
    assert recorded.numbers(f"stream/{QUERY}", 3) == list(kept)
    assert recorded.numbers("sql", 2) == list(kept)
    assert recorded.numbers("job", 2) == recorded.numbers("stage", 2) == list(range(2 * kept[0], 80))
    stream, app, last = (
        recorded.record(f"stream/{QUERY}"),
        recorded.record("app"),
        recorded.record(f"stream/{QUERY}/000000000039"),
    )
    assert (stream.batches, stream.input_rows, stream.last_batch) == (40, 120, 39)
    assert (app.jobs, app.stages, app.sql) == (80, 120, 40)
    assert (last.jobs, last.executions) == ([78, 79], [39])


def test_an_event_of_a_dropped_batch_that_comes_again_does_not_count_again(recorded: Recorded) -> None:
    recorded.apply(*(event for number in range(10) for event in batch(number)))
    before = dict(recorded.records.items())
    old = batch(2)
    recorded.apply(old[0], old[1], old[-1], progress(2, rows=9))
    apart = ("app/stream/", "app/log")  # the position notes the jobs that it passed over
    assert {key: value for key, value in recorded.records.items() if not key.startswith(apart)} == {
        key: value for key, value in before.items() if not key.startswith(apart)
    }
    assert recorded.record(f"stream/{QUERY}").batches == 10


def test_a_batch_that_reports_twice_has_what_both_ran(recorded: Recorded) -> None:
    told = batch(1)
    recorded.apply(*told[:-3], progress(1))
    recorded.apply(*told[-3:-1], progress(1, rows=4))
    found = recorded.record(f"stream/{QUERY}/000000000001")
    assert (found.jobs, found.executions, found.input_rows) == ([2, 3], [1], 4)
    assert recorded.record(f"stream/{QUERY}").input_rows == 4


def test_the_memory_of_a_store_does_not_grow_with_the_batches(recorded: Recorded) -> None:
    def run(numbers: range) -> int:
        for number in numbers:
            recorded.apply(*batch(number))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = run(range(200))
        grown = run(range(200, 600)) - before
    finally:
        tracemalloc.stop()
    assert grown < 200_000, f"{grown} bytes in 400 batches"
