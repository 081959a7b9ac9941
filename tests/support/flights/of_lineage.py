"""What must stand on the pages of lineage: the list of all data sets, and the graph around each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.support.console.expected import Expected
from tests.support.console.page import without_numbers
from tests.support.console.said import Moment, count
from tests.support.flights import accesses
from tests.support.flights.answers import Row, Run, description_of, start_of
from tests.support.flights.of_runs import command, placed

_DEPTHS = ("1", "2", "3", "5", "10")
"""The steps that a reader may choose; 3 are chosen."""
_LETTERS = 22
"""Letters of a name in the picture of a graph."""


def data_sets(runs: Sequence[Run]) -> list[str]:
    """The names of all data sets, sorted."""
    return sorted({name for run in runs for _, name, _ in _touched(run)})


def data_sets_page(runs: Sequence[Run], root: Path) -> Expected:
    """The list of all data sets, with how many runs of SQL executions and streaming queries write and read each."""
    expected = placed(root)
    counted = {writes: Counter(name for run in runs for does, name, _ in _touched(run) if does is writes)
               for writes in (False, True)}  # fmt: skip
    expected.table("Data sets", [
        {"Data set": name, "Runs that write it": count(counted[True][name]), "Runs that read it": count(counted[False][name])}
        for name in data_sets(runs)
    ])  # fmt: skip
    return expected


def _touched(run: Run) -> Iterator[tuple[bool, str, Row]]:
    """What executions wrote or read; the batches of a query are one run of it, and its source is the folder."""
    for sql in run.sql.values():
        if "\nbatch = " not in sql["description"]:
            for each in accesses.of(sql):
                yield each.writes, each.data_set, sql
    (source,) = {source["description"] for batch in run.batches for source in batch["sources"]}
    (folder,) = re.findall(r"^FileStreamSource\[file:(.*)\]$", source)
    yield False, f"file://{folder}", {}


def graph(runs: Sequence[Run], root: Path, chosen: str) -> Expected:
    """The graph around a data set. Each step is one execution of each run, and the last run is shown."""
    expected = placed(root)
    command(expected, f"kvwal lineage {root} {chosen} --depth 3")
    expected.put("title", f"{chosen} · kvwal")
    expected.put("h1", chosen)
    expected.put("form", *_DEPTHS, at=5)
    expected.put("form value", chosen)
    expected.put("form value", *_DEPTHS, "0", at=4)
    ways = [(way, *step) for way in ("up", "down") for step in _walk(runs[-1], chosen, way)]
    if not ways:
        return expected
    expected.table("Where it comes from and goes to", [
        {"Direction": way, "Runs away": count(depth), "Data set": name, "Through": f"{runs[-1].name}: {description_of(sql)}",
         "Runs": count(len(runs)), "Failed": count(0), "Last run": Moment(start_of(sql) + sql["duration"]), "Status": "SUCCEEDED"}
        for way, depth, name, sql in ways
    ])  # fmt: skip
    title = f"Lineage of {chosen}: the table below has the same"
    part = f"picture {without_numbers(title)}"
    names = [chosen, *(name for _, _, name, _ in ways)]
    expected.put(f"{part} aria-label", title, *names)
    for name in names:
        head, _, last = name.rpartition("/")
        shown = last if len(last) <= _LETTERS else f"{last[: _LETTERS - 1]}…"
        expected.put(part, name, shown, head if len(head) <= _LETTERS else f"…{head[1 - _LETTERS :]}")
    return expected


def _walk(run: Run, chosen: str, way: str) -> list[tuple[int, str, Row]]:
    """The data sets on one side of another, by their distance and name, each with the execution of the last step to it."""
    sides: dict[int, tuple[list[str], list[str]]] = {}
    for writes, name, sql in _touched(run):
        if sql:
            sides.setdefault(sql["id"], ([], []))[writes].append(name)
    found: list[tuple[int, str, Row]] = []
    seen, reached = {chosen}, [chosen]
    for depth in range(1, 4):
        step = {
            name: run.sql[number]
            for number, (read, written) in sides.items()
            for name in (read if way == "up" else written)
            if set(reached) & set(written if way == "up" else read) and name not in seen
        }
        found += [(depth, name, sql) for name, sql in sorted(step.items())]
        reached = sorted(step)
        seen |= step.keys()
    return found
