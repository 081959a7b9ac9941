"""Values from ten bytes to four mebibytes, and the workloads for which the project was begun, beside the peers."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run
from benchmarks.peers import rounds
from benchmarks.peers.workloads import SEED_LARGE, SEED_SMALL, VALUES, values

QUESTION = Question(
    "peers_values",
    "How fast are values of every size beside the peers?",
    "the peer that the row names, or a bare loop of one thread that appends as many bytes and calls fdatasync. Two producers put "
    "one value at a time. The two named workloads are those for which the project was begun: the heap of a Java peer has that "
    "size.",
    "starting the processes, and their warm-up. SeaTunnel has a storage, and so a file, for each producer.",
)
NAMES = ["bare", "kvwal", "rocksdb", "sqlite"]
SEED_NAMES = ["bare", "kvwal", "seatunnel", "nifi-minimal-locking"]
SEED = ((SEED_SMALL, 1.4), (SEED_LARGE, 2.0))


def measure(run: Run) -> list[Row]:
    """The two named workloads, then a row for each size and peer."""
    rows = []
    for load, target in SEED:
        figures = rounds.contest(run, SEED_NAMES, 3, partial(rounds.puts, run, load=load))
        limited = {"peak memory of kvwal, MiB": max(each["memory"] for each in figures["kvwal"])}
        made = rounds.rows(load.name, "values/s", figures, {"seatunnel": target})
        rows += [rounds.with_notes(row, limited) if row.must != "no target" else row for row in made]
    for size in VALUES[:1] if run.quick else VALUES:
        load = values(size)
        figures = rounds.contest(run, NAMES, 2, partial(rounds.puts, run, load=load))
        rows += rounds.rows(load.name, "values/s", figures, {})
    return rows
