"""The page of operations: what `kvwal doctor` says, the logs of each node, and the disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.pages.texts import amount
from kvwal.console.shared_reader import View
from kvwal.console.storepages.frame import Asked
from kvwal.errors import ConfigError
from kvwal.scrub.diagnose import NOTE, OK, PROBLEM, Finding
from kvwal.scrub.units import size

_ORDER = {PROBLEM: 0, NOTE: 1, OK: 2}
_MARKS = {PROBLEM: "bad", NOTE: "warn", OK: ""}


def operations_page(view: View, asked: Asked, examine: Callable[[], list[Finding]]) -> Shown:
    """The findings, problems first, and the figures of the location."""
    try:
        findings, none = examine(), ""
    except ConfigError as error:  # an archive: `kvwal archive verify` reads it
        findings, none = [], f"{error.what} {error.hint}".strip()
    stats = view.reader.stats()
    sizes = view.reader.sizes()
    counts = {level: sum(finding.level == level for finding in findings) for level in _ORDER}
    figures = [
        ("Problems", str(counts[PROBLEM]), ""), ("Notes", str(counts[NOTE]), ""), ("Businesses", str(len(sizes)), ""),
        *_figures(stats, [each for each in sizes.values() if each is not None]),
    ]  # fmt: skip
    values = {
        "title": "Operations", "command": asked.command("doctor"), "figures": figures,
        "worst": PROBLEM if counts[PROBLEM] else NOTE if counts[NOTE] else OK, "none": none,
        "problems": amount(counts[PROBLEM], "problem"),
    }  # fmt: skip
    urgent, others = ([each for each in findings if (each.level == OK) is is_ok] for is_ok in (False, True))
    first = _findings("findings", "What to look at", urgent, "No problem and no note.")
    last = _findings("checks", "What was found in order", others, "Nothing.")
    return Shown("operations.html", values, [first, *_logs(stats, sizes), last])


def _findings(name: str, title: str, findings: list[Finding], empty: str) -> Table:
    rows = [
        Row(
            {"level": each.level, "about": each.about, "found": each.text, "todo": each.todo or None},
            mark=_MARKS[each.level],
        )
        for each in sorted(findings, key=lambda each: _ORDER[each.level])
    ]
    columns = [
        Column("level", "Level", "plain"), Column("about", "About"), Column("found", "Found"),
        Column("todo", "What to do"),
    ]  # fmt: skip
    return Table(name, title, columns, rows, empty, note="by kvwal doctor")


def _figures(stats: dict[str, Any], sizes: list[int]) -> list[tuple[str, str, str]]:
    found = (
        [("Bytes of all logs" if "root" in stats else "Bytes of all objects", size(sum(sizes)), "")] if sizes else []
    )
    if disk := stats.get("disk"):
        found.append(("Free for writes", size(disk["usable_bytes"]), f"of {size(disk['capacity_bytes'])}"))
    if members := stats.get("members"):
        found.append(("Members", str(len(members)), ""))
    return found


def _logs(stats: dict[str, Any], sizes: dict[str, int | None]) -> list[Table]:
    """A table of the logs: of each business on each node in a folder and an archive, of each map and member in a cluster."""
    businesses: dict[str, Any] = stats.get("businesses", {})
    if "members" in stats:
        maps = [Row({"map": name, "entries": figures["entries"]}) for name, figures in businesses.items()]
        members = [Row({"node": node, "address": address}) for node, address in stats["members"].items()]
        return [
            Table("members", "Members", [Column("node", "Node"), Column("address", "Address", "code")], members),
            Table("maps", "Maps", [Column("map", "Map"), Column("entries", "Entries", "count")], maps),
        ]
    if "root" not in stats:
        columns = [
            Column("business", "Business"), Column("node", "Node"), Column("objects", "Objects", "count"),
            Column("entries", "Entries", "count"), Column("bytes", "Size", "size"), Column("last", "Last sequence", "count"),
        ]  # fmt: skip
        rows = [
            Row({"business": name, "node": node, **figures, "last": figures["last_sequence"]})
            for name, nodes in businesses.items()
            for node, figures in nodes.items()
        ]
        return [Table("logs", "What is archived", columns, rows)]
    columns = [
        Column("business", "Business"), Column("node", "Node"), Column("bytes", "Size, all nodes", "size"),
        Column("last", "Last sequence", "count"), Column("entries", "Entries in the log", "count", wide=True),
        Column("unchecked", "Since the checkpoint", "count"), Column("torn", "Torn tail", wide=True),
    ]  # fmt: skip
    rows = [
        Row({
            "business": name, "node": node, "bytes": sizes.get(name), "last": figures["last_sequence"],
            "entries": figures["log_entries"], "unchecked": figures["last_sequence"] - figures["snapshot_sequence"],
            "torn": None if figures["torn"] is None else str(figures["torn"]),
        })
        for name, nodes in businesses.items()
        for node, figures in nodes.items()
    ]  # fmt: skip
    rows += [Row({"business": name, "torn": why}, mark="bad") for name, why in stats.get("unreadable", {}).items()]
    return [Table("logs", "Logs", columns, rows, "Nothing was ever written here.")]
