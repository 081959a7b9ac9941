"""A store with everything that pages show: Spark applications with their parts, keys with a history, queues, contents.

Records are written as `kvwal record` writes them, many in a transaction. Each application has its jobs and SQL executions. Each
20th one has stages, executors, settings and a streaming query, too: it is complete. The complete ones share ten names.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import kvwal
from benchmarks.harness import Run, in_child
from benchmarks.questions.spark.lineage import AREA, EXECUTIONS, PLAN, path
from benchmarks.questions.spark.listing import DAY, NOW, job
from kvwal.spark import index
from kvwal.spark import records as rec
from kvwal.spark.record_keys import executor_key, job_key, sql_key, stage_key, stream_key

COMPLETE_EVERY, NAMES, FAILED_EVERY = 20, 200, 21
EXECUTORS, BATCHES = 4, 20
RUNNING = 5
"""The latest applications, which run still."""
STREAM = "4be86f4c-4d34-4d02-9c3b-8a1bd4a9e0f1"
ITEMS, FILES, CHANGES = 1_000, 100, 3
"""Items of a queue, contents, and changes of a key that has a history."""
CHANGED_EVERY = 100
JOB_SECONDS = 0.25
"""Between two ends of jobs of an application that is recorded."""
_AT_ONCE = 2_000


class Filled(NamedTuple):
    """What a store has. `earlier` is a moment before the keys were changed, as an address names it."""

    applications: int
    jobs: int
    keys: int
    earlier: str


def filled(run: Run, root: Path) -> Filled:
    """What the store of a console's questions has, which another process writes into an empty folder."""
    sizes = {"applications": run.size(10_000, 60), "jobs": run.size(100, 10), "keys": run.size(1_000_000, 2_000)}
    return Filled(**in_child(f"{__name__}:fill", root=str(root), **sizes))


def prefix(number: int) -> str:
    """The prefix of the keys of an application."""
    return f"application_{NOW}_{number:06d}"


def name(number: int) -> str:
    """The name of an application."""
    return f"report-{number % NAMES}"


def key(number: int) -> str:
    """A key of the map `items`."""
    return f"item-{number:07d}"


def fill(root: str, applications: int, jobs: int, keys: int) -> dict[str, Any]:
    """Write the store into an empty folder, with the archive that a folder has by default. Returns the fields of `Filled`."""
    with kvwal.open(root, flush="os") as store:
        _write_items(store, keys, 0)
        time.sleep(0.01)  # keys of before are at least a millisecond older than those of after
        earlier = datetime.now(UTC).isoformat()
        for change in range(1, CHANGES + 1):
            _write_items(store, keys, change)
        store.queue("work").put_many([{"number": number} for number in range(ITEMS)])
        files = store.content("files")
        for number in range(FILES):
            files.put(f"report/{number:04}.txt", f"report {number}\n".encode() * 100)
        records = store.map("spark")
        records.put_many(index.mark_of(records, store.node or ""))
        step = 100 * DAY // applications
        for number in range(applications):
            runs = number >= applications - RUNNING
            records.put_many(application(number, jobs, NOW - (applications - number) * step, runs=runs))
        store.archive()
    return Filled(applications, jobs, keys, earlier)._asdict()


def record(root: str, seconds: float) -> int:
    """Record an application that goes on, as a node of its own: a job ends four times a second. Returns how many jobs ended."""
    ends, app, number = time.monotonic() + seconds, "application_9_000001", 0
    with kvwal.open(root, node="recorder", flush="os") as store:
        records = store.map("spark")
        while time.monotonic() < ends:
            now = time.time_ns() // 1_000_000
            number += 1
            goes_on = rec.Application(id=app, name="goes on", user="ada", started=now, last_event=now, jobs=number)
            found = {f"{app}/app": rec.to_value(goes_on), job_key(app, number): job(number, now, failed=False)}
            records.put_many(found | index.index_entries(found) | index.mark_of(records, "recorder"))
            time.sleep(JOB_SECONDS)
    return number


def _write_items(store: kvwal.Store, keys: int, change: int) -> None:
    """Put all keys, or with a `change` put some of them again."""
    numbers = iter(range(0, keys, CHANGED_EVERY if change else 1))
    items = store.map("items")
    while batch := list(islice(numbers, _AT_ONCE)):
        items.put_many(
            {key(each): {"number": each, "change": change, "text": f"text of {each} " * 4} for each in batch}
        )


def application(number: int, jobs: int, started: int, *, runs: bool) -> dict[str, Any]:
    """The records of one application and their index, by key."""
    app, failed = prefix(number), number % FAILED_EVERY == 0 and not runs
    is_complete = number % COMPLETE_EVERY == 0
    ended = started + jobs * 1_000 + number % 7 * 10_000
    found: dict[str, Any] = {
        f"{app}/app": rec.Application(
            id=app, name=name(number), user=f"user-{number % 9}", spark_version="4.3.0", started=started, last_event=ended,
            status="RUNNING" if runs else "FAILED" if failed else "SUCCEEDED", status_from="python", jobs=jobs,
            ended=0 if runs else ended, duration_ms=0 if runs else ended - started, jobs_failed=int(failed), sql=EXECUTIONS,
            stages=jobs if is_complete else 0, tasks=8 * jobs, input_rows=100_000 * jobs, input_bytes=4_000_000 * jobs,
            run_ms=4_000 * jobs, cpu_ms=3_500.0 * jobs, gc_ms=100 * jobs, shuffle_wait_ms=50 * jobs,
            error=rec.Error("RuntimeError: no report today") if failed else None,
        )
    }  # fmt: skip
    found |= {sql_key(app, each): _execution(number, each, started, jobs) for each in range(EXECUTIONS)}
    found |= dict(_parts(app, number, jobs, started)) if is_complete else {}
    records = {place: rec.to_value(record) for place, record in found.items()}
    for each in range(jobs):
        records[job_key(app, each)] = job(each, started + each * 1_000, failed and each == jobs - 1)
    return records | index.index_entries(records)


def _execution(number: int, each: int, started: int, jobs: int) -> rec.Sql:
    """An SQL execution that reads two data sets of its area and writes one."""
    area, table = divmod(number * EXECUTIONS + each, AREA)
    reads = [rec.Access("parquet", path(area, table * share // 100)) for share in (40, 90)]
    share = max(1, jobs // EXECUTIONS)
    nodes = ["1 Execute", *(f"{node} Project" for node in range(2, 12)), "12 Scan parquet", "13 Scan parquet"]
    return rec.Sql(
        id=each, root=each, description=f"fill table {table}", status="SUCCEEDED", started=started + each * share * 1_000,
        ended=started + (each + 1) * share * 1_000, duration_ms=share * 1_000, plan=PLAN, nodes=nodes, reads=reads,
        jobs=list(range(each * share, min(jobs, (each + 1) * share))),
        writes=[rec.Access("parquet", path(area, table))], edges=[rec.PlanEdge(node + 1, node) for node in range(1, 13)],
        metrics=[rec.Metric(node, "number of output rows", "sum", at, at * 100) for at, node in enumerate(nodes)],
    )  # fmt: skip


def _parts(app: str, number: int, jobs: int, started: int) -> Iterator[tuple[str, Any]]:
    """The stages, the executors, the settings and the streaming query of a complete application."""
    spark = {f"spark.sql.setting.{each:03}": f"value {each * (number // NAMES)}" for each in range(150)}
    yield f"{app}/env", rec.Environment(spark={"spark.app.name": name(number), **spark}, jvm={"Java Version": "21"})
    for each in range(EXECUTORS):
        yield (
            executor_key(app, str(each)),
            rec.Executor(id=str(each), host=f"host-{each}", cores=4, added=started, tasks=2 * jobs),
        )
    for each in range(jobs):
        begun = started + each * 1_000
        yield stage_key(app, each, 0), rec.Stage(
            id=each, job=each, jobs=[each], name="count at report.py:12", status="SUCCEEDED", started=begun, ended=begun + 900,
            duration_ms=900, planned=8, tasks=8, run_ms=4_000 + each, cpu_ms=3_500.0, gc_ms=100, input_rows=100_000,
            input_bytes=4_000_000, task_min_ms=100, task_p25_ms=200, task_median_ms=300, task_p75_ms=600, task_p95_ms=800,
            task_max_ms=880, skew=2.9, buckets={"100": 2, "300": 4, "880": 2},
            slowest=rec.Slowest(ms=880, task=3, host="host-1"),
            quantiles=rec.TaskQuantiles(gc_ms=rec.Quantiles(1, 2, 3, 4, 5, 6)),
        )  # fmt: skip
    yield stream_key(app, STREAM), rec.Stream(
        id=STREAM, name="counts", status="SUCCEEDED", started=started, ended=started + BATCHES * 1_000, last_batch=BATCHES - 1,
        batches=BATCHES, input_rows=BATCHES * 10,
    )  # fmt: skip
    for each in range(BATCHES):
        yield stream_key(app, STREAM, each), rec.Batch(
            query=STREAM, name="counts", batch=each, at=started + each * 1_000, duration_ms=100 + each, input_rows=10,
            input_rows_per_second=10.0, processed_rows_per_second=90.0, state_rows=each,
        )  # fmt: skip
