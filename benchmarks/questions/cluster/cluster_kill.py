"""A node of a cluster is killed: for how long nothing is acknowledged."""

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
    "nothing: the figure is the longest time between two answers while 100 puts of one client are under way.",
    "starting nodes and client. Client and all nodes share the machine's cores.",
)
VALUE = b"x" * 100
AT_ONCE = 100


def longest(run: Run, cluster: Nodes) -> float:
    """Put by `kvwal.connect`, 100 under way at any time, and kill a node: the longest time without an answer, in seconds."""
    room, gap, errors = threading.Semaphore(AT_ONCE), 0.0, []
    last = time.perf_counter()

    def done(future: Any) -> None:
        """Called on one thread."""
        nonlocal gap, last
        now = time.perf_counter()
        gap, last = max(gap, now - last), now
        if future.exception() is not None:
            errors.append(future.exception())
        room.release()

    with kvwal.connect(cluster.addresses, cluster=CLUSTER) as store:
        puts = store.map("bench")

        def put(until: float) -> None:
            numbers = itertools.cycle(range(10_000))
            while time.perf_counter() < until:
                room.acquire()
                puts.submit(f"{next(numbers):08d}", VALUE).add_done_callback(done)

        put(time.perf_counter() + run.size(5, 1))
        gap = 0.0
        cluster.running[-1].kill()
        put(time.perf_counter() + run.size(12, 1))
        for _ in range(AT_ONCE):
            room.acquire()
    if errors:
        raise errors[0]
    return gap


def measure(run: Run) -> list[Row]:
    """One row: the longest of three kills. No put may fail."""
    found = []
    for _ in range(run.size(3, 1)):
        with nodes(run.root(), 3, run.root()) as three:
            found.append(longest(run, three))
    what = "100 puts under way, one node of three is killed (kvwal.connect)"
    return [Row(what, "s", found, [0.0] * len(found), max(found), "s without an answer", 5, "at most")]
