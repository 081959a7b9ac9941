"""Transactions of a cluster: the time of `put_many`, and the rate of two clients whose transactions meet."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, percentile, ratio_row, unranked_row
from benchmarks.nodes import CLUSTER, Nodes, nodes
from kvwal.client.store import ClusterMap, ClusterStore

QUESTION = Question(
    "cluster_transactions",
    "How long does a transaction of a cluster take, and what does it cost where two of them meet?",
    "of the first two rows for each number of nodes, the same calls of the same client (`kvwal.connect`) on a map in memory only"
    " (`tmp.…`); of the rows on two clients, the same transactions of one client alone.",
    "starting nodes and clients, and a warm-up that ends when Java's compilers take less than 5 % of the nodes' processor time,"
    " or after 45 s. Both clients are threads of one Python process. Clients and all nodes share the machine's two cores.",
)
VALUE = b"x" * 100
KEYS = 100
DURABLE, VOLATILE = "bench", "tmp.bench"
TARGETS_MS = {1: 3, 3: 12}
COMPILED = 0.05
"""The share of the nodes' processor time below which Java's compilers are done."""
MOST_WARM_UP_SECONDS = 45
SHARES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
Call = Callable[[ClusterMap], object]


def entries(first: int) -> dict[str, bytes]:
    """The entries of a transaction."""
    return {f"{number:08d}": VALUE for number in range(first, first + KEYS)}


def put_many(target: ClusterMap) -> None:
    """One transaction of 100 keys."""
    target.put_many(entries(0))


def put(target: ClusterMap) -> None:
    """One put."""
    target.put("00000000", VALUE)


def latencies(call: Call, target: ClusterMap, calls: int) -> list[float]:
    """The time of each call in ms, one after the other."""
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        call(target)
        times.append(1000 * (time.perf_counter() - began))
    return times


def transactions(clients: list[ClusterMap], firsts: list[int], seconds: float) -> float:
    """Transactions a second of all clients together. Each changes the keys from its own `first` on, again and again."""
    done = [0] * len(clients)
    failed: list[BaseException] = []
    began = time.perf_counter()

    def change(number: int) -> None:
        values = entries(firsts[number])
        try:
            while time.perf_counter() < began + seconds:
                clients[number].put_many(values)
                done[number] += 1
        except kvwal.KvwalError as error:
            failed.append(error)

    threads = [threading.Thread(target=change, args=(number,)) for number in range(len(clients))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(done) / (time.perf_counter() - began)


class Clients:
    """Two clients of a cluster, and the rows that they measure."""

    def __init__(self, run: Run, cluster: Nodes, stores: list[ClusterStore], title: str) -> None:
        self._run = run
        self._cluster = cluster
        self._title = title
        self._first, self._second = ([store.map(name) for name in (DURABLE, VOLATILE)] for store in stores)
        self._both = [self._first[0], self._second[0]]
        self._calls = run.size(400, 20)
        self._seconds = run.size(20, 2) / 10
        self.warm_up = self._warm_up()

    def _warm_up(self) -> dict[str, float]:
        """Make all calls until Java's compilers are done. Returns how many calls that took, and the compilers' last share."""
        steps, share = 0, 1.0
        until = time.perf_counter() + self._run.size(MOST_WARM_UP_SECONDS, 0)
        while steps == 0 or (share >= COMPILED and time.perf_counter() < until):
            steps += 1
            before = self._cluster.processor_seconds(), self._cluster.compiler_seconds()
            for target in self._first:
                latencies(put_many, target, self._calls)
                latencies(put, target, self._calls)
            for firsts in ([0, 0], [0, KEYS]):
                transactions(self._both, firsts, self._seconds / 2)
            after = self._cluster.processor_seconds(), self._cluster.compiler_seconds()
            share = (after[1] - before[1]) / (after[0] - before[0])
        return {"calls of each kind before": steps * self._calls, "share of Java's compilers then, %": 100 * share}

    def latency(self, name: str, call: Call, target_ms: float | None) -> Row:
        """A row of a call's time: the median of each round, on the durable and on the volatile map in turn."""
        times: dict[str, list[float]] = {"kvwal": [], "the peer": []}

        def median(owner: str, target: ClusterMap) -> float:
            times[owner] += (taken := latencies(call, target, self._calls))
            return statistics.median(taken)

        durable, volatile = self._first
        rounds = self._run.interleave(5, partial(median, "the peer", volatile), partial(median, "kvwal", durable))
        notes = {
            f"{share} of {owner}, ms": percentile(taken, percent)
            for owner, taken in times.items()
            for share, percent in SHARES.items()
        }
        title = f"{name}, {self._title} (sync), p50"
        if target_ms is None:
            return unranked_row(title, "ms", *rounds, notes)
        return absolute_row(title, "ms", *rounds, "at most", target_ms, notes | self.warm_up)

    def meeting(self) -> list[Row]:
        """Two rows of the rate of both clients: on the same keys, and on keys of their own."""
        alone, same, apart = list[float](), list[float](), list[float]()
        for _ in range(self._run.rounds(5)):
            alone.append(transactions(self._both[:1], [0], self._seconds))
            same.append(transactions(self._both, [0, 0], self._seconds))
            apart.append(transactions(self._both, [0, KEYS], self._seconds))
        beside = statistics.median(mine / other for mine, other in zip(same, apart, strict=True))
        unit, notes = "transactions/s", {"× the rate of two clients on keys of their own": beside}
        return [
            ratio_row(f"Two clients, the same 100 keys, {self._title}", unit, alone, same, "at least", 0.9, notes),
            unranked_row(f"Two clients, 100 keys each, {self._title}", unit, alone, apart),
        ]


@contextmanager
def clients(run: Run, nodes_: int, title: str) -> Iterator[Clients]:
    """A cluster of `nodes_` nodes, and two warm clients of it."""
    with (
        nodes(run.root(), nodes_, run.root()) as cluster,
        kvwal.connect(cluster.addresses, cluster=CLUSTER) as first,
        kvwal.connect(cluster.addresses, cluster=CLUSTER) as second,
    ):
        yield Clients(run, cluster, [first, second], title)


def measure(run: Run) -> list[Row]:
    """Four rows for one node and for three: a transaction, a put, and two clients whose transactions meet or do not."""
    rows = []
    for nodes_, title in ((1, "one node"), (3, "three nodes")):
        with clients(run, nodes_, title) as measured:
            rows.append(measured.latency("put_many of 100 keys", put_many, TARGETS_MS[nodes_]))
            rows.append(measured.latency("a put", put, None))
            rows += measured.meeting()
    return rows
