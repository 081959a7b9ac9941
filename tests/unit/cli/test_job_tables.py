"""Tables of one Spark application, from records made by hand."""

from __future__ import annotations

import io

from rich.console import Console

from kvwal.cli.job_tables import application_sheet, batches_sheet
from kvwal.cli.tables import Sheet
from kvwal.spark.queries import ApplicationDetail, RecordedApplication
from kvwal.spark.records import Application, Batch


def detail(*batches: Batch) -> ApplicationDetail:
    recorded = RecordedApplication("app", Application(id="app", cores=2, core_ms=5_400_000))
    return ApplicationDetail(recorded, [], [], [], [], list(batches), [])


def test_times_of_batches_are_shown_as_all_times_are() -> None:
    assert "2026-11-23 06:39:12Z" in text(batches_sheet(detail(Batch(name="q", at=1_795_415_952_319))))


def test_the_cost_of_an_application_has_its_core_hours() -> None:
    assert "1.50 core-hours" in text(application_sheet(detail().application))


def text(sheet: Sheet) -> str:
    """A sheet as a wide terminal shows it."""
    out = io.StringIO()
    Console(file=out, width=300).print(sheet.fit(Console(file=out, width=300)))
    return out.getvalue()
