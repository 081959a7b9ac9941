"""The life of a FlowFile, as NiFi's repository has it: records move from queue to queue while their attributes change.

    python examples/flow.py ROOT COUNT     create records until there were COUNT, and bring each to the end of its life
    python examples/flow.py ROOT           print which record is in which queue, also while another process works

A record is an entry of the map `records`: its attributes by its name. A queue has the names of the records whose next step is
the queue's. Each step is one transaction: a name leaves a queue, the attributes change, and the name enters another queue. Kill
the program at any moment and run it again: each record goes on where it was.

    enrich ─► route ─┬─► split ─► count (each child) ─► merge ─► deliver ─► delivered ─► forgotten
     ▲  │            ├─► deliver
     │  ▼            └─► dropped
    penalized; after three tries ─► failed
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from queue import Empty
from typing import Any

import kvwal
from kvwal.structures.facade import BusinessTransaction, Structures

QUEUES = (
    "enrich", "penalized", "failed", "route", "split", "originals", "count", "merge", "deliver", "delivered",
)  # fmt: skip
PENALTY_SECONDS = 0.02
MOST_TRIES = 3
KEPT = 3
"""How many delivered records are kept."""


class NotYetError(Exception):
    """A step cannot be done now: what its transaction took is back at its place."""


class Step:
    """One step of one record, or of a record and its children: a transaction."""

    def __init__(self, transaction: BusinessTransaction) -> None:
        self._transaction = transaction
        self.records = transaction.map("records")
        self.report = transaction.map("report")

    def take(self, queue: str) -> str:
        """The record at the head of a queue. `queue.Empty` if there is none."""
        name: str = self._transaction.queue(queue).take(timeout=0)
        return name

    def take_many(self, queue: str, most: int) -> list[str]:
        """The first records of a queue."""
        return self._transaction.queue(queue).take_many(most)

    def move(self, name: str, queue: str, **changed: Any) -> None:
        """Let a record, a new one too, enter a queue with these attributes changed."""
        self.records[name] = {**self.records.get(name, {}), **changed, "queue": queue}
        self._transaction.queue(queue).put(name)

    def drop(self, name: str, reason: str) -> None:
        """End the life of a record that was taken."""
        del self.records[name]
        self.add(reason, 1)

    def add(self, figure: str, number: int) -> None:
        """Count something, in the transaction of what is counted."""
        self.report[figure] = self.report.get(figure, 0) + number


def create(step: Step) -> str:
    """A new record. Its number says what becomes of it."""
    number = step.report.get("created", 0)
    step.add("created", 1)
    step.move(name := f"order-{number}", "enrich", number=number, tries=0)
    return name


def enrich(step: Step) -> str:
    """Ask a service, which is often away, for the number of lines: a record that it fails is penalized, and tried again."""
    record = step.records[name := step.take("enrich")]
    tries, away = record["tries"] + 1, MOST_TRIES if record["number"] % 8 == 5 else record["number"] % 4 // 3
    if tries > away:
        step.move(name, "route", tries=tries, lines=record["number"] % 4)
    elif tries < MOST_TRIES:
        step.move(name, "penalized", tries=tries, until=time.time() + PENALTY_SECONDS)
    else:
        step.move(name, "failed", tries=tries)
    return name


def release(step: Step) -> str:
    """Give the first penalized record another try, when its penalty is over."""
    name = step.take("penalized")
    if step.records[name]["until"] > time.time():
        raise NotYetError
    step.move(name, "enrich")
    return name


def route(step: Step) -> str:
    """Drop a record without lines, deliver one with a line, split one with several."""
    lines = step.records[name := step.take("route")]["lines"]
    if lines == 0:
        step.drop(name, "dropped")
    elif lines == 1:
        step.move(name, "deliver", amount=amount_of(step.records[name]["number"]))
    else:
        step.move(name, "split")
    return name


def split(step: Step) -> str:
    """Make a child of each line. The original waits until they are merged."""
    parent = step.records[name := step.take("split")]
    for line in range(parent["lines"]):
        step.move(f"{name}/{line}", "count", parent=name, number=parent["number"], line=line)
    step.move(name, "originals")
    return name


def count(step: Step) -> str:
    """Count the amount of a child."""
    child = step.records[name := step.take("count")]
    step.move(name, "merge", amount=amount_of(child["number"]) + child["line"])
    return name


def merge(step: Step) -> str:
    """Merge the children of the first original into it, if all are counted. They come in the order of the originals."""
    name = step.take("originals")
    lines = step.records[name]["lines"]
    children = step.take_many("merge", lines)
    if len(children) < lines:
        raise NotYetError
    amount = 0
    for child in children:
        amount += step.records[child]["amount"]
        step.drop(child, "merged")
    step.move(name, "deliver", amount=amount)
    return name


def deliver(step: Step) -> str:
    """Hand a record over: here its amount is added to a sum."""
    name = step.take("deliver")
    step.add("amount", step.records[name]["amount"])
    step.move(name, "delivered")
    return name


def forget(step: Step) -> str:
    """Forget the oldest delivered record, if there are more than are kept."""
    names = step.take_many("delivered", KEPT + 1)
    if len(names) <= KEPT:
        raise NotYetError
    step.drop(names[0], "forgotten")
    for name in names[1:]:
        step.move(name, "delivered")
    return names[0]


STEPS = (deliver, forget, merge, count, split, route, release, enrich)


def amount_of(number: int) -> int:
    """What the lines of an order cost, each."""
    return 10 * number + 7


def done(flow: Structures, do: Callable[[Step], str]) -> bool:
    """Do a step in one transaction, then say so. False if there is nothing to do."""
    try:
        with flow.transaction() as transaction:
            step = Step(transaction)
            name = do(step)
            step.add("steps", 1)
    except (Empty, NotYetError):
        return False
    print(flow.map("report")["steps"], do.__name__, name, flush=True)
    return True


def run(flow: Structures, number: int) -> None:
    """Create records, and do steps until each has come to an end."""
    while True:
        created = flow.map("report").get("created", 0) < number and done(flow, create)
        moved = [done(flow, step) for step in STEPS]
        if not (created or any(moved)):
            if not flow.queue("penalized"):
                return
            time.sleep(PENALTY_SECONDS)


def show(flow: Structures) -> None:
    """Print each queue that has records, with their attributes, and the report."""
    for queue in QUEUES:
        for name in flow.queue(queue).browse():
            print(f"{queue:<10} {name:<12} {flow.map('records').get(name, {})}")
    print(dict(flow.map("report")))


def main(root: str, number: int | None = None) -> int:
    """Run the flow, or print it."""
    with kvwal.open(root, read_only=number is None) as store:
        flow = store.business("flow")
        if number is None:
            show(flow)
        else:
            run(flow, number)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:])))
