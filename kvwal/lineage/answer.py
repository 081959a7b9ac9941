"""The answer to "where does this data set come from, and where does it go": data sets and jobs, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from kvwal.lineage.graph import Graph, Key, Reached, Run
from kvwal.lineage.reader import Lineage
from kvwal.spark.lineage.names import DatasetName, text_of

FAILED = ("FAILED", "KILLED")


class JobUse(msgspec.Struct):
    """The runs of one job that read and write the same data sets. `last` is the latest of them, `at` its time."""

    source: str
    job: str
    runs: int
    failed: int
    last: str
    status: str
    at: int
    reads: list[str]
    writes: list[str]


class Step(NamedTuple):
    """A data set on the way, its distance, and the jobs of the last step to it."""

    name: DatasetName
    depth: int
    jobs: list[JobUse]


class Answer(NamedTuple):
    """What is up (where data come from) and down (where they go) from a data set; None for a direction that is not asked for."""

    name: DatasetName
    columns: dict[str, list[str]]
    up: list[Step] | None
    down: list[Step] | None
    jobs: list[JobUse]


def answer(lineage: Lineage, dataset: Key, *, up: bool, down: bool, depth: int | None) -> Answer:
    """Walk the graph from this data set."""
    graph = lineage.graph
    uses = _Uses(lineage)
    ways = [way for way, asked in ((True, up), (False, down)) if asked]
    walks = {way: graph.walk(dataset, up=way, depth=depth) for way in ways}
    steps = {way: sorted((_step(graph, uses, each) for each in walk), key=_place) for way, walk in walks.items()}
    seen = {run for walk in walks.values() for each in walk for run in each.runs}
    seen |= {run for way in ways for run in graph.beside(dataset, up=way)}
    columns = {
        field: [f"{text_of(*source[:2])}.{source[2]}" for source in sources]
        for field, sources in graph.columns_of(dataset).items()
    }
    return Answer(graph.name(dataset), columns, steps.get(True), steps.get(False), uses.of(sorted(seen)))


def to_json(found: Answer) -> dict[str, Any]:
    """The answer as one object of JSON."""
    ways = {"up": found.up, "down": found.down}
    return {
        "dataset": _named(found.name),
        "columns": found.columns,
        **{
            way: [{**_named(step.name), "depth": step.depth} for step in steps]
            for way, steps in ways.items()
            if steps is not None
        },
        "jobs": [msgspec.to_builtins(job) for job in found.jobs],
    }


def _named(name: DatasetName) -> dict[str, str]:
    return {"dataset": name.text, "namespace": name.namespace, "name": name.name, "table": name.table}


def _step(graph: Graph, uses: _Uses, reached: Reached) -> Step:
    return Step(graph.name(reached.dataset), reached.depth, uses.of(reached.runs))


def _place(step: Step) -> tuple[int, str]:
    """Nearest first, and by name: the order of a plan's scans is not the reader's, and changes from run to run."""
    return step.depth, step.name.text


class _Uses:
    """Runs as uses of jobs. Each run, and the name of each application, is read once."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self._runs: dict[int, Run] = {}
        self._names: dict[str, str] = {}

    def of(self, runs: Iterable[int]) -> list[JobUse]:
        """The uses of these runs, the latest first."""
        uses: dict[tuple[str, str, tuple[Key, ...], tuple[Key, ...]], JobUse] = {}
        for number in runs:
            run = self._run(number)
            job = self._job(run.source, run.owner, run.title)
            key = (run.source, job, tuple(run.reads), tuple(run.writes))
            failed = int(run.status in FAILED)
            last = f"{run.owner} {run.name}" if run.source == "spark" else run.name
            if (use := uses.get(key)) is None:
                texts = [[text_of(*each) for each in datasets] for datasets in (run.reads, run.writes)]
                uses[key] = JobUse(run.source, job, 1, failed, last, run.status, run.at, *texts)
                continue
            use.runs += 1
            use.failed += failed
            if run.at >= use.at:
                use.last, use.status, use.at = last, run.status, run.at
        return sorted(uses.values(), key=lambda use: (-use.at, use.job))

    def _run(self, number: int) -> Run:
        if (run := self._runs.get(number)) is None:
            run = self._runs[number] = self._lineage.graph.run(number)
        return run

    def _job(self, source: str, owner: str, title: str) -> str:
        """The name of a job: the application's and the description's, or the job's as its producer told it."""
        if source != "spark":
            return f"{owner}/{title}"
        if owner not in self._names:
            self._names[owner] = self._lineage.application(owner)
        return f"{self._names[owner]}: {title}" if title else self._names[owner]
