"""What each page of an application has: its title, its tabs, its figures."""

from __future__ import annotations

from typing import Any

from kvwal.console.pages import addresses, texts
from kvwal.console.sparkreads.listing import Listing
from kvwal.scrub.units import size
from kvwal.spark.queries import RecordedApplication, lasted_ms


def frame(recorded: RecordedApplication, tab: str, command: str, title: str = "") -> dict[str, Any]:
    """The values that each page of an application has: its title, its tabs, and whether it goes on."""
    prefix, app = recorded
    tabs = [("summary", "Summary", addresses.app(prefix))]
    tabs += [
        (name, f"{text} {texts.count(number)}" if number is not None else text, addresses.app(prefix, name))
        for name, text, number in (
            ("jobs", "Jobs", app.jobs), ("stages", "Stages", app.stages), ("sql", "SQL", app.sql),
            ("executors", "Executors", None),
            ("streams", "Streams", None), ("failures", "Failures", None), ("settings", "Settings", None),
        )
    ]  # fmt: skip
    named = app.name or prefix
    return {
        "title": f"{title} · {named}" if title else named, "app": app, "prefix": prefix, "tabs": tabs, "tab": tab,
        "command": command, "live": app.status == "RUNNING", "home": addresses.app(prefix), "page_title": title,
    }  # fmt: skip


def figures(recorded: RecordedApplication, known: Listing) -> list[tuple[str, Any, str]]:
    """The figures of an application: a name, a value, and a second line."""
    app = recorded.app
    usual = next((each for each in known.by_name.get(app.name, ()) if each.prefix == recorded.prefix), None)
    against = (
        f"{texts.factor(usual.of_usual)} the usual {texts.duration(usual.usual_ms)}" if usual and usual.usual_ms else ""
    )
    found = [
        ("started", texts.moment(app.started), f"by {texts.clipped(app.user, 40)}" if app.user else ""),
        ("duration", texts.duration(lasted_ms(app)), against),
        ("jobs", texts.count(app.jobs), _failed(app.jobs_failed)),
        ("stages", texts.count(app.stages), _failed(app.stages_failed)),
        ("tasks", texts.count(app.tasks), _failed(app.failed)),
        ("SQL executions", texts.count(app.sql), _failed(app.sql_failed)),
        ("read", size(app.input_bytes), texts.amount(app.input_rows, "row")),
        ("written", size(app.output_bytes), texts.amount(app.output_rows, "row")),
        ("shuffled", size(app.shuffle_write_bytes), texts.amount(app.shuffle_write_rows, "row")),
        ("spilled", size(app.spill_disk_bytes), "to disk"),
        ("task time", texts.duration(app.run_ms), f"{app.core_ms / 3_600_000:.2f} core-hours" if app.core_ms else ""),
    ]  # fmt: skip
    return found if app.spill_disk_bytes else [each for each in found if each[0] != "spilled"]


def _failed(number: int) -> str:
    return f"{texts.count(number)} failed" if number else ""
