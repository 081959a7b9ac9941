"""The page of all applications: filters and order in the address, a page of the list, and all that is chosen as CSV and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Link, Pager, Row, Table, page_number
from kvwal.console.shared_reader import View
from kvwal.console.sparkreads.listing import SLOW, STATUSES, Listed, filter_of, listing
from kvwal.spark.index import failed
from kvwal.spark.queries import lasted_ms

ROWS = 50
"""Applications on a page."""
_MOST_CHOICES = 200
_COLUMNS = (
    Column("status", "status", "status"),
    Column("name", "application", sort="name"),
    Column("application", "ID", "id", wide=True),
    Column("user", "user", "clip", wide=True, sort="user"),
    Column("started", "started", "moment", sort="started"),
    Column("duration_ms", "duration", "duration", sort="duration"),
    Column("of_usual", "of usual", "factor", wide=True, sort="usual"),
    Column("jobs", "jobs", "count", wide=True, sort="jobs"),
    Column("jobs_failed", "failed jobs", "some", wide=True, sort="failed"),
    Column("input_bytes", "read", "size", wide=True, sort="read"),
    Column("output_bytes", "written", "size", wide=True, sort="written"),
)
_ORDERS: dict[str, Callable[[Listed], Any]] = {
    "started": lambda each: each.app.started,
    "name": lambda each: each.app.name.lower(),
    "user": lambda each: each.app.user.lower(),
    "duration": lambda each: lasted_ms(each.app),
    "usual": lambda each: each.of_usual,
    "jobs": lambda each: each.app.jobs,
    "failed": lambda each: each.app.jobs_failed,
    "read": lambda each: each.app.input_bytes,
    "written": lambda each: each.app.output_bytes,
}
NEWEST = "-started"


def applications_page(view: View, query: Mapping[str, str], link: Link, command: str) -> Shown:
    """The page of all applications."""
    known = view.made_of_records(listing)
    wanted = filter_of(query)
    if wanted.takes_all:
        taken, counts = known.every, known.counts
    else:
        taken = [each for each in known.every if wanted.takes(each)]
        counts = Counter(each.app.status for each in taken)
    chosen = [each for each in taken if each.app.status == wanted.status] if wanted.status else taken
    chosen = _ordered(chosen, query.get("sort") or NEWEST)
    number = page_number(query, len(chosen), ROWS)
    shown = chosen[(number - 1) * ROWS : number * ROWS]
    pager = Pager.of(number, len(chosen), ROWS, link)
    empty = "No application is chosen by these filters." if known.every else "No Spark application is recorded here."
    table = Table(
        "applications", "Applications", _COLUMNS, [row_of(each) for each in shown], empty, pager,
        lambda: (row_of(each) for each in chosen), order=NEWEST,
    )  # fmt: skip
    values = {
        "title": "Applications", "command": command, "total": len(known.every), "taken": len(taken), "chosen": len(chosen),
        "counts": [(status, counts[status]) for status in STATUSES if counts[status] or status == wanted.status],
        "names": sorted(known.by_name, key=str.lower)[:_MOST_CHOICES], "users": known.users[:_MOST_CHOICES],
        "runs": any(each.app.status == "RUNNING" for each in shown), "filter": wanted,
        "since": _field(wanted.after), "until": _field(wanted.before),
    }  # fmt: skip
    return Shown("applications.html", values, [table])


def _field(ms: int) -> str:
    """A time as a field of a form has it, in UTC."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M}" if 0 < ms < _YEAR_10000 else ""


_YEAR_10000 = 253_402_300_800_000


def _ordered(chosen: list[Listed], sort: str) -> list[Listed]:
    order = _ORDERS.get(sort.removeprefix("-"))
    if order is None:
        raise Refused(400, f"The list cannot be sorted by {sort[:40]!r}: by {', '.join(_ORDERS)}.")
    return chosen if sort == NEWEST else sorted(chosen, key=order, reverse=sort.startswith("-"))


def row_of(listed: Listed) -> Row:
    """The row of one application, with the fields of its record by their names there."""
    app, page = listed.app, addresses.app(listed.prefix)
    values = {
        "status": app.status, "name": app.name or listed.prefix, "application": listed.prefix, "user": app.user,
        "started": app.started,
        "duration_ms": lasted_ms(app), "of_usual": round(listed.of_usual, 2), "jobs": app.jobs, "jobs_failed": app.jobs_failed,
        "input_bytes": app.input_bytes, "output_bytes": app.output_bytes, "id": app.id,
        "attempt": app.attempt, "ended": app.ended, "usual_ms": listed.usual_ms, "stages": app.stages, "tasks": app.tasks,
        "input_rows": app.input_rows, "output_rows": app.output_rows, "run_ms": app.run_ms, "core_ms": app.core_ms,
    }  # fmt: skip
    is_slow = listed.of_usual >= SLOW
    mark = "bad" if failed(app.status, app.error) else "warn" if is_slow or app.jobs_failed else ""
    links = {"name": page, "of_usual": addresses.runs(app.name)}
    if app.jobs_failed:
        links["jobs_failed"] = addresses.app(listed.prefix, "failures")
    return Row(values, links, mark=mark)
