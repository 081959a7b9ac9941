"""Tables of one Spark application, from records made by hand."""

from __future__ import annotations

import io

from rich.console import Console

from kvwal.cli.spark.job_tables import application_sheet, batches_sheet, reads_and_writes_sheet, stages_sheet
from kvwal.cli.tables import Sheet
from kvwal.spark.queries import ApplicationDetail, RecordedApplication
from kvwal.spark.records import Access, Application, Batch, Job, Sql, Stage


def detail(
    *, jobs: list[Job] | None = None, sql: list[Sql] | None = None, batches: list[Batch] | None = None
) -> ApplicationDetail:
    recorded = RecordedApplication("app", Application(id="app", cores=2, core_ms=5_400_000))
    return ApplicationDetail(recorded, jobs or [], [], sql or [], batches or [], 0, {}, False)


def test_a_write_that_no_part_counts_is_shown_at_its_root() -> None:
    insert = [
        Sql(id=1, root=1, writes=[Access("jdbc", table="shop.orders")]),
        Sql(id=2, root=1, reads=[Access("orc", "file:/a")]),
    ]
    create = [
        Sql(id=3, root=3, writes=[Access("table", table="a.b.t")]),
        Sql(id=4, root=3, writes=[Access("orc", "file:/t", table="a.b.t")]),
    ]
    shown = text(reads_and_writes_sheet(detail(sql=insert + create)))
    assert shown.count("shop.orders") == 1
    assert shown.count("a.b.t, file:/t") == shown.count("a.b.t") == 1


def test_the_files_of_rdds_stand_beside_those_of_sql() -> None:
    job = Job(
        id=7, description="lines", reads=[Access("textFile", "/in", rows=5)], writes=[Access("saveAsTextFile", rows=2)]
    )
    shown = text(reads_and_writes_sheet(detail(jobs=[job])))
    assert "/in" in shown
    assert "saveAsTextFile" in shown


def test_times_of_batches_are_shown_as_all_times_are() -> None:
    assert "2026-11-23 06:39:12Z" in text(batches_sheet(detail(batches=[Batch(name="q", at=1_795_415_952_319)])))


def test_the_cost_of_an_application_has_its_core_hours() -> None:
    assert "1.50 core-hours" in text(application_sheet(detail().application))


def test_a_stage_without_a_successful_task_has_no_times() -> None:
    stages = [
        Stage(id=1, tasks=2, failed=1, killed=1, duration_ms=2_000),
        Stage(id=2, tasks=2, killed=1, duration_ms=3_000),
    ]
    shown = text(stages_sheet(detail()._replace(stages=stages))).splitlines()
    assert [line.count("0 ms") for line in shown if line.startswith(("1 ", "2 "))] == [0, 3]


def text(sheet: Sheet) -> str:
    """A sheet as a wide terminal shows it."""
    out = io.StringIO()
    Console(file=out, width=300).print(sheet.fit(Console(file=out, width=300)))
    return out.getvalue()
