"""Queues: puts and takes of one transaction each, beside Flume's file channel."""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import java, rounds

QUESTION = Question(
    "peers_queues",
    "How fast does a queue take what was put?",
    "Flume's file channel, and NiFi's log. One thread puts items of 100 bytes in a transaction, and takes as many in the next "
    "one, again and again; an item counts when it was taken. In one row 64 tasks of kvwal.aio do so, and 64 threads of Flume. "
    "In the last row 10,000 records move from one queue to another, each with a change of its 100 bytes, 100 in a transaction: "
    "for kvwal the take of an item, the put of another one and the put of a map's entry, for NiFi an update of its log.",
    "starting the processes, and their warm-up.",
)
TARGETS = {1: 1.0, 100: 2.0, 1_000: 3.0}
IN_FLIGHT, TARGET_IN_FLIGHT = 64, 4.0
VALUE = 100
MOVED, RECORDS, TARGET_MOVED = 100, 10_000, 1.0


def moved(run: Run, name: str) -> rounds.Figures:
    """One contestant that moves records: kvwal in three entries for each, NiFi in one."""
    sizes = {"batch": MOVED, "value": VALUE, **rounds.seconds(run)}
    if name == "kvwal":
        return dict(in_child(f"{rounds.DRIVE}:moves", folder=str(run.root()), records=RECORDS, **sizes))
    sizes["warm_up"] *= rounds.JAVA_WARM_UP
    answer = java.run(name, "puts", folder=run.root(), producers=1, keys=RECORDS, **sizes)
    return {**answer, "rate": answer["count"] / answer["seconds"]}


def once(run: Run, name: str, batch: int) -> rounds.Figures:
    """One contestant with `batch` items a transaction."""
    sizes = {"producers": 1, "batch": batch, "value": VALUE, **rounds.seconds(run)}
    if name == "kvwal":
        return dict(in_child(f"{rounds.DRIVE}:queue", folder=str(run.root()), **sizes))
    sizes["warm_up"] *= rounds.JAVA_WARM_UP
    answer = java.run(name, "puts", folder=run.root(), takes=1, **sizes)
    return {**answer, "rate": answer["count"] / answer["seconds"]}


def in_flight(run: Run, name: str) -> rounds.Figures:
    """One contestant with an item a transaction: kvwal with tasks, Flume with as many threads."""
    sizes = {"producers": IN_FLIGHT, "value": VALUE, **rounds.seconds(run)}
    if name == "kvwal":
        return dict(in_child(f"{rounds.DRIVE}:queue_tasks", folder=str(run.root()), **sizes))
    sizes["warm_up"] *= rounds.JAVA_WARM_UP
    answer = java.run(name, "puts", folder=run.root(), takes=1, batch=1, **sizes)
    return {**answer, "rate": answer["count"] / answer["seconds"]}


def measure(run: Run) -> list[Row]:
    """A row for each size of transaction, one for many takers, and one for records that move."""
    rows = []
    for batch, target in list(TARGETS.items())[1 if run.quick else 0 :]:
        figures = rounds.contest(run, ["kvwal", "flume"], 3, partial(once, run, batch=batch))
        rows += rounds.rows(f"{batch:,} a transaction", "items/s", figures, {"flume": target})
    figures = rounds.contest(run, ["kvwal", "flume"], 3, partial(in_flight, run))
    rows += rounds.rows(f"{IN_FLIGHT} in flight, 1 a transaction", "items/s", figures, {"flume": TARGET_IN_FLIGHT})
    peer = "nifi-minimal-locking"
    figures = rounds.contest(run, ["kvwal", peer], 3, partial(moved, run))
    return rows + rounds.rows(f"records that move, {MOVED} a transaction", "records/s", figures, {peer: TARGET_MOVED})
