"""The commands `kvwal jobs` on a cluster with many applications, from start to exit."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row
from benchmarks.nodes import CLUSTER, Nodes, nodes
from benchmarks.questions.spark.listing import DAY, NOW, application, seconds_of
from kvwal.spark import index

QUESTION = Question(
    "cluster_listing",
    "How long do questions about many Spark applications in a cluster take?",
    "the command itself with nothing to read, `kvwal jobs --help`.",
    "the processor time of the node, which is noted, and a first run of each. One node serves: more nodes share the look at the"
    " keys. The records are those of the question about a root.",
)
BATCH = 2_000
HEAP = "5g"
"""A million records take about 2 GB of it."""


def write(root: Path, archive: Path, applications: int, jobs: int, large: int) -> None:
    """An archive from which a cluster loads so many applications of the last 100 days, and one of `large` jobs."""
    with kvwal.open(root, cluster=CLUSTER, archive=archive, flush="os") as store:
        records = store.map("spark")
        records.put_many(index.mark_of(records, index.CLUSTER))
        step = 100 * DAY // applications
        for number in range(applications):
            records.put_many(application(number, jobs, NOW - (applications - number) * step))
        big = list(application(applications + 1, large, NOW - large * 1_000).items())
        for first in range(0, len(big), BATCH):
            records.put_many(dict(big[first : first + BATCH]))
        store.archive()


def row(run: Run, cluster: Nodes, name: str, target: float, arguments: list[str]) -> Row:
    """One question: seconds of the command's processor, with those of the nodes, and the time it took."""
    command = ["jobs", cluster.location, "--cluster", CLUSTER, *arguments]
    seconds_of(*command)
    node_seconds: list[float] = []
    seconds: list[float] = []

    def ours() -> float:
        before, started = cluster.processor_seconds(), time.perf_counter()
        used = seconds_of(*command)
        seconds.append(time.perf_counter() - started)
        node_seconds.append(cluster.processor_seconds() - before)
        return used

    baselines, figures = run.interleave(3, lambda: seconds_of("jobs", "--help"), ours)
    notes = {
        "processor time of the node, seconds": statistics.median(node_seconds),
        "start to exit, seconds": statistics.median(seconds),
    }
    return absolute_row(name, "s of processor time", baselines, figures, "at most", target, notes)


def measure(run: Run) -> list[Row]:
    """A row for each question, in seconds of processor time."""
    few, many, large = run.size(2_600, 10), run.size(10_000, 20), run.size(10_000, 30)
    archive, larger = run.root(), run.root()
    write(run.root(), archive, few, run.size(100, 2), 2)
    with nodes(run.root(), 1, archive, HEAP) as cluster:
        rows = [row(run, cluster, "2,600 applications with 260,000 jobs, in a cluster", 1, [])]
    write(run.root(), larger, many, run.size(100, 2), large)
    since = time.strftime("%Y-%m-%d", time.gmtime((NOW - DAY) / 1_000))
    with nodes(run.root(), 1, larger, HEAP) as cluster:
        rows += [
            row(run, cluster, "10,000 applications with 1M jobs, in a cluster", 2, []),
            row(run, cluster, "One application of 10,000 jobs, in a cluster", 1, [f"application_{NOW}_{many + 1:06d}"]),
            row(run, cluster, "Failures of the last day, in a cluster", 1, ["--failed", "--since", since]),
        ]
    return rows
