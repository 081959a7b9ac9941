"""Producers that each wait for their own put, beside the peers."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import rounds
from benchmarks.peers.workloads import PRODUCERS, Load, producers

QUESTION = Question(
    "peers_producers",
    "How fast are single durable puts beside the peers, by the number of producers?",
    "the peer that the row names, or a bare loop of one thread that appends 140 bytes to a growing file and calls fdatasync. "
    "Every producer is a thread that puts one value of 100 bytes at a time.",
    "starting the processes, and their warm-up. SeaTunnel has a storage, and so a file, for each producer.",
)
LOGS = ["bare", "kvwal", "seatunnel", "nifi-sequential", "nifi-minimal-locking", "flume"]
STORES = ["rocksdb", "sqlite", "lmdb", "diskcache"]
NAMES = {
    1: [*LOGS, *STORES],
    2: LOGS,
    8: ["bare", "kvwal", "nifi-minimal-locking", "rocksdb", "sqlite"],
    32: ["bare", "kvwal", "nifi-sequential", "nifi-minimal-locking"],
    64: ["bare", "kvwal", *STORES],
}
"""Who takes part, by the number of producers: the logs where few write, the stores where many do."""
AHEAD = dict.fromkeys(STORES, 1.0)
TARGETS: dict[int, dict[str, float]] = {
    1: {"bare": 0.9},
    2: {"bare": 1.2},
    32: {"nifi-sequential": 4, "nifi-minimal-locking": 1},
    64: AHEAD,
}
OWN_MAPS = {2: ("nifi-minimal-locking", 1.0), 8: ("bare", 2.0)}
"""Threads with a map, and so a log, each: how many, beside what, and the target."""


def own_maps(run: Run, threads: int, peer: str, target: float) -> list[Row]:
    """One row: as many maps as threads."""
    load = Load(f"{threads} producers on {threads} maps", producers=threads)

    def once(name: str) -> rounds.Figures:
        if name == "kvwal":
            function = f"{rounds.DRIVE}:puts_on_own_maps"
            sizes = {"producers": threads, "value": load.value, **rounds.seconds(run)}
            return dict(in_child(function, folder=str(run.root()), **sizes))
        return rounds.puts(run, name, load)

    return rounds.rows(load.name, "puts/s", rounds.contest(run, [peer, "kvwal"], 3, once), {peer: target})


def measure(run: Run) -> list[Row]:
    """A row for each number of producers and each peer, then those with a map for each thread."""
    rows = []
    for count in (2,) if run.quick else PRODUCERS:
        load = producers(count)
        figures = rounds.contest(run, NAMES[count], 3, partial(rounds.puts, run, load=load))
        rows += rounds.rows(load.name, "puts/s", figures, TARGETS.get(count, {}))
    for threads, (peer, target) in OWN_MAPS.items():
        rows += own_maps(run, threads, peer, target)
    return rows
