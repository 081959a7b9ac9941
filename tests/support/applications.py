"""Synthetic Spark applications: the events that a driver would write, applied and stored as a reader of event logs does it."""

from __future__ import annotations

from typing import Any

import kvwal
from kvwal.spark.events import application, jobs, sql, streaming
from kvwal.spark.index import index_entries, mark_of
from kvwal.spark.projection.projection import Projection

SECOND = 1_000


def ran(
    prefix: str, started: int, *, name: str = "report", count: int = 3, failed: tuple[int, ...] = (), ends: bool = True
) -> list[Any]:
    """The events of an application with jobs of a second each, every one in an SQL execution; the ones in `failed` fail."""
    events: list[Any] = [application.ApplicationStart(name, started, "ada", prefix)]
    for number in range(count):
        begun, ended = started + number * SECOND, started + (number + 1) * SECOND
        properties = jobs.JobProperties(sql=str(number), description=f"step {number}")
        error = jobs.JobException(f"step {number} has no input", [])
        result = jobs.JobResult("JobFailed", error) if number in failed else jobs.JobResult("JobSucceeded")
        events += [
            sql.SqlStart(number, description=f"step {number}", time=begun),
            jobs.JobStart(job_id=number, submission_time=begun, properties=properties),
            jobs.JobEnd(number, result, ended),
            sql.SqlEnd(number, ended + 1, "it has no input" if number in failed else None),
        ]
    return [*events, application.ApplicationEnd(started + count * SECOND)] if ends else events


def stream_that_failed(query: str) -> list[Any]:
    """The events of a streaming query that ends with an error."""
    return [
        streaming.StreamStarted(query, "run-1", "counts"),
        streaming.StreamTerminated(query, "run-1", "it broke\nat some place"),
    ]


def store_events(store: kvwal.Store, prefix: str, events: list[Any], *, with_index: bool = True) -> None:
    """Apply events, each in a transaction of its own. Without the index, as earlier versions stored them."""
    records = store.map("spark")
    if with_index and (mark := mark_of(records, store.node or "")):
        records.put_many(mark)
    projection = Projection(prefix, records.get)
    for event in events:
        projection.apply(event, 1)
        changed = projection.take()
        records.put_many(changed | index_entries(changed) if with_index else changed)
