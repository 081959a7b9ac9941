"""The keys of the records of a Spark application: see `kvwal.spark.records` for their layout."""

from __future__ import annotations

from urllib.parse import quote


def app_prefix(app: str, attempt: str = "") -> str:
    """The prefix of an application's keys, without the last slash."""
    return "/".join(quote(part, safe="@+:") for part in (app, attempt) if part)


def job_key(prefix: str, job: int) -> str:
    """The key of a job."""
    return f"{prefix}/job/{job:010d}"


def stage_key(prefix: str, stage: int, attempt: int) -> str:
    """The key of one attempt of a stage."""
    return f"{prefix}/stage/{stage:010d}/{attempt:04d}"


def sql_key(prefix: str, execution: int) -> str:
    """The key of an SQL execution."""
    return f"{prefix}/sql/{execution:010d}"


def executor_key(prefix: str, executor: str) -> str:
    """The key of an executor."""
    return f"{prefix}/executor/{executor.zfill(6) if executor.isdecimal() else quote(executor, safe='')}"


def stream_key(prefix: str, query: str, batch: int | None = None) -> str:
    """The key of a streaming query, or of one of its batches."""
    key = f"{prefix}/stream/{quote(query, safe='')}"
    return key if batch is None else f"{key}/{batch:012d}"


def damage_key(prefix: str, roll: int, event: int) -> str:
    """The key of a damaged line: the `event`-th (from 1) of the `roll`-th file."""
    return f"{prefix}/damage/{roll:06d}/{event:012d}"
