"""The command `kvwal lineage` on a graph of many applications, from start to exit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row
from benchmarks.questions.spark.listing import NOW, seconds_of
from kvwal.spark import index
from kvwal.spark import records as rec
from kvwal.spark.record_keys import sql_key

QUESTION = Question(
    "lineage",
    "How long does it take to ask where a data set comes from and where it goes, over 10,000 applications?",
    "the command itself with nothing to read, `kvwal jobs --help`.",
    "a first run of each, in which Python caches bytecode. The records are synthetic and written as `kvwal record` writes them: "
    "one node, ten SQL executions an application, each with a plan of 2,000 characters. An execution reads two data sets of its "
    "area and writes one; an area has 1,000 data sets. So every data set is written by one execution.",
)
AREA = 1_000
"""Data sets that come from each other."""
EXECUTIONS = 10
PLAN = "*(1) Project [carrier#12, delay#13]\n" * 55


def path(area: int, number: int) -> str:
    """The path of a data set."""
    return f"s3a://lake/area-{area:03}/table-{number:04}"


def application(number: int) -> dict[str, object]:
    """The records of one application and its index, by key."""
    prefix = f"application_{NOW}_{number:06d}"
    app = rec.Application(id=prefix, name=f"report-{number % 200}", status="SUCCEEDED", started=NOW, sql=EXECUTIONS)
    records = {f"{prefix}/app": rec.to_value(app)}
    for each in range(EXECUTIONS):
        area, table = divmod(number * EXECUTIONS + each, AREA)
        reads = [rec.Access("parquet", path(area, table * share // 100)) for share in (40, 90)]
        sql = rec.Sql(
            id=each, root=each, description=f"fill table {table}", status="SUCCEEDED", started=NOW, ended=NOW + table,
            reads=reads, writes=[rec.Access("parquet", path(area, table))], plan=PLAN,
        )  # fmt: skip
        records[sql_key(prefix, each)] = rec.to_value(sql)
    return records | index.index_entries(records)


def write(root: Path, applications: int) -> None:
    """A store with this number of applications."""
    with kvwal.open(root, archive=None, flush="os") as store:
        records = store.map("spark")
        records.put_many(index.mark_of(records, store.node or ""))
        for number in range(applications):
            records.put_many(application(number))
        store.checkpoint()


def reached(root: Path, dataset: str) -> dict[str, float]:
    """How many data sets the answer has, and how long it took."""
    started = time.perf_counter()
    command = [str(Path(sys.executable).with_name("kvwal")), "lineage", str(root), dataset, "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    seconds = time.perf_counter() - started
    return {"data sets up": len(told["up"]), "data sets down": len(told["down"]), "start to exit, seconds": seconds}


def measure(run: Run) -> list[Row]:
    """A row for each question, in seconds of processor time."""
    root, applications = run.root(), run.size(10_000, 100)
    write(root, applications)
    questions = {
        "up and down from a data set in the middle": (1, [path(applications // 200, 500)]),
        "all that comes from a source": (1, [path(applications // 200, 0), "--down"]),
        "one run up and one down": (1, [path(applications // 200, 500), "--depth", "1"]),
    }
    rows = []
    for name, (target, arguments) in questions.items():
        command = ["lineage", str(root), *arguments]
        seconds_of(*command)
        baselines, ours = run.interleave(
            5, lambda: seconds_of("jobs", "--help"), lambda given=command: seconds_of(*given)
        )
        rows.append(
            absolute_row(name, "s of processor time", baselines, ours, "at most", target, reached(root, arguments[0]))
        )
    return rows
