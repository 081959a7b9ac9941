"""Interleaved rounds: every contestant in turn, then all again, so that a noisy spell of the disk falls on all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from benchmarks.baselines import bare_appends
from benchmarks.harness import Row, Run, in_child, ratio_row, unranked_row
from benchmarks.peers import java
from benchmarks.peers.contestants import CONTESTANTS, present
from benchmarks.peers.servers import server
from benchmarks.peers.workloads import Load

DRIVE = "benchmarks.peers.drive"
OVERHEAD = 40
"""The bytes that kvwal's log takes beside a value, so that the bare loop writes as much."""
WARM_UP = 0.4
"""Seconds."""
JAVA_WARM_UP = 2.5
"""How much longer a Java program warms up: its compiler needs the time."""

Figures = dict[str, float]
Rounds = dict[str, list[Figures]]


def seconds(run: Run) -> dict[str, float]:
    """How long a measurement takes, and how long the contestant warms up before."""
    return {"seconds": 0.2, "warm_up": 0.2} if run.quick else {"seconds": 0.6, "warm_up": WARM_UP}


def drive(run: Run, name: str, function: str, **arguments: Any) -> Figures:
    """A function of drive.py on an engine of Python, beside its server where it has one."""
    folder = run.root()
    call = partial(in_child, f"{DRIVE}:{function}", name=name, folder=str(folder), **arguments)
    if CONTESTANTS[name].kind == "server":
        with server(name, folder) as opening:
            return dict(call(port=opening.port))
    return dict(call(port=0))


def puts(run: Run, name: str, load: Load) -> Figures:
    """One contestant under one load, for a time."""
    kind = CONTESTANTS[name].kind
    if kind == "bare":
        return {"rate": bare_appends(run.folder, seconds(run)["seconds"], load.value + OVERHEAD)}
    if kind == "java":
        return java_puts(run, name, load)
    sizes = {"producers": load.producers, "value": load.value, **seconds(run)}
    if name == "kvwal" and load.style == "tasks":
        return dict(in_child(f"{DRIVE}:tasks", folder=str(run.root()), **sizes))
    return drive(run, name, "puts", batch=load.batch, **sizes)


def java_puts(run: Run, name: str, load: Load) -> Figures:
    """One of the Java peers under one load. Its producers are threads, also where kvwal's are tasks."""
    sizes = {"producers": load.producers, "batch": load.batch, "value": load.value, **seconds(run)}
    sizes["warm_up"] *= JAVA_WARM_UP
    answer = java.run(name, "puts", load.memory, folder=run.root(), **sizes)
    return {**answer, "rate": answer["count"] / answer["seconds"]}


def contest(run: Run, names: list[str], rounds: int, measure: Callable[[str], Figures]) -> Rounds:
    """The figures of each contestant, in the order of the rounds. One that is not installed is named, and left out."""
    here, sentences = present(names)
    for sentence in sentences:
        announce(sentence)
    figures: Rounds = {name: [] for name in here}
    for _ in range(run.rounds(rounds)):
        for name in here:
            figures[name].append(measure(name))
    return figures


_announced: set[str] = set()


def announce(sentence: str) -> None:
    """Print a sentence, once in a run."""
    if sentence not in _announced:
        _announced.add(sentence)
        print(f"    {sentence}", file=sys.stderr, flush=True)


def rates(figures: list[Figures]) -> list[float]:
    """The rate of each round."""
    return [each["rate"] for each in figures]


def rows(
    workload: str,
    unit: str,
    figures: Rounds,
    targets: dict[str, float],
    ours: str = "kvwal",
    must: Literal["at least", "at most"] = "at least",
) -> list[Row]:
    """A row for each contestant beside kvwal; one without a target is shown all the same."""
    mine = rates(figures[ours])
    made = []
    for name, theirs in figures.items():
        if name == ours:
            continue
        title = f"{workload}: {CONTESTANTS[name].label}"
        notes = latencies(figures[ours], theirs)
        if name in targets:
            made.append(ratio_row(title, unit, rates(theirs), mine, must, targets[name], notes))
        else:
            made.append(unranked_row(title, unit, rates(theirs), mine, notes))
    return made


def latencies(ours: list[Figures], theirs: list[Figures]) -> dict[str, float]:
    """The middle round's latencies of both, where both were measured, for the notes of a row."""
    notes = {}
    for owner, figures in (("kvwal", ours), ("the peer", theirs)):
        if any("p99" not in each for each in figures):
            continue
        middle = sorted(figures, key=lambda each: each["rate"])[len(figures) // 2]
        for name, share in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"), ("max", "max")):
            notes[f"{share} of {owner}, ms"] = middle[name]
    return notes


def with_notes(row: Row, notes: dict[str, float]) -> Row:
    """The same row with further notes."""
    return msgspec.structs.replace(row, notes={**row.notes, **notes})
