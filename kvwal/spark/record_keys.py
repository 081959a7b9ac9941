"""The keys of the records of a Spark application: see `kvwal.spark.records` for their layout."""

from __future__ import annotations

from urllib.parse import quote


def app_prefix(app: str, attempt: str = "") -> str:
    """The prefix of an application's keys, without the last slash."""
    return "/".join(quote(part, safe="@+:") for part in (app, attempt) if part)


def is_key_of_run(prefix: str, key: str) -> bool:
    """Whether a key that begins with `prefix` and a slash is not that of an attempt at an application without attempts."""
    return not key[len(prefix) + 1 :].partition("/")[0].isdecimal()


def job_part(job: int) -> str:
    """A job in a key."""
    return f"{job:010d}"


def stage_part(stage: int) -> str:
    """A stage in a key."""
    return f"{stage:010d}"


def attempt_part(attempt: int) -> str:
    """The attempt of a stage in a key."""
    return f"{attempt:04d}"


def rdd_part(rdd: int) -> str:
    """An RDD in a key."""
    return f"{rdd:010d}"


def sql_part(execution: int) -> str:
    """An SQL execution in a key."""
    return f"{execution:010d}"


def executor_part(executor: str) -> str:
    """An executor in a key."""
    return executor.zfill(6) if executor.isdecimal() else quote(executor, safe="")


def query_part(query: str) -> str:
    """A streaming query in a key."""
    return quote(query, safe="")


def batch_part(batch: int) -> str:
    """A batch of a streaming query in a key."""
    return f"{batch:012d}"


def job_key(prefix: str, job: int) -> str:
    """The key of a job."""
    return f"{prefix}/job/{job_part(job)}"


def stage_key(prefix: str, stage: int, attempt: int) -> str:
    """The key of one attempt of a stage."""
    return f"{prefix}/stage/{stage_part(stage)}/{attempt_part(attempt)}"


def rdd_key(prefix: str, rdd: int) -> str:
    """The key of an RDD."""
    return f"{prefix}/rdd/{rdd_part(rdd)}"


def sql_key(prefix: str, execution: int) -> str:
    """The key of an SQL execution."""
    return f"{prefix}/sql/{sql_part(execution)}"


def executor_key(prefix: str, executor: str) -> str:
    """The key of an executor."""
    return f"{prefix}/executor/{executor_part(executor)}"


def stream_key(prefix: str, query: str, batch: int | None = None) -> str:
    """The key of a streaming query, or of one of its batches."""
    key = f"{prefix}/stream/{query_part(query)}"
    return key if batch is None else f"{key}/{batch_part(batch)}"


def damage_key(prefix: str, roll: int, event: int) -> str:
    """The key of a damaged line: the `event`-th (from 1) of the `roll`-th file."""
    return f"{prefix}/damage/{roll:06d}/{event:012d}"
