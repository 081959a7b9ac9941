"""Queues of ten million items, and the memory of their process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row

QUESTION = Question(
    "long_queues",
    "What does a queue of ten million items cost?",
    "the same puts and takes, in turn in the same process, at a queue of 1,000 items. An item has 100 bytes.",
    "putting the ten million items. The memory is that of the process with both queues, at its highest, without the processes"
    " that the store starts for checkpoints.",
)
VALUE_BYTES = 100
SHALLOW = 1_000
TOGETHER = 100
ROUNDS = 3
MOST = 300
"""MiB."""


def measured(root: str, depth: int, count: int) -> dict[str, Any]:
    """Rates of puts and takes of `count` items, 100 a transaction, at a queue of 1,000 items and at one of `depth`."""
    rates: dict[str, list[float]] = {f"{what} {where}": [] for what in ("put", "take") for where in ("shallow", "deep")}
    with kvwal.open(f"{root}/shallow", archive=None) as shallow, kvwal.open(f"{root}/deep", archive=None) as deep:
        queues = {"shallow": shallow.queue("bench"), "deep": deep.queue("bench")}
        for where, items in (("shallow", SHALLOW), ("deep", depth)):
            for _ in range(items // 1_000):
                queues[where].put_many(_values(1_000))
        for _ in range(ROUNDS):
            for where, queue in queues.items():
                puts, takes = 0.0, 0.0
                for _ in range(count // TOGETHER):
                    values = _values(TOGETHER)
                    puts += _seconds(lambda queue=queue, values=values: queue.put_many(values))
                    takes += _seconds(lambda queue=queue: queue.take_many(TOGETHER))
                rates[f"put {where}"].append(count / puts)
                rates[f"take {where}"].append(count / takes)
        left = len(queues["deep"])
    return {"rates": rates, "left": left, "mib": peak_memory()}


def _values(count: int) -> list[bytes]:
    """Items that no compression makes smaller."""
    drawn = os.urandom(count * VALUE_BYTES)
    return [drawn[at : at + VALUE_BYTES] for at in range(0, len(drawn), VALUE_BYTES)]


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def opened(root: str) -> dict[str, float]:
    """Open the long queue, and take its first item."""
    began = time.perf_counter()
    with kvwal.open(f"{root}/deep", archive=None) as store:
        queue = store.queue("bench")
        items = len(queue)
        queue.take_many(1)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "items": items, "mib": peak_memory()}


def measure(run: Run) -> list[Row]:
    """The rates at depth beside those of a short queue, and the memory while it is filled and when it is opened."""
    depth, count = run.size(10_000_000, 200_000), run.size(200_000, 20_000)
    module = "benchmarks.questions.embedded.long_queues"
    short, long = str(run.root()), str(run.root())
    few = in_child(f"{module}:measured", root=short, depth=SHALLOW, count=count)
    few_again = in_child(f"{module}:opened", root=short)
    many = in_child(f"{module}:measured", root=long, depth=depth, count=count)
    again = in_child(f"{module}:opened", root=long)
    rates = many["rates"]
    notes = {"items": float(again["items"]), "seconds until the first item was taken": again["seconds"]}
    return [
        ratio_row("Puts at a depth of 10M (sync)", "items/s", rates["put shallow"], rates["put deep"], "at least", 0.5),
        ratio_row(
            "Takes at a depth of 10M (sync)", "items/s", rates["take shallow"], rates["take deep"], "at least", 0.5
        ),
        absolute_row("Memory of a process that puts 10M items", "MiB", [few["mib"]], [many["mib"]], "at most", MOST),
        absolute_row("Memory of one that opens 10M", "MiB", [few_again["mib"]], [again["mib"]], "at most", MOST, notes),
    ]
