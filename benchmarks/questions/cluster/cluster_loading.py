"""The load of a cluster's memory from the archive, after the loss of all members."""

from __future__ import annotations

import os
import time
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row
from benchmarks.nodes import CLUSTER, nodes
from benchmarks.questions.cluster.cluster_writes import VOLATILE, in_batches

QUESTION = Question(
    "cluster_loading",
    "How long does a cluster load after it lost all its members?",
    "the archive's reader, which merges the same objects in a fresh process and drops the rows; for the last row, Hazelcast's"
    " client, which puts as many entries into a map in memory only (`tmp.…`) of three nodes, 1,000 a call.",
    "the start of interpreters and JVMs, and the bootstrap. The time runs from the moment when the first member begins to load"
    " until all members serve.",
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
    """The baseline: read the latest entry of every key, and drop it."""
    from kvwal_archive.objects import open_objects
    from kvwal_archive.restore import restore_batches

    objects = open_objects(archive)
    started = time.perf_counter()
    rows = sum(batch.num_rows for batch in restore_batches(objects, "default", CLUSTER, "bench").batches)
    return {"rows": rows, "seconds": time.perf_counter() - started, "memory": peak_memory()}


def loaded(run: Run, count: int, archive: Path, keys: int) -> tuple[float, dict[str, float]]:
    """Start `count` nodes with empty roots. Returns the seconds of the load, and the memory of the nodes afterwards."""
    with nodes(run.root(), count, archive) as cluster, cluster.client() as client:
        if (size := client.get_map("bench").blocking().size()) != keys:
            raise AssertionError(f"{size} of {keys} entries came back")
        return cluster.seconds_of_loading(), cluster.memory()


def bulk_load(run: Run, keys: int) -> float:
    """Seconds in which a client puts so many entries into a volatile map of three nodes."""
    with nodes(run.root(), 3, run.root()) as cluster, cluster.client() as client:
        started = time.perf_counter()
        in_batches(client.get_map(VOLATILE), keys)
        return time.perf_counter() - started


def measure(run: Run) -> list[Row]:
    """Three rows: entries a second into one node; the time of three nodes with one backup of each entry, beside the archive's
    reader and beside a client's bulk load.
    """
    keys = run.size(1_000_000, 2_000)
    archive = run.root()
    in_child(f"{MODULE}:fill", root=str(run.root()), archive=str(archive), keys=keys)
    memory: dict[int, dict[str, float]] = {}

    def seconds(count: int) -> float:
        loading, memory[count] = loaded(run, count, archive, keys)
        return loading

    def baseline() -> float:
        return float(in_child(f"{MODULE}:read_archive", archive=str(archive))["seconds"])

    baselines, ours = run.interleave(3, lambda: keys / baseline(), lambda: keys / seconds(1))
    one = absolute_row("1M entries into one node", "entries/s", baselines, ours, "at least", 250_000, memory[1])
    loads: list[float] = []

    def beside() -> float:
        loads.append(bulk_load(run, keys))
        return baseline()

    baselines, ours = run.interleave(3, beside, lambda: seconds(3))
    three = ratio_row("1M entries into three nodes, backup 1", "s", baselines, ours, "at most", 3, memory[3])
    return [one, three, ratio_row("1M entries into three nodes, beside a bulk load", "s", loads, ours, "at most", 1.5)]
