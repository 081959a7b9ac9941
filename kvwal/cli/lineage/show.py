"""kvwal lineage: where the data of a data set come from, and where they go."""

from __future__ import annotations

import gc
import os
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import At, Json, count_parser
from kvwal.cli.spark.job_tables import status_cell, time_text
from kvwal.cli.tables import Sheet, columns, print_sheets
from kvwal.cli.text import check_text, visible
from kvwal.counted import counted
from kvwal.errors import ConfigError
from kvwal.lineage.answer import Answer, JobUse, Step, answer, to_json
from kvwal.lineage.lookup import find_dataset
from kvwal.lineage.openlineage.runs import BUSINESS as OPENLINEAGE
from kvwal.lineage.reader import Lineage, without_collections
from kvwal.location.archived import ArchiveReader
from kvwal.location.moments import MomentReader
from kvwal.spark.record_reader import BUSINESS as SPARK


def lineage(
    selection: StoreSelection,
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="The data set: <namespace>/<name> as s3://lake/mart/sales, a path, or a table as default.sales.",
            show_default=False,
        ),
    ],
    up: Annotated[bool, typer.Option("--up", help="Only where its data come from.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only where its data go.")] = False,
    depth: Annotated[
        int,
        typer.Option(metavar="N", help="At most N runs away; 0: however far.", parser=count_parser("--depth", 0)),
    ] = 0,
    at: At = None,
    json: Json = False,
) -> None:
    """Print where the data of a data set come from (up) and where they go (down): over all Spark applications that were recorded,
    and all runs that OpenLineage's events told of.

    A run that failed is shown with its status: it may have written a part.
    """
    check_text("the data set", dataset)
    selection.check_there()
    with selection.reader(at) as store, without_collections():
        if not {SPARK, OPENLINEAGE} & set(store.businesses()):
            raise ConfigError(
                f"Nothing under {selection.location} tells of data sets.",
                hint="`kvwal record` and kvwal.spark.JobRecorder record Spark; `kvwal console` and `kvwal import openlineage`"
                " take OpenLineage's events.",
            )
        found = Lineage(store)
        if not found.is_indexed and not isinstance(store, ArchiveReader | MomentReader):
            show.note("There is no whole index yet, so all records are read. `kvwal record` writes the index.")
        both = up == down
        here = os.path.abspath(dataset) if os.path.exists(dataset) else None
        meant = find_dataset(found.graph, dataset, here)
        told = answer(found, meant, up=up or both, down=down or both, depth=depth or None)
        gc.freeze()  # this process ends soon: a collection of the whole graph takes longer than the walk
    if json:
        show.json_line(to_json(told))
    else:
        _print(told)


def _print(told: Answer) -> None:
    table = f", the table {told.name.table}" if told.name.table else ""
    show.say(visible(f"{told.name.text}{table}"))
    for title, nothing, steps in (
        ("Its data come from", "No run that wrote it read a data set that is known.", told.up),
        ("Its data go to", "No run that read it wrote a data set that is known.", told.down),
    ):
        if steps:
            print_sheets(_sheet(title, steps))
        elif steps is not None:
            show.say(nothing)
    if told.columns:
        sheet = Sheet(columns("column", "made from"), "Its columns")
        for field, sources in told.columns.items():
            sheet.add_row(field, ", ".join(sources))
        print_sheets(sheet)


def _sheet(title: str, steps: list[Step]) -> Sheet:
    sheet = Sheet(columns(">runs away", "data set", "through", ">runs", "?>failed", "?last", "?status"), title)
    for step in steps:
        latest = step.jobs[0]
        others = len({use.job for use in step.jobs}) - 1
        through = latest.job + (f" and {counted(others, 'other job', 'other jobs')}" if others else "")
        sheet.add_row(
            str(step.depth), step.name.text, through, f"{_sum(step.jobs, 'runs'):,}", _failed(step.jobs),
            time_text(latest.at), status_cell(latest.status),
        )  # fmt: skip
    return sheet


def _sum(jobs: list[JobUse], field: str) -> int:
    return sum(getattr(use, field) for use in jobs)


def _failed(jobs: list[JobUse]) -> str:
    failed = _sum(jobs, "failed")
    return f"{failed:,}" if failed else ""
