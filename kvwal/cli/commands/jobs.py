"""kvwal jobs: what was recorded of Spark applications."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

from kvwal.cli import show
from kvwal.cli.options import Archive, Cluster, Json, Namespace, Node, Root, Where
from kvwal.cli.text import parse_time, visible
from kvwal.errors import ConfigError
from kvwal.ports.clock import SYSTEM
from kvwal.scrub.units import size
from kvwal.spark import queries
from kvwal.spark.eventlog.reading import BUSINESS
from kvwal.spark.queries import ApplicationDetail, RecordedApplication
from kvwal.spark.records import Access, Application, Job, Stage, Totals, to_value

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Records = queries.RecordIndex
Cell = str | Text
"""A string is shown as it is, also where it looks like markup; a cell with a colour is a rich `Text`."""

_AGO = re.compile(r"([0-9]{1,9})([smhdw])")
_RAISED = re.compile(r"^[ \t]*[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "RUNNING": "yellow", "DETACHED": "cyan", "KILLED": "red"}
SKEWED = 3.0
_TIMES = (">median", "?>p95", ">max", ">skew")
_STAGES = ("stage", "?>job", "?status", ">duration", ">tasks", *_TIMES, "?>read", "?>written", "?>spilled", "what")
_ACCESSES = ("?>sql", "jobs", "", "what", "where", ">rows", ">bytes", "?>files", "?for")
_BATCHES = ("query", ">batch", "?at", ">duration", ">rows in", ">rows/s", ">state rows", "?watermark", "?offsets")
_JOBS = ("", "status", "?started", ">duration", "?>stages", "?>tasks", ">rows in", "?>in", ">rows out", "?>out", "what")


def jobs(
    root: Root,
    app: Annotated[str | None, typer.Argument(help="One application: its id, the beginning of one, or a name.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only what failed, and why.")] = False,
    since: Annotated[
        str | None, typer.Option(help="Not before this time, or 90m, 24h, 7d ago, or 'yesterday'.")
    ] = None,
    runs: Annotated[str | None, typer.Option(help="The last 30 runs of what has this name or description.")] = None,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """The Spark applications that were recorded, and their jobs; all about one of them; what failed; or how runs compare."""
    after = parse_since(since)
    with Where(root, namespace, cluster, node, archive).open(read_only=True) as store:
        if BUSINESS not in store.businesses():
            raise ConfigError(
                f"No Spark application was recorded under {root}.",
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
    """Unix milliseconds of `--since`; 0 without it."""
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
    """Applications, each with its jobs beneath it."""
    found = queries.applications(records, since)
    if json:
        for one in found:
            show.json_line({"key": f"{one.prefix}/app", **to_value(one.app)})
            for job in queries.of_kind(records, one.prefix, "job", Job):
                show.json_line({"key": f"{one.prefix}/job/{job.id:010d}", "app": one.prefix, **to_value(job)})
        return
    drawn = _Sheet(_JOBS)
    for one in found:
        drawn.add_row(*_application_row(one), style="bold")
        for job in queries.of_kind(records, one.prefix, "job", Job):
            drawn.add_row(*_job_row(job))
    _print(drawn)


def show_application(records: Records, found: RecordedApplication, json: bool) -> None:
    """All about one application."""
    told = queries.detail(records, found)
    if json:
        for key in records.under(f"{found.prefix}/"):
            show.json_line({"key": key, **cast(dict[str, Any], records[key])})
        return
    _print(_application_table(found))
    _print(_jobs_table(told), _stages_table(told), _access_table(told), _streams_table(told))
    for failed in queries.failures({key: records[key] for key in records.under(f"{found.prefix}/")}):
        show.say(f"\n{visible(failed.what)} failed at {_time(failed.at)}: {visible(failed.title)}")
        show.say(_indent(failed.error.message))
    if told.damage:
        show.say(f"\n{len(told.damage)} damaged lines of the event log were kept aside: keys {found.prefix}/damage/…")


def show_failures(records: Records, prefix: str | None, since: int, json: bool) -> None:
    """What failed, and why."""
    found = [one for one in queries.failures(records, since) if prefix in (None, one.prefix)]
    if json:
        for one in found:
            show.json_line({"application": one.prefix, "name": one.app.name, "what": one.what, "at": one.at, "title": one.title,
                            "message": one.error.message, "stack": one.error.stack})  # fmt: skip
        return
    drawn = _Sheet(("?failed at", "?application", "name", "?what", "description", "message"))
    for one in found:
        drawn.add_row(_time(one.at), one.prefix, one.app.name, one.what, one.title, _gist(one.error.message))
    if found:
        _print(drawn)
    else:
        show.say("Nothing failed." if not since else f"Nothing failed since {_time(since)}.")


def show_runs(records: Records, name: str, json: bool) -> None:
    """How the runs of one thing compare."""
    found = queries.runs(records, name)
    if not found:
        raise ConfigError(
            f"Nothing here is called {name!r}.",
            hint="Give the name of an application, or the description of a job or query.",
        )
    if json:
        for run in found:
            show.json_line(run._asdict())
        return
    usual = median(run.duration_ms for run in found)
    drawn = _Sheet(("?started", "application", "?what", "status", ">duration", ">of median", ">rows", "?>bytes"))
    for run in found:
        share = f"{100 * run.duration_ms / usual:.0f} %" if usual and run.duration_ms else ""
        drawn.add_row(_time(run.started), run.prefix, run.what, _status(run.status), _ms(run.duration_ms), share,
                      f"{run.rows:,}", size(run.bytes))  # fmt: skip
    _print(drawn)


class _Sheet:
    """A table that leaves columns out where the terminal is too narrow for all.

    A name that begins with '>' heads numbers, one with '?' (in front of both) may be left out: the last one first.
    """

    def __init__(self, names: Sequence[str], title: str | None = None) -> None:
        self._names = names
        self._title = title
        self._rows: list[tuple[Sequence[Text], str]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_row(self, *cells: Cell, style: str = "") -> None:
        """One row, as many cells as there are names."""
        self._rows.append(([Text(visible(cell)) if isinstance(cell, str) else cell for cell in cells], style))

    def fit(self, console: Console) -> Table:
        """The table, as wide as the console at most if what may go is enough for that."""
        columns = list(range(len(self._names)))
        drawn = self._draw(columns)
        for number in reversed([number for number, name in enumerate(self._names) if name.startswith("?")]):
            if console.measure(drawn, options=console.options.update(max_width=10_000)).maximum <= console.width:
                break
            columns.remove(number)
            drawn = self._draw(columns)
        return drawn

    def _draw(self, columns: list[int]) -> Table:
        from rich.table import Table

        drawn = Table(box=None, pad_edge=False, header_style="bold", title=self._title)
        drawn.title_justify, drawn.title_style = "left", "bold underline"
        for number in columns:
            name = self._names[number].removeprefix("?")
            numeric = name.startswith(">")
            drawn.add_column(
                name.removeprefix(">"),
                justify="right" if numeric else "left",
                no_wrap=numeric or number == 0,
                overflow="fold",
            )
        for cells, style in self._rows:
            drawn.add_row(*(cells[number] for number in columns), style=style or None)
        return drawn


def _print(*sheets: _Sheet) -> None:
    """Tables that hold anything. A pipe gets every column, unfolded."""
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    for sheet in filter(len, sheets):
        console.print(sheet.fit(console))
        console.print()


def _status(status: str) -> Text:
    return Text(visible(status), style=_COLOURS.get(status, ""))


def _time(moment: int) -> str:
    """UTC to the second, as every command prints times."""
    return datetime.fromtimestamp(moment / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if moment else ""


def _ms(duration: int) -> str:
    if duration < 60_000:
        return f"{duration / 1_000:.1f} s" if duration >= 1_000 else f"{duration} ms"
    minutes = duration // 60_000
    return (
        f"{minutes // 60} h {minutes % 60:02} min"
        if minutes >= 60
        else f"{minutes} min {duration % 60_000 // 1_000:02} s"
    )


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _gist(message: str) -> str:
    """The line of a message that says what went wrong: the first, or the last line of a Python traceback."""
    raised = _RAISED.findall(message) if "Traceback (most recent call last)" in message else []
    return raised[-1].strip() if raised else _first_line(message)


def _indent(text: str) -> str:
    return "\n".join(f"    {visible(line)}" for line in text.splitlines())


def _totals(totals: Totals) -> tuple[str, str, str, str, str]:
    tasks = f"{totals.tasks:,}" + (f" ({totals.failed} failed)" if totals.failed else "")
    return (
        tasks,
        f"{totals.input_rows:,}",
        size(totals.input_bytes),
        f"{totals.output_rows:,}",
        size(totals.output_bytes),
    )


def _application_row(found: RecordedApplication) -> tuple[Cell, ...]:
    app = found.app
    return (
        found.prefix,
        _status(app.status),
        _time(app.started),
        _ms(app.duration_ms),
        f"{app.stages:,}",
        *_totals(app),
        app.name,
    )


def _job_row(job: Job) -> tuple[Cell, ...]:
    """Stages: those that ran, of those that it needed."""
    stages = f"{len(job.ran)}/{len(job.stages)}"
    what = job.description or job.name
    batch = "" if job.batch is None else f", batch {job.batch}"
    return (
        f"  job {job.id}",
        _status(job.status),
        _time(job.started),
        _ms(job.duration_ms),
        stages,
        *_totals(job),
        what + batch,
    )


def _application_table(found: RecordedApplication) -> _Sheet:
    app: Application = found.app
    drawn = _Sheet(("", ""))
    facts: dict[str, Cell] = {
        "application": f"{app.name} ({found.prefix})",
        "status": Text.assemble(_status(app.status), f", exit code {app.exit_code}" if app.exit_code else ""),
        "ran": f"{_time(app.started)} for {_ms(app.duration_ms)}, by {app.user}, Spark {app.spark_version}",
        "jobs": f"{app.jobs:,} ({app.jobs_failed} failed), {app.stages:,} stages ({app.stages_failed} failed), "
        f"{app.tasks:,} tasks ({app.failed} failed), {app.sql:,} SQL executions",
        "cost": f"{_ms(app.run_ms)} in tasks, {_ms(app.gc_ms)} in garbage collection, "
        f"{size(app.spill_disk_bytes)} spilled, {size(app.shuffle_write_bytes)} shuffled",
        "missing": " and ".join(
            part for part, count in ((f"{app.dropped:,} events that Spark dropped", app.dropped),
                                     (f"{app.damaged:,} damaged lines", app.damaged)) if count
        ),
    }  # fmt: skip
    for name, fact in facts.items():
        if fact:
            drawn.add_row(name, fact)
    return drawn


def _jobs_table(told: ApplicationDetail) -> _Sheet:
    drawn = _Sheet(_JOBS, "Jobs")
    for job in told.jobs:
        drawn.add_row(*_job_row(job))
    return drawn


def _stages_table(told: ApplicationDetail) -> _Sheet:
    drawn = _Sheet(_STAGES, "Stages (skew: slowest task over the median)")
    titles = {job.id: job.description for job in told.jobs}
    for stage in told.stages:
        drawn.add_row(*_stage_row(stage), titles.get(-1 if stage.job is None else stage.job) or stage.name)
    return drawn


def _stage_row(stage: Stage) -> tuple[Cell, ...]:
    number = f"{stage.id}.{stage.attempt}" if stage.attempt else str(stage.id)
    skew = f"{stage.skew:.1f}" if stage.skew else ""
    moved = (
        stage.input_bytes + stage.shuffle_read_bytes,
        stage.output_bytes + stage.shuffle_write_bytes,
        stage.spill_disk_bytes,
    )
    return (
        number,
        "" if stage.job is None else str(stage.job),
        _status(stage.status),
        _ms(stage.duration_ms),
        _totals(stage)[0],
        *map(_ms, (stage.task_median_ms, stage.task_p95_ms, stage.task_max_ms)),
        Text(skew, style="yellow" if stage.skew >= SKEWED else ""),
        *map(size, moved),
    )


def _access_table(told: ApplicationDetail) -> _Sheet:
    drawn = _Sheet(_ACCESSES, "Read and written")
    wholes = {sql.root for sql in told.sql if sql.root != sql.id}  # their parts have the counters
    for sql in told.sql:
        if sql.id in wholes:
            continue
        jobs = ",".join(map(str, sql.jobs))
        for way, accesses in (("reads", sql.reads), ("writes", sql.writes)):
            for access in accesses:
                drawn.add_row(str(sql.id), jobs, way, *_access_row(access), _first_line(sql.description))
    return drawn


def _access_row(access: Access) -> tuple[str, ...]:
    known = [f"{number:,}" if number >= 0 else "" for number in (access.rows, access.files)]
    return (
        access.what,
        _first_line(access.where),
        known[0],
        size(access.bytes) if access.bytes >= 0 else "",
        known[1],
    )


def _streams_table(told: ApplicationDetail) -> _Sheet:
    drawn = _Sheet(_BATCHES, "Streaming batches")
    for batch in told.batches:
        offsets = ", ".join(f"{source['start'] or '-'} → {source['end']}" for source in batch.sources)
        drawn.add_row(
            batch.name or batch.query, str(batch.batch), batch.at, _ms(batch.duration_ms), f"{batch.input_rows:,}",
            f"{batch.processed_rows_per_second:,.0f}", f"{batch.state_rows:,}", batch.watermark, offsets,
        )  # fmt: skip
    return drawn
