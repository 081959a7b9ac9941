"""Transactions of ten, a hundred and a thousand entries, beside the peers that have them."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run
from benchmarks.peers import rounds
from benchmarks.peers.contestants import able
from benchmarks.peers.workloads import BATCHES, transactions

QUESTION = Question(
    "peers_transactions",
    "How fast are transactions of many entries beside the peers?",
    "the peer that the row names. One producer puts transactions of new keys with values of 100 bytes, built in the loop.",
    "starting the processes, and their warm-up. Redis and etcd are driven by their Python clients: MSET, and Txn.",
)
AHEAD = dict.fromkeys(("rocksdb", "sqlite", "lmdb", "diskcache"), 1.0)
FEW = ["kvwal", "nifi-minimal-locking", "rocksdb", "sqlite"]
TARGETS: dict[int, dict[str, float]] = {
    100: {"nifi-minimal-locking": 1.2, **AHEAD},
    1_000: {"flume": 4, "rocksdb": 2.5},
}


def measure(run: Run) -> list[Row]:
    """A row for each size of transaction and each peer."""
    rows = []
    for entries in (100,) if run.quick else BATCHES[1:]:
        load = transactions(entries)
        names = FEW if entries == BATCHES[1] else able("transactions")
        figures = rounds.contest(run, names, 3, partial(rounds.puts, run, load=load))
        rows += rounds.rows(load.name, "entries/s", figures, TARGETS.get(entries, {}))
    return rows
