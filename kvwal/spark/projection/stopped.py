"""The batch within which a streaming query was stopped: what `query.stop()` cancelled did not fail.

Spark ends the jobs, the stages and the SQL executions of that batch with errors, and its own pages call them failed. But the
query ends without an exception, so they are recorded as KILLED. The message of a cancelled job or stage names the run of the
query. The error of an SQL execution does not, so an execution waits for the end of its query.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvwal.spark import records as rec
from kvwal.spark.projection.state import ProjectionState
from kvwal.spark.record_keys import stream_key

MAX_BROKEN = 100
_INTERRUPTIONS = (
    "SPARK_JOB_CANCELLED",
    "InterruptedException",
    "ClosedByInterruptException",
    "cancelled part of cancelled",
)


def is_stopped(jobs: Iterable[rec.Job | None], message: str) -> bool:
    """Whether a job, or a stage of these jobs, ended with this message because its streaming query was stopped.

    The job group of a query's jobs is the id of the query's run.
    """
    return "cancelled" in message and any(job and job.stream and job.group and job.group in message for job in jobs)


def note_error(state: ProjectionState, sql: rec.Sql) -> None:
    """Keep an execution that ended with an error until its query ends, if it is one of the query's last batch."""
    key = stream_key(state.prefix, sql.stream)
    stream = state.cache.fetch(key, rec.Stream)
    if stream is None:
        return
    others = [other for other in map(state.sql, stream.broken_sql) if other is not None and other.batch == sql.batch]
    stream.broken_sql = [*(other.id for other in others[: MAX_BROKEN - 1]), sql.id]
    state.cache.touch(key)


def record_stop(state: ProjectionState, stream: rec.Stream) -> None:
    """Mark the executions as killed whose errors come from the stop. The query had no exception, so no batch of it had failed.

    An execution within a batch counts as failed if it failed by itself: the batch may have caught its error.
    """
    for number in stream.broken_sql:
        sql = state.sql(number)
        if sql is None or sql.status != "FAILED" or sql.error is None:
            continue
        if sql.root == sql.id or any(name in sql.error.message for name in _INTERRUPTIONS):
            sql.status = "KILLED"
            state.touch_sql(number)
            state.app().sql_failed -= 1
