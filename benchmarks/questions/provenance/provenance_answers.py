"""Searches and lineages among ten million events, and the opening of a store that has them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import kvwal
from benchmarks.harness import Question, Row, Run, in_child, percentile, ratio_row
from kvwal.structures.provenance.event import Event

QUESTION = Question(
    "provenance_answers",
    "How long do questions about ten million events take?",
    "the same questions to a store of ten thousand events; for the opening, a store with provenance on and no event.",
    "writing them: documents go through ten queues and are taken from the last one, a thousand in a transaction, and each step of"
    " a document is an event. The values have six attributes. All events are in"
    " the files that checkpoints write. Each kind of question was asked before, and each time something else is asked for. A"
    " search gives the newest 100.",
)
MODULE = "benchmarks.questions.provenance.provenance_answers"
BUSINESS = "documents"
DOCUMENTS, FEW, STEPS = 840_000, 840, 10
EVENTS = STEPS + 2
"""Of each document: its creation, its steps, and its end."""
TOGETHER = 1_000
"""Documents that go through a step in one transaction."""
ASKED = 300
SEARCH_MS, LINEAGE_MS, OPENING = 200, 100, 1.2
FLIGHTS, AREAS = 1_000, 50
COLOURS = ("red", "green", "blue", "white", "black")


class Filled(NamedTuple):
    """A store with the events of so many documents, made between two moments in seconds since 1970."""

    root: Path
    documents: int
    began: float
    ended: float


def document(number: int, step: int) -> dict[str, Any]:
    """A document as it is after a step."""
    return {
        "document": number, "step": step, "flight": number % FLIGHTS, "colour": COLOURS[number % len(COLOURS)],
        "file": f"s3://lake/area-{number % AREAS}/part-{number}.json", "note": f"read by reader{number % FLIGHTS} of the lake",
    }  # fmt: skip


def move(root: str, documents: int) -> dict[str, float]:
    """Move documents through all steps, with provenance on. Without documents, only switch it on.

    Returns when the first and the last event were made, in seconds since 1970.
    """
    began = time.time()
    with kvwal.open(root, archive=None, flush="os") as store:
        store.provenance(BUSINESS).set_options(keep_bytes=None)
        work = store.business(BUSINESS)
        for first in range(0, documents, TOGETHER):
            numbers = range(first, min(first + TOGETHER, documents))
            work.queue("step-0").put_many([document(each, 0) for each in numbers])
            for step in range(1, STEPS + 1):
                with work.transaction(component=f"step {step}") as together:
                    taken = together.queue(f"step-{step - 1}").take_many(TOGETHER)
                    together.queue(f"step-{step}").put_many([document(each["document"], step) for each in taken])
            work.queue(f"step-{STEPS}").take_many(TOGETHER)
        ended = time.time()
        store.checkpoint()
    return {"began": began, "ended": ended}


def fill(run: Run, documents: int) -> Filled:
    """A store with so many documents that went through all steps."""
    root = run.root()
    return Filled(root, documents, **in_child(f"{MODULE}:move", root=str(root), documents=documents))


def searches(filled: Filled) -> dict[str, Callable[[Random], dict[str, Any]]]:
    """What is searched for, by kind."""
    documents = filled.documents
    return {
        "type": lambda chance: {"type": chance.choice(("create", "modify content", "drop"))},
        "component": lambda chance: {"component": f"step {chance.randint(1, STEPS)}"},
        "an attribute that one document has": lambda chance: {"attributes": {"document": chance.randrange(documents)}},
        "an attribute that many have": lambda chance: {"attributes": {"flight": chance.randrange(min(FLIGHTS, documents))}},
        "text of one document": lambda chance: {"text": f"lake {chance.randrange(documents)}"},
        "text that many have": lambda chance: {"text": f"reader{chance.randrange(min(FLIGHTS, documents))}"},
        "text that all have": lambda chance: {"text": chance.choice(("lake", "read", "json"))},
        "text that none has": lambda chance: {"text": f"absent{chance.randrange(documents)}"},
        "time": lambda chance: _window(chance, filled),
        "time, component and attribute": lambda chance: {
            **_window(chance, filled), "component": f"step {chance.randint(1, STEPS)}",
            "attributes": {"colour": chance.choice(COLOURS)},
        },
    }  # fmt: skip


def _window(chance: Random, filled: Filled) -> dict[str, datetime]:
    """A hundredth of the time in which the events were made."""
    long = (filled.ended - filled.began) / 100
    at = filled.began + chance.random() * 99 * long
    return {"after": datetime.fromtimestamp(at, UTC), "before": datetime.fromtimestamp(at + long, UTC)}


class Measured(NamedTuple):
    """The milliseconds of each answer to a kind of question, and how many events the answers have, on average."""

    ms: list[float]
    events: float


def answers(filled: Filled, asked: int) -> dict[str, Measured]:
    """The answers to each kind of search, and to `lineage`."""
    chance = Random(1)
    with kvwal.open(filled.root, read_only=True) as store:
        provenance = store.provenance(BUSINESS)
        found = {
            kind: _asked([partial(provenance.events, **what(chance)) for _ in range(asked + 1)])
            for kind, what in searches(filled).items()
        }
        lineages = []
        for _ in range(asked + 1):
            number = chance.randrange(filled.documents)
            (last,) = provenance.events(attributes={"document": number}, component=f"step {STEPS}")
            lineages.append(partial(provenance.lineage, last.after.key, of=f"queue/step-{STEPS}", depth=STEPS))
        found["lineage"] = _asked(lineages)
    if found["lineage"].events < STEPS:
        raise RuntimeError(f"a lineage has {found['lineage'].events} events")
    return found


def _asked(questions: list[Callable[[], list[Event]]]) -> Measured:
    """Ask all questions, and count the first one out."""
    milliseconds, events = [], []
    for ask in questions:
        started = time.perf_counter()
        events.append(len(ask()))
        milliseconds.append((time.perf_counter() - started) * 1_000)
    return Measured(milliseconds[1:], statistics.mean(events[1:]))


def seconds_of_opening(root: Path) -> float:
    """Seconds to open the store for writing."""
    started = time.perf_counter()
    with kvwal.open(root, archive=None, flush="os") as store:
        store.provenance(BUSINESS)
        return time.perf_counter() - started


def measure(run: Run) -> list[Row]:
    """A row for each kind of search, one for the lineage of depth 10, and one for the opening."""
    asked = run.size(ASKED, 3)
    few, many = fill(run, FEW), fill(run, run.size(DOCUMENTS, FEW))
    small, large = answers(few, asked), answers(many, asked)
    rows = [
        _row(f"Search by {kind}, among 10M events", large[kind], small[kind], SEARCH_MS)
        for kind in large
        if kind != "lineage"
    ]
    rows.append(_row("Lineage of depth 10, among 10M events", large["lineage"], small["lineage"], LINEAGE_MS))
    empty = fill(run, 0)
    seconds_of_opening(empty.root), seconds_of_opening(many.root)
    none, with_events = run.interleave(
        51, lambda: seconds_of_opening(empty.root), lambda: seconds_of_opening(many.root)
    )
    notes = {"events": float(many.documents * EVENTS), "writing them, s": many.ended - many.began}
    return [*rows, ratio_row("Opening a store with 10M events", "s", none, with_events, "at most", OPENING, notes)]


def _row(name: str, large: Measured, small: Measured, most: float) -> Row:
    """The p99 of the answers to one kind of question."""
    p99 = percentile(large.ms, 99)
    notes = {"median, ms": statistics.median(large.ms), "events of an answer": large.events}
    return Row(name, "ms", [p99], [percentile(small.ms, 99)], p99, "ms (p99)", most, "at most", notes)
