"""Many puts in flight on one event loop, beside the peers that wait for many at once."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run
from benchmarks.peers import redis_benchmark, rounds
from benchmarks.peers.workloads import REDIS_CLIENTS, REDIS_PIPELINE, Load, producers

QUESTION = Question(
    "peers_in_flight",
    "How fast are many durable puts in flight beside the peers?",
    "the peer that the row names. kvwal's producers are tasks of kvwal.aio in one process; NiFi's are threads, SeaTunnel's one "
    "thread calls storeAll, Redis is driven by redis-benchmark, and etcd by threads over gRPC from Python. The client of etcd "
    "takes a good part of the two cores; its own benchmark in Go reaches about twice as much.",
    "starting the processes, and their warm-up.",
)
WORKLOADS: dict[str, tuple[Load, dict[str, float]]] = {
    "32 in flight": (producers(32, "tasks"), {"nifi-minimal-locking": 1.5}),
    "50 in flight": (producers(50, "tasks"), {"redis": 1.2, "etcd": 8}),
    "64 in flight": (producers(64, "tasks"), {"seatunnel": 10}),
    "1,000 in flight": (producers(1_000, "tasks"), {"redis": 0.8}),
}


def once(run: Run, name: str, load: Load) -> rounds.Figures:
    """One contestant with as many puts in flight as the load has producers."""
    if name == "seatunnel":
        return rounds.puts(run, name, Load(load.name, batch=load.producers))
    if name == "redis":
        pipeline = 1 if load.producers <= REDIS_CLIENTS else REDIS_PIPELINE
        requests = run.size(40_000 * pipeline, 1_000)
        (rate,) = redis_benchmark.run(run.root(), ["set"], requests, REDIS_CLIENTS, pipeline).values()
        return {"rate": rate}
    return rounds.puts(run, name, load)


def measure(run: Run) -> list[Row]:
    """A row for each number in flight and the peers to which it is set."""
    rows = []
    for title, (load, targets) in list(WORKLOADS.items())[1 if run.quick else 0 :]:
        figures = rounds.contest(run, ["kvwal", *targets], 3, partial(once, run, load=load))
        rows += rounds.rows(title, "puts/s", figures, targets)
    return rows
