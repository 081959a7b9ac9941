"""A process that opens a store with a million contents for its maps, beside one that opens a store with none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child, peak_memory, ratio_row

QUESTION = Question(
    "opening",
    "How long does a store with a million contents take to open?",
    "a store with one content. The time is that from `kvwal.open` until a key of a map is read, in a process of its own, which"
    " loads the package's modules meanwhile. The names are those of 1,000 different contents, copied, and all are in a snapshot.",
    "starting the interpreter. The pages of the files are in memory.",
)
SOURCES = 1_000
TARGET = 1.2


def fill(root: Path, contents: int) -> None:
    """Fill a store with a map and this number of contents, and close it."""
    with kvwal.open(root, archive=None) as store:
        work = store.business("work")
        work.map()["key"] = "value"
        for number in range(min(SOURCES, contents)):
            work.content().put(f"source-{number}", f"bytes of {number}".encode())
        for first in range(SOURCES, contents, SOURCES):
            with work.transaction() as t:
                for number in range(first, first + SOURCES):
                    t.content().copy(f"source-{number % SOURCES}", f"application-{number:07}/events.zst")
        store.checkpoint()


def opened(root: str, looks: bool) -> dict[str, Any]:
    """Open a store and read a key of its map; with `looks` also count its contents."""
    began = time.perf_counter()
    with kvwal.open(root, archive=None) as store:
        assert store.map("work")["key"] == "value"
        seconds, began = time.perf_counter() - began, time.perf_counter()
        count = len(store.content("work")) if looks else 0
        return {"seconds": seconds, "look": time.perf_counter() - began, "count": count, "mib": peak_memory()}


def measure(run: Run) -> list[Row]:
    """The time and the memory of an opening, and what the first look at contents takes."""
    contents, few, many = run.size(1_000_000, 30_000), run.root(), run.root()
    fill(few, 1)
    fill(many, contents)
    here = f"{__name__}:opened"
    none, all_of_them = [], []
    for _ in range(run.rounds(9)):
        none.append(in_child(here, root=str(few), looks=False))
        all_of_them.append(in_child(here, root=str(many), looks=False))
    looked = [in_child(here, root=str(many), looks=True) for _ in range(3)]
    assert all(one["count"] == contents for one in looked)

    def column(found: list[dict[str, Any]], name: str) -> list[float]:
        return [one[name] for one in found]

    return [
        ratio_row(
            "Opening with 1M contents", "s", column(none, "seconds"), column(all_of_them, "seconds"), "at most", TARGET,
            {"seconds of the first look at contents, which reads their names": min(column(looked, "look"))},
        ),
        absolute_row(
            "Memory of a process that opens it", "MiB", column(none, "mib"), column(all_of_them, "mib"), "at most", 150,
            {"MiB after the first look at contents": min(column(looked, "mib"))},
        ),
    ]  # fmt: skip
