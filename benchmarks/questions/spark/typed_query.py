"""The time of a question to the typed tables: runs and a percentile of the duration, by the name of a job."""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child
from kvwal.cli.main import main
from kvwal.spark import records as rec
from kvwal.spark.record_keys import app_prefix, job_key

QUESTION = Question(
    "typed_query",
    "How long does a question about all recorded jobs take?",
    "DuckDB's own reader of JSON, with the same statement, over a file that has the same records, one a line.",
    "starting the interpreter. The files were just written, so they are in the page cache.",
)
MODULE = "benchmarks.questions.spark.typed_query"
STATEMENT = (
    "SELECT description, count(*) AS runs, quantile_cont(duration_ms, 0.95) AS p95 FROM {} GROUP BY ALL ORDER BY ALL"
)
JOBS_AN_APPLICATION = 10_000
BATCH = 2_000


def jobs(count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and records of jobs that have ended: 40 names, each job with 200 tasks."""
    for number in range(count):
        app, job = divmod(number, JOBS_AN_APPLICATION)
        prefix = app_prefix(f"app-20260101000000-{app:04d}")
        duration = 200 + number * 7919 % 10_007
        started = 1_767_225_600_000 + number * 1_000
        yield job_key(prefix, job), rec.to_value(rec.Job(
            id=job, name=f"collect at report.py:{number % 40}", description=f"report {number % 40}", sql=job, status="SUCCEEDED",
            started=started, ended=started + duration, duration_ms=duration, planned=200, stages=[2 * job, 2 * job + 1],
            ran=[2 * job + 1], tasks=200, run_ms=180 * duration, scheduler_delay_ms=90, cpu_ms=duration * 120.5, gc_ms=17,
            input_bytes=1 << 30, input_rows=12_345_678, shuffle_read_bytes=123_456, shuffle_write_bytes=123_456,
        ))  # fmt: skip


def write_root(root: str, archive: str, count: int) -> float:
    """Write the records into a root and its archive, and make a snapshot. Returns the megabytes of their JSON."""
    import msgspec

    size, batch = 0, {}
    with kvwal.open(root, archive=archive, flush="os") as store, Path(root, "jobs.json").open("wb") as lines:
        records = store.map("spark")
        for key, value in jobs(count):
            batch[key] = value
            lines.write(msgspec.json.encode(value) + b"\n")
            if len(batch) == BATCH:
                records.put_many(batch)
                batch = {}
        if batch:
            records.put_many(batch)
        size = lines.tell()
        store.archive()
        store.checkpoint()
    return size / 1e6


def query(location: str) -> dict[str, float]:
    """Seconds of `kvwal query`, its imports included: of the clock, and of the processor."""
    sys.argv = ["kvwal", "query", location, STATEMENT.format("spark_jobs"), "--format", "csv"]
    started, processor = time.perf_counter(), time.process_time()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"kvwal query ended with {end.code}") from end
    return {"seconds": time.perf_counter() - started, "processor": time.process_time() - processor}


def query_json(root: str) -> float:
    """Seconds of the same statement over the file of JSON, the imports included."""
    started = time.perf_counter()
    import duckdb

    with duckdb.connect() as connection:
        columns = "{description: 'VARCHAR', duration_ms: 'BIGINT'}"
        source = f"read_json('{root}/jobs.json', format = 'newline_delimited', columns = {columns})"
        connection.execute(STATEMENT.format(source)).fetchall()
    return time.perf_counter() - started


def question(run: Run, name: str, root: str, location: str, target: float, notes: dict[str, float]) -> Row:
    """The seconds of the question to a location, beside those of DuckDB over the file in `root`."""
    processor: list[float] = []

    def ours() -> float:
        answer = in_child(f"{MODULE}:query", location=location)
        processor.append(answer["processor"])
        return float(answer["seconds"])

    baselines, figures = run.interleave(3, lambda: in_child(f"{MODULE}:query_json", root=root), ours)
    notes = {**notes, "processor time, s": statistics.median(processor)}
    return absolute_row(name, "s", baselines, figures, "at most", target, notes)


def measure(run: Run) -> list[Row]:
    """Two rows: the seconds of the question to a root, and to its archive alone."""
    root, archive, count = str(run.root()), run.root().as_uri(), run.size(1_000_000, 1_000)
    size = in_child(f"{MODULE}:write_root", root=root, archive=archive, count=count)
    notes = {"jobs": float(count), "their JSON, MB": size}
    return [
        question(run, "Group 1M jobs by name, from a root", root, root, 3, notes),
        question(run, "Group 1M jobs by name, from the archive alone", root, archive, 6, {}),
    ]
