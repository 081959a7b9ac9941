"""The page of lineage: data sets to choose from, and the graph around one of them, up and down, at a time."""

from __future__ import annotations

from itertools import islice
from typing import Any

from markupsafe import Markup

from kvwal.console.bodies import Refused
from kvwal.console.ownapi.lineage import graph_at
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.pages.texts import count
from kvwal.console.shared_reader import View
from kvwal.console.storepages import places
from kvwal.console.storepages.frame import Asked
from kvwal.console.storepages.graph import picture_of
from kvwal.lineage.answer import Step, answer
from kvwal.lineage.lookup import find_dataset
from kvwal.lineage.reader import Lineage

_ROWS = 200
_DIRECTIONS = ("both", "up", "down")


def lineage_page(view: View, asked: Asked) -> Shown:
    """The data sets that have a text in their names; or one of them, with its graph."""
    graph = graph_at(view, asked.at)
    dataset = asked.text("dataset").strip()
    return _graph(graph, asked, dataset) if dataset else _search(graph, asked)


def _search(graph: Lineage, asked: Asked) -> Shown:
    text = asked.text("q")
    found = graph.names.matching(text)
    rows = [
        Row(
            {"dataset": name.text, "table": name.table or None,
             "written": len(graph.graph.beside(name.key, up=True)), "read": len(graph.graph.beside(name.key, up=False))},
            {"dataset": places.lineage(name.text, at=asked.text("at"))},
        )
        for name in islice(found, _ROWS)
    ]  # fmt: skip
    columns = [
        Column("dataset", "Data set"), Column("table", "Table", wide=True), Column("written", "Runs that write it", "count"),
        Column("read", "Runs that read it", "count"),
    ]  # fmt: skip
    note = f"the first {_ROWS} of {count(len(found))}" if len(found) > _ROWS else ""
    table = Table(
        "datasets",
        "Data sets",
        columns,
        rows,
        "No data set is named so." if text else "Nothing here names a data set.",
        note=note,
    )
    values = {"title": "Lineage", "command": "", "dataset": "", "total": len(found), "at": asked.text("at")}
    return Shown("lineage.html", values, [table])


def _graph(graph: Lineage, asked: Asked, dataset: str) -> Shown:
    direction, depth = asked.text("direction") or "both", asked.number("depth", 3, 0, 1000)
    if direction not in _DIRECTIONS:
        raise Refused(400, f"direction={direction[:40]!r} must be one of {', '.join(_DIRECTIONS)}.")
    up, down = direction != "down", direction != "up"
    told = answer(graph, find_dataset(graph.graph, dataset), up=up, down=down, depth=depth or None)
    drawn, missing = picture_of(told, lambda name: asked.link({"dataset": name}))
    words = (*(("--up",) if not down else ("--down",) if not up else ()), "--depth", str(depth), *asked.at_words())
    values: dict[str, Any] = {
        "title": told.name.text, "dataset": told.name.text, "table": told.name.table, "direction": direction, "depth": depth,
        "at": asked.text("at"), "picture": drawn if told.up or told.down else Markup(""), "missing": missing,
        "columns": list(told.columns.items()), "command": asked.command("lineage", told.name.text, *words),
    }  # fmt: skip
    columns = [
        Column("way", "Direction", "plain"), Column("depth", "Runs away", "count"), Column("dataset", "Data set"),
        Column("through", "Through"), Column("runs", "Runs", "count", wide=True), Column("failed", "Failed", "count", wide=True),
        Column("last", "Last run", "moment", wide=True), Column("status", "Status", "status"),
    ]  # fmt: skip
    steps = [*(("up", step) for step in told.up or ()), *(("down", step) for step in told.down or ())]
    rows = [_row(way, step, asked) for way, step in steps]
    empty = "No run that is known leads to it or from it."
    return Shown(
        "lineage_graph.html", values, [Table("lineage", "Where it comes from and goes to", columns, rows, empty)]
    )


def _row(way: str, step: Step, asked: Asked) -> Row:
    latest = step.jobs[0]
    failed = sum(job.failed for job in step.jobs)
    values = {
        "way": way, "depth": step.depth, "dataset": step.name.text, "through": latest.job,
        "runs": sum(job.runs for job in step.jobs), "failed": failed, "last": latest.at, "status": latest.status or None,
    }  # fmt: skip
    return Row(
        values, {"dataset": asked.link({"dataset": step.name.text})}, mark="bad" if latest.status == "FAILED" else ""
    )
