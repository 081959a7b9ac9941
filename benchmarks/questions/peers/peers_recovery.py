"""Opening what a million entries left on the disk, beside the peers."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import java, rounds
from benchmarks.peers.contestants import CONTESTANTS, able, present
from benchmarks.peers.servers import server
from benchmarks.peers.workloads import RECOVERED

QUESTION = Question(
    "peers_recovery",
    "How fast does kvwal recover beside the peers?",
    "the peer that the row names: from its opening until all entries were read once. What stays on the disk, as in RocksDB, "
    "SQLite, LMDB and diskcache, is read from there. kvwal's and NiFi's figures are from the log alone, without a snapshot.",
    "starting an interpreter or a JVM. Redis's and etcd's figures have the start of their server, which takes a few hundredths "
    "of a second. SeaTunnel, diskcache and etcd take too long to fill with a million entries, so theirs are of fewer.",
)
TARGETS: dict[str, float] = {"seatunnel": 2, "nifi-sequential": 1, "flume": 2, "redis": 2}
FEWER = {"seatunnel": 20, "diskcache": 5, "etcd": 5}
"""By what the number of entries is divided."""
BATCH = {"seatunnel": 64, "etcd": 1_000}


def fill(run: Run, name: str, folder: Path, entries: int) -> None:
    """Write the entries durably, and end in order."""
    sizes = {"folder": str(folder), "count": entries, "batch": BATCH.get(name, 1_000), "value": 100}
    kind = CONTESTANTS[name].kind
    if kind == "java":
        java.run(name, "fill", **sizes)
    elif kind == "server":
        with server(name, folder) as opening:
            in_child(f"{rounds.DRIVE}:fill", name=name, port=opening.port, **sizes)
    else:
        in_child(f"{rounds.DRIVE}:fill", name=name, port=0, **sizes)


def recover(name: str, folders: dict[str, Path], entries: dict[str, int]) -> rounds.Figures:
    """Entries a second of one recovery. Raises AssertionError if not all came back."""
    folder, kind = folders[name], CONTESTANTS[name].kind
    if kind == "java":
        figures = java.run(name, "recover", folder=folder)
    elif kind == "server":
        started = time.perf_counter()
        with server(name, folder) as opening:
            seconds = time.perf_counter() - started
            counted = in_child(f"{rounds.DRIVE}:recover", name=name, folder=str(folder), port=opening.port)
        figures = {**counted, "seconds": seconds}
    else:
        figures = in_child(f"{rounds.DRIVE}:recover", name=name, folder=str(folder), port=0)
    if figures["count"] != entries[name]:
        raise AssertionError(f"{name}: {figures['count']:.0f} of {entries[name]} entries came back")
    return {"rate": figures["count"] / figures["seconds"]}


def measure(run: Run) -> list[Row]:
    """A row for each peer."""
    million = run.size(RECOVERED, 4_000)
    names, _ = present(able("recovery"))
    folders = {name: run.root() for name in names}
    entries = {name: million // FEWER.get(name, 1) for name in names}
    for name in names:
        fill(run, name, folders[name], entries[name])
    figures = rounds.contest(run, able("recovery"), 3, partial(recover, folders=folders, entries=entries))
    return rounds.rows(f"recovery of {million:,} entries", "entries/s", figures, TARGETS)
