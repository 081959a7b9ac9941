"""The time without an acknowledgement after one node of a cluster is killed."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run
from benchmarks.nodes import CLUSTER, Nodes, nodes

QUESTION = Question(
    "cluster_kill",
    "How long does a client wait when a node is killed?",
    "none. The figure is the longest time between two answers while 100 puts of one client are in flight.",
    "starting nodes and client. Client and all nodes share the machine's cores.",
)
VALUE = b"x" * 100
IN_FLIGHT = 100


def longest_gap(run: Run, cluster: Nodes) -> float:
    """Keep 100 puts of `kvwal.connect` in flight and kill a node. Returns the longest time without an answer, in seconds."""
    slots, gap, errors = threading.Semaphore(IN_FLIGHT), 0.0, []
    last = time.perf_counter()

    def done(future: Any) -> None:
        """Runs on the client's callback thread only."""
        nonlocal gap, last
        now = time.perf_counter()
        gap, last = max(gap, now - last), now
        if future.exception() is not None:
            errors.append(future.exception())
        slots.release()

    with kvwal.connect(cluster.addresses, cluster=CLUSTER) as store:
        puts = store.map("bench")

        def put(until: float) -> None:
            numbers = itertools.cycle(range(10_000))
            while time.perf_counter() < until:
                slots.acquire()
                puts.submit(f"{next(numbers):08d}", VALUE).add_done_callback(done)

        put(time.perf_counter() + run.size(5, 1))
        gap = 0.0
        cluster.running[-1].kill()
        put(time.perf_counter() + run.size(12, 1))
        for _ in range(IN_FLIGHT):
            slots.acquire()
    if errors:
        raise errors[0]
    return gap


def measure(run: Run) -> list[Row]:
    """One row: the longest gap of three kills. No put may fail."""
    gaps = []
    for _ in range(run.size(3, 1)):
        with nodes(run.root(), 3, run.root()) as three:
            gaps.append(longest_gap(run, three))
    name = "100 puts in flight, one node of three is killed (kvwal.connect)"
    return [Row(name, "s", gaps, [0.0] * len(gaps), max(gaps), "s without an answer", 5, "at most")]
