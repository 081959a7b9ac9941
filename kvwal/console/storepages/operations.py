"""The page of operations: what `kvwal doctor` says, the nodes, the logs of each, and the archive."""

from __future__ import annotations

import re
from typing import Any

from kvwal.cluster.figures.messages import OLDER
from kvwal.console.figures.rows import ArchivedRow, Figures, LogRow, NodeRow
from kvwal.console.figures.shared import Looked, SharedFigures
from kvwal.console.figures.told import lag_seconds, seconds_ago, worst
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.pages.texts import amount, clipped, duration
from kvwal.console.shared_reader import View
from kvwal.console.storepages.frame import Asked
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding
from kvwal.scrub.units import size

_ORDER = {PROBLEM: 0, NOTE: 1, OK: 2}
_MARKS = {PROBLEM: "bad", NOTE: "warn", OK: ""}
_LATE_SECONDS = 900.0
"""An entry that waits longer for the archive is a problem, for `kvwal doctor`, too."""
_LITTLE_SPACE = 0.1
_MOST_ALIKE = 5
"""Findings that differ in numbers only, and names that stand for the rest of more than that."""
_NUMBER = re.compile(r"\d[\d,.:+TZ-]*(?: (?:[kMGT]?i?B|ms|s|min|h|days?)\b)?")
_MOST_LINE = 500
"""Characters of a second line that are shown. CSV and JSON have all."""
_NODES = [
    Column("node", "Node"), Column("phase", "Phase"), Column("p50", "fsync p50", "latency"),
    Column("p99", "fsync p99", "latency"), Column("fsyncs", "fsyncs", "count", wide=True),
    Column("within", "in the last", "duration", wide=True), Column("written", "Entries written", "count", wide=True),
    Column("refused", "Refused writes", "count"), Column("errors", "Errors", "count"),
    Column("warnings", "Warnings", "count", wide=True), Column("disk", "Free for writes", "size"),
    Column("memory", "Memory", "percent"),
]  # fmt: skip
_LOG = [
    Column("business", "Business"), Column("node", "Node"), Column("bytes", "Size", "size"),
    Column("last", "Last sequence", "count"), Column("unchecked", "Since checkpoint", "count", wide=True),
    Column("checkpoint", "Checkpoint age", "duration"), Column("lag", "Not archived", "count"),
    Column("waits", "Oldest waits", "duration"), Column("archived", "Archived up to", "count", wide=True),
]  # fmt: skip
_LOGS = {
    "cluster": _LOG,
    "folder": [*_LOG, Column("contents", "Contents", "size", wide=True), Column("holder", "Held by", wide=True)],
}
_ARCHIVED = [
    Column("business", "Business"), Column("node", "Node"), Column("newest", "Age of the newest object", "duration"),
    Column("bytes", "Size", "size"), Column("objects", "Objects", "count", wide=True),
    Column("entries", "Entries", "count", wide=True), Column("last", "Last sequence", "count"),
]  # fmt: skip


def operations_page(view: View, asked: Asked, shared: SharedFigures) -> Shown:
    """The findings, problems first, and the figures of the location."""
    looked = shared.look(view)
    figures = looked.figures
    findings = [] if looked.examination is None else looked.examination.findings
    counts = {level: sum(finding.level == level for finding in findings) for level in _ORDER}
    values = {
        "title": "Operations", "command": asked.command("doctor"), "figures": _summary(figures, counts),
        "worst": worst(findings), "none": looked.why_not, "problems": amount(counts[PROBLEM], "problem"),
        "trouble": _trouble(figures),
        "kind": figures.kind, "note": figures.note if figures.note != looked.why_not else "",
        "examined": "" if looked.examination is None else duration(1000 * looked.age_seconds),
        "examine": asked.link({"examine": "now"}),
    }  # fmt: skip
    urgent, others = ([each for each in findings if (each.level == OK) is is_ok] for is_ok in (False, True))
    first = _findings("findings", "What to look at", urgent, "No problem and no note.")
    last = _findings("checks", "What was found in order", others, "Nothing.")
    return Shown("operations.html", values, [first, *_tables(looked), last])


def _findings(name: str, title: str, findings: list[Finding], empty: str) -> Table:
    """A row for each finding. Of many that say the same of different logs the page has one row; CSV and JSON have all."""
    rows = [_finding(each) for each in sorted(findings, key=lambda each: _ORDER[each.level])]
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        kinds.setdefault((row.values["level"], _NUMBER.sub("#", row.values["found"])), []).append(row)
    shown = [row for alike in kinds.values() for row in (alike if len(alike) <= _MOST_ALIKE else [_first(alike)])]
    columns = [
        Column("level", "Level", "plain"), Column("about", "About"), Column("found", "Found"),
        Column("todo", "What to do"),
    ]  # fmt: skip
    return Table(name, title, columns, shown, empty, every=lambda: rows, note="by kvwal doctor")


def _finding(each: Finding) -> Row:
    return Row(
        {"level": each.level, "about": each.about, "found": each.text, "todo": each.todo or None},
        mark=_MARKS[each.level],
    )


def _first(alike: list[Row]) -> Row:
    """The first of rows that say the same, with the names of some others."""
    others = [str(row.values["about"]) for row in alike[1:]]
    names = ", ".join(others[:_MOST_ALIKE])
    more = f"and {amount(len(others), 'other')} like it: {names}, … CSV and JSON have all."
    return alike[0]._replace(more={"about": clipped(more, _MOST_LINE)})


def _summary(figures: Figures, counts: dict[str, int]) -> list[tuple[str, str, str]]:
    found = [("Problems", str(counts[PROBLEM]), ""), ("Notes", str(counts[NOTE]), "")]
    if figures.kind == "cluster":
        serving = sum(node.serves is True for node in figures.nodes)
        found.append(("Nodes that serve", str(serving), f"of {len(figures.nodes)}"))
    if figures.kind == "archive":
        found.append(("Bytes of all objects", size(sum(each.bytes for each in figures.archived)), ""))
    else:
        found.append(("Bytes of all logs", size(sum(each.bytes or 0 for each in figures.logs)), ""))
        found.append(("Not archived", amount(sum(each.lag or 0 for each in figures.logs), "entry", "entries"), ""))
    if figures.usable is not None and figures.capacity is not None:
        found.append(("Free for writes", size(figures.usable), f"of {size(figures.capacity)}"))
    return found


def _trouble(figures: Figures) -> str:
    """A sentence on what is wrong now; empty if nothing is. An examination may have been before it."""
    away = sum(_is_away(node) for node in figures.nodes)
    failing = sum(bool(log.trouble) for log in figures.logs)
    said = [f"{away} of {amount(len(figures.nodes), 'node')} do not serve, or do not answer"] if away else []
    said += [f"{amount(failing, 'log')} {'has' if failing == 1 else 'have'} trouble"] if failing else []
    return f"{', and '.join(said)}: see the rows that are marked." if said else ""


def _is_away(node: NodeRow) -> bool:
    return node.serves is not True and node.told != OLDER


def _tables(looked: Looked) -> list[Table]:
    figures, now = looked.figures, looked.wall_ms
    if figures.kind == "archive":
        rows = [_archived(each, now) for each in figures.archived]
        return [Table("archived", "What is archived", _ARCHIVED, rows)]
    logs = Table(
        "logs", "Logs", _LOGS[figures.kind], [_log(each, now) for each in figures.logs], "Nothing was ever written here.",
        note="" if figures.kind == "cluster" else "archive and contents: as they were examined",
    )  # fmt: skip
    if figures.kind == "folder":
        return [logs]
    maps = Table(
        "maps", "Maps in memory", [
            Column("map", "Map"), Column("entries", "Entries, all copies", "count"), Column("bytes", "About", "size"),
        ],
        [Row({"map": each.map, "entries": each.entries, "bytes": each.bytes}) for each in figures.maps],
    )  # fmt: skip
    return [Table("nodes", "Nodes", _NODES, [_node(each) for each in figures.nodes]), logs, maps]


def _node(row: NodeRow) -> Row:
    refused = row.refused or {}
    little = row.disk_usable is not None and row.disk_usable < _LITTLE_SPACE * (row.disk_capacity or 0)
    values = {
        "node": row.node, "phase": row.phase, "told": row.told or None, "p50": _ms(row.fsync_p50), "p99": _ms(row.fsync_p99),
        "fsyncs": row.fsyncs, "within": _ms(row.fsync_seconds), "written": row.written,
        "refused": None if row.refused is None else sum(refused.values()), "errors": row.errors,
        "warnings": row.warnings, "disk": row.disk_usable, "memory": row.memory_ratio, "address": row.address,
    }  # fmt: skip
    more = {
        "node": row.address or "", "phase": row.told,
        "refused": ", ".join(f"{error}: {number:,}" for error, number in refused.items()),
    }  # fmt: skip
    return Row(values, more=_said(more), mark="bad" if _is_away(row) else "warn" if little or row.told else "")


def _log(row: LogRow, now_ms: int) -> Row:
    waits = lag_seconds(row, now_ms)
    values: dict[str, Any] = {
        "business": row.business, "node": row.node or None, "bytes": row.bytes, "contents": row.contents or None,
        "last": row.last, "unchecked": None if row.last is None else row.last - (row.checkpoint or 0),
        "checkpoint": _ms(seconds_ago(row.checkpoint_ms, now_ms)), "lag": row.lag, "waits": _ms(waits),
        "archived": row.archived, "holder": row.holder or None, "trouble": " ".join(row.trouble) or None,
    }  # fmt: skip
    late = waits is not None and waits > _LATE_SECONDS and row.holder != ""
    mark = "bad" if row.trouble else "warn" if late else ""
    return Row(values, more=_said({"business": " ".join(row.trouble)}), mark=mark)


def _archived(row: ArchivedRow, now_ms: int) -> Row:
    return Row({
        "business": row.business, "node": row.node, "newest": _ms(seconds_ago(row.newest_ms, now_ms)),
        "bytes": row.bytes, "objects": row.objects, "entries": row.entries, "last": row.last,
    })  # fmt: skip


def _said(more: dict[str, str]) -> dict[str, str]:
    """Second lines of cells, without empty ones."""
    return {key: clipped(text, _MOST_LINE) for key, text in more.items() if text}


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
