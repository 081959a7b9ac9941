"""Opening a queue that holds a million items, beside Flume's file channel."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

from benchmarks.harness import Question, Row, Run, in_child
from benchmarks.peers import java, rounds

QUESTION = Question(
    "peers_queue_opening",
    "How fast does a queue with a million items open?",
    "Flume's file channel with as many events, from its opening until it says how many they are. With the checkpoint that it "
    "writes when it is closed, beside kvwal's snapshot; and without it, Flume's full replay, beside kvwal's log alone. kvwal has "
    "all items in memory when it is open; Flume has their places in its files.",
    "filling the queues with items of 100 bytes, and starting an interpreter or a JVM.",
)
ITEMS = 1_000_000
SNAPSHOT, REPLAY = "with a snapshot", "from the log alone"
TARGETS = {SNAPSHOT: 0.5, REPLAY: 0.1}
CHECKPOINT = "checkpoint"
"""The folder of Flume's checkpoint: see Flume.java."""


def opening(name: str, what: str, folders: dict[tuple[str, str], Path], items: int) -> rounds.Figures:
    """The seconds of one opening. Raises AssertionError if not all items are there."""
    folder = folders[name, what]
    if name == "kvwal":
        figures = in_child(f"{rounds.DRIVE}:open_queue", folder=str(folder))
    else:
        if what == REPLAY:  # each end of Flume writes a checkpoint
            shutil.rmtree(folder / CHECKPOINT)
        figures = java.run(name, "recover", folder=folder)
    if figures["count"] != items:
        raise AssertionError(f"{name} {what}: {figures['count']:.0f} of {items} items are there")
    return {"rate": figures["seconds"]}


def measure(run: Run) -> list[Row]:
    """A row for each state of the files."""
    items = run.size(ITEMS, 4_000)
    sizes = {"count": items, "batch": 1_000, "value": 100}
    folders = {(name, what): run.root() for name in ("kvwal", "flume") for what in TARGETS}
    for (name, what), folder in folders.items():
        if name == "kvwal":
            in_child(f"{rounds.DRIVE}:fill_queue", folder=str(folder), snapshot=what == SNAPSHOT, **sizes)
        elif java.unavailable() is None:
            java.run(name, "fill", folder=folder, **sizes)
    rows = []
    for what, target in TARGETS.items():
        figures = rounds.contest(run, ["kvwal", "flume"], 3, partial(opening, what=what, folders=folders, items=items))
        rows += rounds.rows(f"{items:,} items, {what}", "s", figures, {"flume": target}, must="at most")
    return rows
