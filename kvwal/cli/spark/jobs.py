"""kvwal jobs: the Spark applications that were recorded."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Annotated, Any, TypeVar

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import At, Json, count_parser
from kvwal.cli.show import Format
from kvwal.cli.spark.job_tables import (
    APPLICATIONS,
    application_row,
    application_sheet,
    batches_sheet,
    duration_text,
    indent,
    jobs_sheet,
    reads_and_writes_sheet,
    stages_sheet,
    status_cell,
    time_text,
)
from kvwal.cli.spark.kept import kept_in, only_kept, parse_stage, show_tasks
from kvwal.cli.tables import Sheet, columns, print_sheets
from kvwal.cli.text import parse_time, visible
from kvwal.config import parse_duration
from kvwal.errors import ConfigError
from kvwal.location.archived import ArchiveReader
from kvwal.location.moments import MomentReader
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.units import size
from kvwal.spark import queries
from kvwal.spark.eventlog.log_reader import BUSINESS
from kvwal.spark.kept.contents import kept_logs
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_reader import RecordReader, records_of, under
from kvwal.spark.records.texts import gist

T = TypeVar("T")
_DAY_MS = 86_400_000
_PLURALS = {"job": "jobs", "stage": "stages", "sql": "SQL executions", "batch": "batches", "failure": "failures"}


Limit = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="The latest N applications, or jobs or tasks of an application; 0 for all. JSON has all.",
        parser=count_parser("--limit", 0),
    ),
]
Tasks = Annotated[
    str | None,
    typer.Option(
        metavar="STAGE[.ATTEMPT]", help="The tasks of a stage of the application, a row each, from its kept event log."
    ),
]
TasksFormat = Annotated[Format | None, typer.Option(help="How to print the tasks of --tasks.", show_default=False)]


def jobs(
    selection: StoreSelection,
    app: Annotated[str | None, typer.Argument(help="One application: its id, the beginning of one, or a name.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failures, each with its error.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            help="Not before this time (UTC unless it has a zone), or 90m, 24h, 7d ago, or 'yesterday' (its 00:00 UTC)."
        ),
    ] = None,
    runs: Annotated[
        str | None,
        typer.Option(help="The last 30 runs of the application, job or query with this name or description."),
    ] = None,
    limit: Limit = 50,
    tasks: Tasks = None,
    at: At = None,
    format: TasksFormat = None,
    json: Json = False,
) -> None:
    """Print the recorded Spark applications, newest last; or one application with its jobs; or failures; or runs side by side; or
    the tasks of a stage.
    """
    after = parse_since(since)
    most = limit or None
    if tasks is not None:
        if failed or since or runs or at:
            raise ConfigError("--tasks goes with none of --failed, --since, --runs and --at.", hint="Leave these out.")
        _tasks_of_stage(selection, app, parse_stage(tasks), most, format or (Format.json if json else Format.table))
        return
    if format is not None:
        raise ConfigError("--format is for --tasks.", hint="Leave it out, or ask with `kvwal query … --format csv`.")
    selection.check_there()
    with selection.reader(at) as store:
        if BUSINESS not in store.businesses():
            raise ConfigError(
                f"No Spark application was recorded under {selection.location}.",
                hint="See `kvwal record --help` and kvwal.spark.JobRecorder.",
            )
        records = records_of(store)
        if not isinstance(store, ArchiveReader | MomentReader) and not records.has_index:
            show.note("There is no whole index yet, so all records are read. `kvwal record` writes the index.")
        if runs is not None:
            show_runs(records, runs, json)
        elif failed:
            show_failures(records, _application(records, app) if app else None, after, most, json)
        elif app is not None:
            show_application(records, _application(records, app), most, json)
        else:
            show_all(records, after, most, json)


def _tasks_of_stage(
    selection: StoreSelection, app: str | None, stage: tuple[int, int | None], most: int | None, form: Format
) -> None:
    selection.check_there()
    with selection.reader() as store:
        contents = kept_in(store)
        if app is None:
            prefix = only_kept(contents)
        elif next(kept_logs(contents, app), None) is not None or BUSINESS not in store.businesses():
            prefix = app
        else:
            prefix = _application(records_of(store), app).prefix
        show_tasks(contents, prefix, *stage, most, form)


def _application(records: RecordReader, wanted: str) -> RecordedApplication:
    """The application that is asked for. Of one with several attempts, which only its whole key tells apart, name them all."""
    found = queries.one_application(records, wanted)
    if found.app.attempt and wanted == found.prefix:
        return found
    every = queries.attempts(records, found)
    if len(every) > 1:
        named = ", ".join(f"{each.prefix} ({each.app.status})" for each in every)
        show.note(
            f"{found.app.id} was tried {len(every)} times: {named}. This is {found.prefix}; name another one to see it."
        )
    return found


def parse_since(text: str | None) -> int:
    """The time of `--since` in unix milliseconds; 0 without the option. A day begins at 00:00 UTC."""
    if text is None:
        return 0
    if (ago := parse_duration(text)) is not None:
        return SYSTEM.wall_ms() - round(ago * 1000)
    if text == "yesterday":
        return (SYSTEM.wall_ms() // _DAY_MS - 1) * _DAY_MS
    return parse_time(text) >> 16


def show_all(records: RecordReader, since: int, most: int | None, json: bool) -> None:
    """Print applications, newest last: the last `most`. JSON has all in the order of their ids, each followed by its jobs."""
    applications = queries.applications(records, since)
    if json:
        show.json_lines(_with_jobs(records, applications))
        return
    shown = _last(applications, most)
    sheet = Sheet(APPLICATIONS)
    for recorded in shown:
        sheet.add_row(*application_row(recorded))
    print_sheets(sheet)
    left_out = len(applications) - len(shown)
    if left_out:
        show.note(f"{left_out:,} earlier applications are not shown: see --limit and --since.")


def _with_jobs(records: RecordReader, applications: list[RecordedApplication]) -> Iterator[dict[str, Any]]:
    """The applications and their jobs in the order of their keys: one pass, since a search for each application takes longer."""
    prefixes = {recorded.prefix for recorded in applications}
    if not prefixes:
        return
    for stored in records.between(f"{min(prefixes)}/", f"{max(prefixes)}0"):
        prefix, _, kind = stored.key.rpartition("/")
        if kind == "app" and prefix in prefixes:
            yield {"key": stored.key, **stored.value()}
        elif (prefix := prefix.removesuffix("/job")) in prefixes and stored.key.startswith(f"{prefix}/job/"):
            yield {"key": stored.key, "app": prefix, **stored.value()}


def _last(items: list[T], most: int | None) -> list[T]:
    return items if most is None else items[-most:]


def show_application(records: RecordReader, recorded: RecordedApplication, most: int | None, json: bool) -> None:
    """Print one application: its figures, jobs, stages, reads and writes, batches and failures; of each the last `most`."""
    if json:
        show.json_lines({"key": stored.key, **stored.value()} for stored in under(records, f"{recorded.prefix}/"))
        return
    detail = queries.detail(records, recorded, most)
    print_sheets(application_sheet(recorded))
    print_sheets(
        jobs_sheet(detail),
        stages_sheet(detail),
        reads_and_writes_sheet(detail),
        batches_sheet(detail),
    )
    failures = queries.failures(records, of=recorded) if detail.may_have_failed else []
    for failed in _last(failures, most):
        show.say(f"\n{visible(failed.what)} failed at {time_text(failed.at)}: {visible(failed.title)}")
        show.say(indent(failed.error.message))
    if detail.damaged:
        show.say(f"\n{detail.damaged} damaged lines of the event log were kept aside: keys {recorded.prefix}/damage/…")
    if detail.missing_roll:
        show.say(f"\nRoll {detail.missing_roll} of the event log is missing, so nothing after it was read.")
    left_out = {**detail.left_out, "failure": len(failures) - len(_last(failures, most))}
    if earlier := ", ".join(f"{count:,} {_PLURALS[kind]}" for kind, count in left_out.items() if count):
        show.note(f"Earlier ones are not shown: {earlier}. See --limit.")


def show_failures(
    records: RecordReader, of: RecordedApplication | None, since: int, most: int | None, json: bool
) -> None:
    """Print failed applications, jobs and queries, each with its error, newest last: the last `most`. JSON has all."""
    failures = queries.failures(records, since, of)
    if json:
        show.json_lines(
            {"application": failure.prefix, "name": failure.app.name, "what": failure.what, "at": failure.at,
             "title": failure.title, "message": failure.error.message, "stack": failure.error.stack} for failure in failures
        )  # fmt: skip
        return
    shown = _last(failures, most)
    sheet = Sheet(columns("?failed at", "?application", "name", "?what", "description", "message"))
    for failure in shown:
        message = gist(failure.error.message)
        sheet.add_row(time_text(failure.at), failure.prefix, failure.app.name, failure.what, failure.title, message)
    if failures:
        print_sheets(sheet)
    else:
        show.say("Nothing failed." if not since else f"Nothing failed since {time_text(since)}.")
    if len(failures) > len(shown):
        show.note(f"{len(failures) - len(shown):,} earlier failures are not shown: see --limit and --since.")


def show_runs(records: RecordReader, name: str, json: bool) -> None:
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
