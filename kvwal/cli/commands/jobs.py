"""kvwal jobs: the Spark applications that were recorded."""

from __future__ import annotations

import re
from datetime import datetime
from statistics import median
from typing import Annotated, Any, cast

import typer

from kvwal.cli import show
from kvwal.cli.job_tables import (
    JOBS,
    application_row,
    application_sheet,
    batches_sheet,
    duration_text,
    gist,
    indent,
    job_row,
    jobs_sheet,
    reads_and_writes_sheet,
    stages_sheet,
    status_cell,
    time_text,
)
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import Json
from kvwal.cli.tables import Sheet, columns, print_sheets
from kvwal.cli.text import parse_time, visible
from kvwal.errors import ConfigError
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.units import size
from kvwal.spark import queries
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.records import Job, to_value

Records = queries.RecordIndex

_AGO = re.compile(r"([0-9]{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def jobs(
    selection: StoreSelection,
    app: Annotated[str | None, typer.Argument(help="One application: its id, the beginning of one, or a name.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failures, each with its error.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Not before this time, or 90m, 24h, 7d ago, or 'yesterday'.")
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(help="The last 30 runs of the application, job or query with this name or description."),
    ] = None,
    json: Json = False,
) -> None:
    """Print the recorded Spark applications and their jobs; or one application in full; or failures; or runs side by side."""
    after = parse_since(since)
    with selection.reader() as store:
        if BUSINESS not in store.businesses():
            raise ConfigError(
                f"No Spark application was recorded under {selection.location}.",
                hint="See `kvwal record --help` and kvwal.spark.JobRecorder.",
            )
        records = queries.indexed(store.map(BUSINESS))
    if runs is not None:
        show_runs(records, runs, json)
    elif failed:
        show_failures(records, queries.one_application(records, app).prefix if app else None, after, json)
    elif app is not None:
        show_application(records, queries.one_application(records, app), json)
    else:
        show_all(records, after, json)


def parse_since(text: str | None) -> int:
    """The time of `--since` in unix milliseconds; 0 without the option."""
    if text is None:
        return 0
    ago = _AGO.fullmatch(text)
    if ago:
        return SYSTEM.wall_ms() - int(ago[1]) * _SECONDS[ago[2]] * 1_000
    if text == "yesterday":
        today = datetime.fromtimestamp(SYSTEM.wall_ms() / 1_000).replace(hour=0, minute=0, second=0, microsecond=0)
        return int(today.timestamp() * 1_000) - 86_400_000
    return parse_time(text) >> 16


def show_all(records: Records, since: int, json: bool) -> None:
    """Print applications, each with its jobs beneath it."""
    applications = queries.applications(records, since)
    if json:
        for recorded in applications:
            show.json_line({"key": f"{recorded.prefix}/app", **to_value(recorded.app)})
            for job in queries.of_kind(records, recorded.prefix, "job", Job):
                show.json_line({"key": f"{recorded.prefix}/job/{job.id:010d}", "app": recorded.prefix, **to_value(job)})
        return
    sheet = Sheet(JOBS)
    for recorded in applications:
        sheet.add_row(*application_row(recorded), style="bold")
        for job in queries.of_kind(records, recorded.prefix, "job", Job):
            sheet.add_row(*job_row(job))
    print_sheets(sheet)


def show_application(records: Records, recorded: RecordedApplication, json: bool) -> None:
    """Print one application: its figures, jobs, stages, reads and writes, streaming batches, and failures."""
    detail = queries.detail(records, recorded)
    if json:
        for key in records.under(f"{recorded.prefix}/"):
            show.json_line({"key": key, **cast(dict[str, Any], records[key])})
        return
    print_sheets(application_sheet(recorded))
    print_sheets(
        jobs_sheet(detail),
        stages_sheet(detail),
        reads_and_writes_sheet(detail),
        batches_sheet(detail),
    )
    for failed in queries.failures({key: records[key] for key in records.under(f"{recorded.prefix}/")}):
        show.say(f"\n{visible(failed.what)} failed at {time_text(failed.at)}: {visible(failed.title)}")
        show.say(indent(failed.error.message))
    if detail.damage:
        show.say(
            f"\n{len(detail.damage)} damaged lines of the event log were kept aside: keys {recorded.prefix}/damage/…"
        )


def show_failures(records: Records, prefix: str | None, since: int, json: bool) -> None:
    """Print failed applications, jobs, stages and queries, each with its error."""
    failures = [failure for failure in queries.failures(records, since) if prefix in (None, failure.prefix)]
    if json:
        for failure in failures:
            show.json_line({"application": failure.prefix, "name": failure.app.name, "what": failure.what, "at": failure.at,
                            "title": failure.title, "message": failure.error.message, "stack": failure.error.stack})  # fmt: skip
        return
    sheet = Sheet(columns("?failed at", "?application", "name", "?what", "description", "message"))
    for failure in failures:
        message = gist(failure.error.message)
        sheet.add_row(time_text(failure.at), failure.prefix, failure.app.name, failure.what, failure.title, message)
    if failures:
        print_sheets(sheet)
    else:
        show.say("Nothing failed." if not since else f"Nothing failed since {time_text(since)}.")


def show_runs(records: Records, name: str, json: bool) -> None:
    """Print the runs of one application, job or query beside their median duration."""
    runs = queries.runs(records, name)
    if not runs:
        raise ConfigError(
            f"Nothing here is called {name!r}.",
            hint="Give the name of an application, or the description of a job or query.",
        )
    if json:
        for run in runs:
            show.json_line(run._asdict())
        return
    usual = median(run.duration_ms for run in runs)
    sheet = Sheet(columns("?started", "application", "?what", "status", ">duration", ">of median", ">rows", "?>bytes"))
    for run in runs:
        share = f"{100 * run.duration_ms / usual:.0f} %" if usual and run.duration_ms else ""
        sheet.add_row(time_text(run.started), run.prefix, run.what, status_cell(run.status), duration_text(run.duration_ms),
                      share, f"{run.rows:,}", size(run.bytes))  # fmt: skip
    print_sheets(sheet)
