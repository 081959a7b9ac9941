"""A store with records of every kind that pages show: hostile texts in each field, long lists, a large plan, a stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kvwal
from kvwal.spark import index
from kvwal.spark import records as rec
from kvwal.spark.record_keys import (
    app_prefix,
    executor_key,
    job_key,
    sql_key,
    stage_key,
    stream_key,
)

NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z"""
HOSTILE = "<script>alert('ran')</script>\"'><img src=x onerror=alert('ran')>{{7*7}} javascript:alert(1) \u202e %2F/..\\"
"""A text that runs a script wherever it becomes HTML."""
BUSY = "application_1_0001"
"""The application with everything."""
EVIL = app_prefix(HOSTILE)
"""The application whose every text is hostile."""
RUNNING = "application_1_0002"
"""The application that goes on."""
RUNS = 70
"""Runs of one name: more than a page of the list has."""
_PLAN = "== Physical Plan ==\n" + "+- Filter (very long)\n" * 200_000


def records() -> dict[str, Any]:
    """The records, without their index."""
    found = {f"{app_prefix(f'run-{number:03}')}/app": _run(number) for number in range(RUNS)}
    found |= _busy(BUSY, "nightly report", "s3://lake/delays", "division by zero")
    found |= _busy(EVIL, HOSTILE, f"s3://lake/{HOSTILE}", HOSTILE)
    found |= _busy(f"{BUSY}_a/2", "nightly report", "s3://lake/delays", "lost", attempt="2")
    found[f"{RUNNING}/app"] = rec.Application(id=RUNNING, name="goes on", started=NOON, last_event=NOON + 9_000, jobs=1)
    found[job_key(RUNNING, 0)] = rec.Job(id=0, description="first step", started=NOON + 1)
    return {key: rec.to_value(record) for key, record in found.items()}


def write(root: Path) -> None:
    """Write the records as a recorder does, in a node of their own."""
    values = records()
    with kvwal.open(root, node="recorder", archive=None) as store:
        put(store, values)


def put(store: kvwal.Store, values: dict[str, Any]) -> None:
    """Put records with their index."""
    stored = store.map("spark")
    stored.put_many(values | index.index_entries(values) | index.mark_of(stored, "recorder"))


def _run(number: int) -> rec.Application:
    """A run of a job that takes ten minutes; every tenth takes three times as long, and every 35th fails."""
    took = 600_000 * (3 if number % 10 == 9 else 1) + number * 1000
    error = rec.Error("java.io.IOException: the lake has no such day\n\tat x") if number % 35 == 34 else None
    begun = NOON - (RUNS - number) * 3_600_000
    return rec.Application(
        id=f"run-{number:03}", name="load orders", user="ada", status="FAILED" if error else "SUCCEEDED", started=begun,
        ended=begun + took, duration_ms=took, last_event=begun + took, error=error, jobs=4, input_bytes=number << 30,
        input_rows=10 ** (number % 7),
    )  # fmt: skip


def _busy(prefix: str, text: str, path: str, problem: str, attempt: str = "") -> dict[str, Any]:
    """The records of an application that has one of everything, and this text wherever a text may be."""
    error = rec.Error(f"org.apache.spark.SparkException: {problem}\nat line 2", f"{problem}\n\tat {text}")
    reads = [rec.Access("parquet", path, "3 Scan parquet", rows=100, bytes=2_000, files=3), rec.Access(text, text)]
    writes = [rec.Access("parquet", f"{path}-sums", "1 Execute", rows=10, bytes=200, files=1, table=text)]
    ran = rec.Application(
        id=text if text == HOSTILE else prefix.partition("/")[0], attempt=attempt, name=text, user=text, spark_version="4.3.0",
        status="FAILED", started=NOON, ended=NOON + 60_000, duration_ms=60_000, last_event=NOON + 60_000, error=error, jobs=121,
        jobs_failed=1, stages=121, stages_failed=1, sql=2, sql_failed=1, tasks=1_000, failed=3, run_ms=90_000, cpu_ms=40_000.5,
        gc_ms=5_000, scheduler_delay_ms=2_000, input_bytes=5 << 30, input_rows=10**9, output_bytes=1 << 20, output_rows=10,
        shuffle_wait_ms=4_000, shuffle_write_bytes=1 << 30, spill_disk_bytes=1 << 20, damaged=1, dropped=2,
    )  # fmt: skip
    found: dict[str, Any] = {
        f"{prefix}/app": ran,
        f"{prefix}/env": rec.Environment(spark={"spark.app.name": text, text: text, "spark.k": "1"}, jvm={"version": "21"}),
        executor_key(prefix, "1"): rec.Executor(
            id="1", host=text, cores=2, added=NOON, removed=NOON + 9_000, reason=text, failed=1
        ),
        sql_key(prefix, 0): rec.Sql(
            id=0, description=text, status="FAILED", started=NOON, ended=NOON + 9_000, duration_ms=9_000, jobs=[0, 1],
            reads=reads, writes=writes, error=error, plan=(_PLAN if prefix == BUSY else "") + text, settings={text: text},
            nodes=["1 Execute", f"2 {text}", "3 Scan parquet", "4 Scan parquet"],
            edges=[rec.PlanEdge(2, 1), rec.PlanEdge(3, 2), rec.PlanEdge(4, 2)],
            metrics=[rec.Metric("3 Scan parquet", "number of output rows", "sum", 1, 100),
                     rec.Metric(f"2 {text}", text, "timing", 2, 77)],
        ),
        sql_key(prefix, 1): rec.Sql(id=1, root=0, description=text, status="SUCCEEDED", started=NOON, ended=NOON + 1),
        stream_key(prefix, text): rec.Stream(
            id=text, name=text, status="FAILED", started=NOON, ended=NOON + 5, last_batch=9, batches=10, input_rows=100,
            error=error, watermark="2026-01-01T11:00:00.000Z",
        ),
    }  # fmt: skip
    for number in range(121):
        is_bad = number == 7
        found[job_key(prefix, number)] = rec.Job(
            id=number, name=text, description=f"step {number} {text}", status="FAILED" if is_bad else "SUCCEEDED",
            sql=0 if is_bad else None, error=error if is_bad else None, started=NOON + number * 400,
            ended=NOON + number * 400 + 390, duration_ms=390,
            stages=[number], ran=[number], tasks=8, failed=int(is_bad), input_bytes=number << 20, reads=reads, group=text,
            tags=[text],
        )  # fmt: skip
        found[stage_key(prefix, number, 0)] = rec.Stage(
            id=number, job=number, name=text, status="FAILED" if is_bad else "SUCCEEDED", started=NOON + number * 400,
            duration_ms=380, planned=8, tasks=8, failed=int(is_bad), run_ms=3_000 + number, task_min_ms=10, task_p25_ms=20,
            task_median_ms=30, task_p75_ms=60, task_p95_ms=300, task_max_ms=380, skew=12.7, buckets={"30": 4, "60": 3, "140": 1},
            slowest=rec.Slowest(ms=380, task=3, host=text), error=error if is_bad else None,
            failures=[rec.TaskFailure(f"ValueError: {text}", text, 3, 4, "1", text)] if is_bad else [],
            quantiles=rec.TaskQuantiles(gc_ms=rec.Quantiles(1, 2, 3, 4, 5, 6)),
        )  # fmt: skip
    for number in range(10):
        found[stream_key(prefix, text, number)] = rec.Batch(
            query=text, name=text, batch=number, at=NOON + number * 1_000, duration_ms=100 + number, input_rows=10,
            input_rows_per_second=10.0, processed_rows_per_second=100.0 / (number + 1), state_rows=number,
            watermark="2026-01-01T11:00:00.000Z", sources=[rec.BatchSource(text, "1", "2", "2", 10)],
        )  # fmt: skip
    return found
