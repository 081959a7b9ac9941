"""YCSB's workloads A to F, by their published definitions, beside the stores that can read."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run
from benchmarks.peers import rounds
from benchmarks.peers.contestants import able
from benchmarks.peers.workloads import YCSB, YCSB_RECORDS, YCSB_THREADS, YCSB_VALUE

QUESTION = Question(
    "peers_ycsb",
    "How fast are YCSB's workloads beside the peers?",
    "the peer that the row names, under the same mix from eight threads: records of 1,000 bytes, keys by YCSB's scrambled "
    "zipfian distribution, or its latest. All run from Python by their public interface, and every write is durable.",
    "loading the records. kvwal scans from the first key that has the start's prefix, for it scans by prefix.",
)
NAMES = ["kvwal", "redis", "rocksdb", "sqlite", "lmdb"]


def measure(run: Run) -> list[Row]:
    """A row for each workload and each peer that has its operations."""
    rows = []
    for mix in (YCSB[0], YCSB[4]) if run.quick else YCSB:
        names = [name for name in NAMES if not mix.scan or name in able("ranges")]
        arguments = {
            "mix": mix.name, "records": run.size(YCSB_RECORDS, 1_000), "value": YCSB_VALUE, "threads": YCSB_THREADS,
            **rounds.seconds(run),
        }  # fmt: skip
        figures = rounds.contest(run, names, 2, partial(rounds.drive, run, function="mix", arguments=arguments))
        rows += rounds.rows(f"YCSB {mix.name}", "operations/s", figures, {})
    return rows
