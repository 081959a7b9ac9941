"""Tables of Spark applications: rows and sheets of applications, jobs, stages, reads and writes, and streaming batches."""

from __future__ import annotations

from rich.text import Text

from kvwal.cli.tables import Cell, Sheet, columns
from kvwal.cli.text import visible
from kvwal.hlc import second_text
from kvwal.scrub.units import size
from kvwal.spark.queries import ApplicationDetail, RecordedApplication, lasted_ms
from kvwal.spark.records import Access, Application, Job, Stage, Totals, has_task_times

_COLOURS = {"SUCCEEDED": "green", "FAILED": "red", "RUNNING": "yellow", "DETACHED": "cyan", "KILLED": "red"}
SKEWED = 3.0
"""Slowest task over the median task of a stage, from which the figure is highlighted."""
APPLICATIONS = columns(
    "",
    "status",
    "?started",
    ">duration",
    "?>jobs",
    "?>stages",
    "?>tasks",
    ">rows in",
    "?>in",
    ">rows out",
    "?>out",
    "what",
)
_JOBS = columns(
    "", "status", "?started", ">duration", "?>stages", "?>tasks", ">rows in", "?>in", ">rows out", "?>out", "what"
)
_TIMES = (">median", "?>p95", ">max", ">skew")
_STAGES = columns(
    "stage", "?>job", "?status", ">duration", ">tasks", *_TIMES, "?>read", "?>written", "?>spilled", "what"
)
_ACCESSES = columns("?>sql", "jobs", "", "what", "where", ">rows", ">bytes", "?>files", "?for")
_BATCHES = columns(
    "query", ">batch", "?at", ">duration", ">rows in", ">rows/s", ">state rows", "?watermark", "?offsets"
)


def status_cell(status: str) -> Text:
    """A status in its colour."""
    return Text(visible(status), style=_COLOURS.get(status, ""))


def time_text(moment: int) -> str:
    """A time in unix milliseconds as text: UTC to the second; empty for 0."""
    return second_text(moment) if moment else ""


def duration_text(duration_ms: int) -> str:
    """A duration in milliseconds as text with its unit."""
    if duration_ms < 60_000:
        return f"{duration_ms / 1_000:.1f} s" if duration_ms >= 1_000 else f"{duration_ms} ms"
    minutes = duration_ms // 60_000
    return (
        f"{minutes // 60} h {minutes % 60:02} min"
        if minutes >= 60
        else f"{minutes} min {duration_ms % 60_000 // 1_000:02} s"
    )


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def indent(text: str) -> str:
    """Text with every line indented, for the terminal."""
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


def application_row(recorded: RecordedApplication) -> tuple[Cell, ...]:
    """The row of one application in a table with the columns `APPLICATIONS`."""
    app = recorded.app
    return (
        recorded.prefix,
        Text.assemble(status_cell(app.status), _failed_jobs(app.jobs_failed)),
        time_text(app.started),
        duration_text(lasted_ms(app)),
        f"{app.jobs:,}",
        f"{app.stages:,}",
        *_totals(app),
        app.name,
    )


def _core_time(app: Application) -> str:
    return f"{app.core_ms / 3_600_000:.2f} core-hours, " if app.core_ms else ""


def _failed_jobs(count: int) -> str:
    return f" ({count:,} job{'' if count == 1 else 's'} failed)" if count else ""


def _job_row(job: Job) -> tuple[Cell, ...]:
    """The row of one job. Its stages: how many ran, of how many it needed."""
    stages = f"{len(job.ran)}/{len(job.stages)}"
    title = job.description or job.name
    batch = "" if job.batch is None else f", batch {job.batch}"
    return (
        f"job {job.id}",
        status_cell(job.status),
        time_text(job.started),
        duration_text(job.duration_ms),
        stages,
        *_totals(job),
        title + batch,
    )


def application_sheet(recorded: RecordedApplication) -> Sheet:
    """The facts about one application, a row each."""
    app: Application = recorded.app
    sheet = Sheet(columns("", ""))
    facts: dict[str, Cell] = {
        "application": f"{app.name} ({recorded.prefix})",
        "status": Text.assemble(
            status_cell(app.status),
            f", exit code {app.exit_code}" if app.exit_code else "",
            ", as Spark says: it stopped in order" if app.status_from == "spark" and app.status == "SUCCEEDED" else "",
        ),
        "ran": f"{time_text(app.started)} for {duration_text(lasted_ms(app))}, by {app.user}, Spark {app.spark_version}",
        "jobs": f"{app.jobs:,} ({app.jobs_failed} failed), {app.stages:,} stages ({app.stages_failed} failed), "
        f"{app.tasks:,} tasks ({app.failed} failed), {app.sql:,} SQL executions",
        "cost": f"{_core_time(app)}{duration_text(app.run_ms)} in tasks, {duration_text(app.gc_ms)} in garbage collection, "
        f"{size(app.spill_disk_bytes)} spilled, {size(app.shuffle_write_bytes)} shuffled",
        "missing": " and ".join(
            part for part, count in ((f"{app.dropped:,} events that Spark dropped", app.dropped),
                                     (f"{app.damaged:,} damaged lines", app.damaged)) if count
        ),
    }  # fmt: skip
    for name, fact in facts.items():
        if fact:
            sheet.add_row(name, fact)
    return sheet


def jobs_sheet(detail: ApplicationDetail) -> Sheet:
    """The jobs of one application."""
    sheet = Sheet(_JOBS, "Jobs")
    for job in detail.jobs:
        sheet.add_row(*_job_row(job))
    return sheet


def stages_sheet(detail: ApplicationDetail) -> Sheet:
    """The stages of one application, each with the title of its job."""
    sheet = Sheet(_STAGES, "Stages (skew: slowest task over the median)")
    titles = {job.id: job.description for job in detail.jobs}
    for stage in detail.stages:
        sheet.add_row(*_stage_row(stage), titles.get(-1 if stage.job is None else stage.job) or stage.name)
    return sheet


def _stage_row(stage: Stage) -> tuple[Cell, ...]:
    number = f"{stage.id}.{stage.attempt}" if stage.attempt else str(stage.id)
    skew = f"{stage.skew:.1f}" if stage.skew else ""
    times = (stage.task_median_ms, stage.task_p95_ms, stage.task_max_ms)
    has_times = has_task_times(stage)
    moved = (
        stage.input_bytes + stage.shuffle_read_bytes,
        stage.output_bytes + stage.shuffle_write_bytes,
        stage.spill_disk_bytes,
    )
    return (
        number,
        "" if stage.job is None else str(stage.job),
        status_cell(stage.status),
        duration_text(stage.duration_ms),
        _totals(stage)[0],
        *(duration_text(ms) if has_times else "" for ms in times),
        Text(skew, style="yellow" if stage.skew >= SKEWED else ""),
        *map(size, moved),
    )


def reads_and_writes_sheet(detail: ApplicationDetail) -> Sheet:
    """The tables and files that the SQL executions and the RDDs of one application read and wrote."""
    sheet = Sheet(_ACCESSES, "Read and written")
    roots = {sql.root for sql in detail.sql if sql.root != sql.id}  # their parts have the counters
    written = {sql.root for sql in detail.sql if sql.root != sql.id and sql.writes}
    for sql in detail.sql:
        jobs, reads = ",".join(map(str, sql.jobs)), [] if sql.id in roots else sql.reads
        writes = [] if sql.id in roots & written else sql.writes
        for direction, access in _directed(reads, writes):
            sheet.add_row(str(sql.id), jobs, direction, *_access_row(access), _first_line(sql.description))
    for job in detail.jobs:
        for direction, access in _directed(job.reads, job.writes):
            title = _first_line(job.description or job.name)
            sheet.add_row("", str(job.id), direction, *_access_row(access), title)
    return sheet


def _directed(reads: list[Access], writes: list[Access]) -> list[tuple[str, Access]]:
    return [*(("reads", access) for access in reads), *(("writes", access) for access in writes)]


def _access_row(access: Access) -> tuple[str, ...]:
    rows, files = [f"{number:,}" if number >= 0 else "" for number in (access.rows, access.files)]
    return (
        access.what,
        ", ".join(filter(None, (access.table, _first_line(access.where)))),
        rows,
        size(access.bytes) if access.bytes >= 0 else "",
        files,
    )


def batches_sheet(detail: ApplicationDetail) -> Sheet:
    """The streaming batches of one application."""
    sheet = Sheet(_BATCHES, "Streaming batches")
    for batch in detail.batches:
        offsets = ", ".join(f"{source.start or '-'} → {source.end}" for source in batch.sources)
        rate = "" if batch.processed_rows_per_second is None else f"{batch.processed_rows_per_second:,.0f}"
        sheet.add_row(
            batch.name or batch.query, str(batch.batch), time_text(batch.at), duration_text(batch.duration_ms),
            f"{batch.input_rows:,}", rate, f"{batch.state_rows:,}", batch.watermark, offsets,
        )  # fmt: skip
    return sheet
