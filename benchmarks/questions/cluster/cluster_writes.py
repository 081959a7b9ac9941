"""Writes to a durable map of the cluster, beside writes to a volatile map of the same nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from benchmarks.harness import Question, Row, Run, rate, ratio_row
from benchmarks.nodes import Nodes, nodes

QUESTION = Question(
    "cluster_writes",
    "How much does the log slow down a client of the cluster?",
    "the same client on a map that is memory only (`tmp.…`) of the same nodes.",
    "starting nodes and client, and a warm-up of each map. Client and all nodes share the machine's cores.",
)
VALUE = b"x" * 100
IN_FLIGHT = 500
BATCH = 1_000
VOLATILE, DURABLE = "tmp.bench", "bench"


def in_flight(proxy: Any, count: int) -> None:
    """Put `count` keys, 500 in flight at a time. Returns when all are acknowledged."""
    slots = threading.Semaphore(IN_FLIGHT)
    failed: list[BaseException] = []

    def done(answer: Any) -> None:
        if not answer.is_success():
            failed.append(answer.exception())
        slots.release()

    for number in range(count):
        slots.acquire()
        proxy.set(f"{number:08d}", VALUE).add_done_callback(done)
    for _ in range(IN_FLIGHT):
        slots.acquire()
    if failed:
        raise failed[0]


def one_by_one(proxy: Any, count: int) -> None:
    """Put `count` keys, each after the acknowledgement of the one before."""
    blocking = proxy.blocking()
    for number in range(count):
        blocking.set(f"{number:08d}", VALUE)


def in_batches(proxy: Any, count: int) -> None:
    """Put `count` keys with calls of put_all of 1,000 keys."""
    blocking = proxy.blocking()
    for first in range(0, count, BATCH):
        blocking.put_all({f"{number:08d}": VALUE for number in range(first, first + BATCH)})


def compare(run: Run, cluster: Nodes, title: str, work: Callable[[Any, int], None], count: int, target: float) -> Row:
    """One row: both kinds of map in turn."""
    with cluster.client() as client:
        for name in (VOLATILE, DURABLE):
            work(client.get_map(name), count)

        def measured(name: str) -> float:
            return rate(count, lambda: work(client.get_map(name), count))

        baselines, ours = run.interleave(5, lambda: measured(VOLATILE), lambda: measured(DURABLE))
    return ratio_row(title, "puts/s", baselines, ours, "at least", target)


def measure(run: Run) -> list[Row]:
    """Four rows: one node with three ways to write, and three nodes with a backup of each entry."""
    rows = []
    with nodes(run.root(), 1, run.root()) as one:
        many, few = run.size(40_000, 2_000), run.size(3_000, 100)
        rows.append(compare(run, one, "500 in flight, one node (sync)", in_flight, many, 0.7))
        rows.append(compare(run, one, "one by one, one node (sync)", one_by_one, few, 0.6))
        rows.append(compare(run, one, "put_all of 1,000, one node (sync)", in_batches, many, 0.5))
    with nodes(run.root(), 3, run.root()) as three:
        rows.append(compare(run, three, "500 in flight, three nodes, backup 1 (sync)", in_flight, many, 0.75))
    return rows
