"""The page of all runs of one name: the trend of duration, rows and bytes, with outliers marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from markupsafe import Markup

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, pictures, texts
from kvwal.console.pages.pictures import Point, Scale
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.application import link_of
from kvwal.console.sparkreads.listing import SLOW, listing
from kvwal.scrub.units import size
from kvwal.spark import queries
from kvwal.spark.queries import RecordedApplication, RecordedRun

_COLUMNS = (
    Column("started", "started", "moment"),
    Column("status", "status", "status"),
    Column("application", "application", "id", wide=True),
    Column("what", "what", "plain", wide=True),
    Column("duration_ms", "duration", "duration"),
    Column("of_median", "of median", "factor"),
    Column("rows", "rows", "count", wide=True),
    Column("bytes", "bytes", "size", wide=True),
    Column("compare", "", "plain", wide=True),
)


def runs_page(view: View, query: Mapping[str, str], command: str) -> Shown:
    """The page of the last 30 runs of a name. Runs of executions and jobs are searched in all records, if the address says so."""
    name = query.get("name", "")
    if not name:
        raise Refused(400, "Name an application: /runs?name=NAME.")
    among_parts = query.get("among") == "parts"
    known = view.made_of_records(listing).by_name
    if name not in known and not among_parts:
        values = {"title": name, "command": command, "name": name, "unknown": True}
        return Shown("runs.html", values)
    if name in known:
        runs = queries.runs_of(RecordedApplication(each.prefix, each.app) for each in known[name])
    else:
        runs = queries.runs(view.records, name)
    if not runs:
        raise Refused(404, f"Nothing here is called {name[:200]!r}.")
    usual = median(run.duration_ms for run in runs)
    of_applications = runs[0].what == "application"
    rows = []
    for number, run in enumerate(runs):
        rows.append(_row(run, runs[number - 1] if number and of_applications else None, usual))
    values = {
        "title": name, "command": command, "name": name, "unknown": False, "count": len(runs),
        "total": max(len(runs), len(known.get(name, ()))) if of_applications else len(runs),
        "kind": runs[0].what.partition(" ")[0],
        "usual": texts.duration(usual),
        "durations": _trend(runs, [run.duration_ms for run in runs], "duration", texts.round_duration),
        "rows": _trend(runs, [run.rows for run in runs], "rows", texts.short, pictures.HALF),
        "bytes": _trend(runs, [run.bytes for run in runs], "bytes", size, pictures.HALF),
        "choices": [(run.prefix, f"{texts.plain_moment(run.started)} · {texts.duration(run.duration_ms)} · {run.status}")
                    for run in reversed(runs)] if of_applications else [],
    }  # fmt: skip
    columns = [column for column in _COLUMNS if not of_applications or column.key != "what"]
    return Shown("runs.html", values, [Table("runs", "Runs", columns, rows[::-1])])


_TOPS: dict[str, Callable[[float], float]] = {
    "duration": pictures.duration_ceiling, "rows": pictures.nice_ceiling, "bytes": pictures.size_ceiling,
}  # fmt: skip
"""The top of the axis of each trend."""


def _row(run: RecordedRun, before: RecordedRun | None, usual: float) -> Row:
    of_median = round(run.duration_ms / usual, 2) if usual and run.duration_ms else None
    values = {
        "started": run.started, "status": run.status, "application": run.prefix, "what": run.what, "duration_ms": run.duration_ms,
        "of_median": of_median, "rows": run.rows, "bytes": run.bytes,
        "compare": "compare with the run before" if before else None,
    }  # fmt: skip
    page = link_of(run.prefix, run.what)
    links = {"application": page, "started": page}
    if before is not None:
        links["compare"] = addresses.comparison(before.prefix, run.prefix)
    is_bad = run.status in ("FAILED", "KILLED")
    return Row(values, links, mark="bad" if is_bad else "warn" if is_outlier(run.duration_ms, usual) else "")


def is_outlier(value: float, usual: float) -> bool:
    """Whether a value is far from the usual one."""
    return bool(usual) and bool(value) and not 1 / SLOW < value / usual < SLOW


def _trend(
    runs: Sequence[RecordedRun], values: Sequence[float], what: str, text: texts.Form, width: float = pictures.WIDTH
) -> Markup:
    """The values of the runs in order, with the median across; outliers and failed runs are marked."""
    known = [value for value in values if value]
    if not known:
        return Markup("")
    usual = median(known)
    top = _TOPS[what](max(known))
    points = [
        Point(run.started, value, f"{texts.plain_moment(run.started)}: {text(value)}, {run.status}",
              link_of(run.prefix, run.what),
              "s-bad" if run.status in ("FAILED", "KILLED") else "s-run" if run.status == "RUNNING"
              else "s-warn" if is_outlier(value, usual) else "s-ok")
        for run, value in zip(runs, values, strict=True)
    ]  # fmt: skip
    ends = (texts.plain_moment(runs[0].started), texts.plain_moment(runs[-1].started))
    return pictures.trend(
        points, Scale(top, (text(top), text(top / 2), "0")), ends, f"{what} of {len(runs)} runs", usual=usual, width=width
    )  # fmt: skip
