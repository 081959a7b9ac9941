"""The memory of a cluster from its archive, when no member is left to ask."""

from __future__ import annotations

import os
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row
from benchmarks.nodes import CLUSTER, nodes

QUESTION = Question(
    "cluster_loading",
    "How long is a cluster that lost all its members without its memory?",
    "the archive's own reader merging the same objects in a fresh process, and throwing the rows away.",
    "starting interpreters and JVMs and meeting each other: measured from the moment at which a member begins to fill memory"
    " until all of them serve.",
)
MODULE = "benchmarks.questions.cluster.cluster_loading"


def fill(root: str, archive: str, keys: int) -> int:
    """An archive of `keys` keys with values of 100 bytes."""
    block = os.urandom(1 << 20)
    with kvwal.open(root, cluster=CLUSTER, archive=archive, flush="os") as store:
        puts = store.map("bench")
        for first in range(0, keys, 1_000):
            start = first * 7 % (len(block) - 101_000)
            numbers = range(first, first + 1_000)
            puts.submit_many({f"{i:08d}": block[start + i - first : start + i - first + 100] for i in numbers})
        store.archive()
    return keys


def read_archive(archive: str) -> dict[str, float]:
    """The limit: the latest of every key, as a stream that nobody keeps."""
    from archive.objects import open_objects
    from archive.restore import restore_batches

    objects = open_objects(archive)
    started = time.perf_counter()
    rows = sum(batch.num_rows for batch in restore_batches(objects, "default", CLUSTER, "bench").batches)
    return {"rows": rows, "seconds": time.perf_counter() - started, "memory": peak_memory()}


def loaded(run: Run, count: int, archive: Path, keys: int) -> tuple[float, dict[str, float]]:
    """Start `count` nodes with empty roots: the seconds of loading, and what they have in memory afterwards."""
    with nodes(run.root(), count, archive) as cluster, cluster.client() as client:
        if (found := client.get_map("bench").blocking().size()) != keys:
            raise AssertionError(f"{found} of {keys} entries came back")
        return cluster.seconds_of_loading(), cluster.memory()


def measure(run: Run) -> list[Row]:
    """Two rows: entries a second into one node, and the time of three nodes with one backup of each entry."""
    keys = run.size(1_000_000, 2_000)
    archive = run.root()
    in_child(f"{MODULE}:fill", root=str(run.root()), archive=str(archive), keys=keys)
    memory: dict[int, dict[str, float]] = {}

    def seconds(count: int) -> float:
        took, memory[count] = loaded(run, count, archive, keys)
        return took

    def limit() -> float:
        return float(in_child(f"{MODULE}:read_archive", archive=str(archive))["seconds"])

    limits, ours = run.interleave(3, lambda: keys / limit(), lambda: keys / seconds(1))
    one = absolute_row("1M entries into one node", "entries/s", limits, ours, "at least", 250_000, memory[1])
    limits, ours = run.interleave(3, limit, lambda: seconds(3))
    return [one, ratio_row("1M entries into three nodes, backup 1", "s", limits, ours, "at most", 3, memory[3])]
