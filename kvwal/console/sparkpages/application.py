"""The page of one application: what failed first, then when it did what, where the time went, and what it read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvwal.console.pages import addresses, pictures, texts
from kvwal.console.pages.pictures import Bar, Lane, Part
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.shared_reader import View
from kvwal.console.sparkpages.frame import figures, frame
from kvwal.console.sparkpages.lists import STAGE_COLUMNS, stage_row, with_title, without_packages
from kvwal.console.sparkreads.app_records import title_of
from kvwal.console.sparkreads.digest import MOST_BARS, Accessed, Digest, Digests
from kvwal.console.sparkreads.listing import Listing, listing
from kvwal.spark import queries
from kvwal.spark.lineage.names import names_of
from kvwal.spark.queries import RecordedApplication, RecordedFailure, lasted_ms
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Access, Application
from kvwal.spark.records.texts import gist

FIRST_FAILURES = 5
_SLICES = 200
_COLOURS = {"FAILED": "s-bad", "KILLED": "s-bad", "RUNNING": "s-run", "DETACHED": "s-warn"}


def application_page(view: View, digests: Digests, recorded: RecordedApplication, command: str) -> Shown:
    """The page of one application."""
    digest, app = digests.of(view.records, recorded), recorded.app
    known = view.made_of_records(listing)
    failures = digest.failures
    titles = {job.id: job.description.partition("\n")[0] for job in digest.jobs if job.description}
    slowest = sorted(digest.slow, key=lambda stage: stage.status != "FAILED")  # stable: the others stay in their order
    slow = Table("slowest-stages", "Stages with most task time", STAGE_COLUMNS,
                 [with_title(stage_row(recorded.prefix, stage), titles) for stage in slowest], "No stage ran.",
                 note=f"{texts.amount(digest.skewed, 'stage')} skewed" if digest.skewed else "")  # fmt: skip
    values = {
        **frame(recorded, "summary", command), "failures": [failure_of(each) for each in failures[:FIRST_FAILURES]],
        "more_failures": max(0, len(failures) - FIRST_FAILURES), "figures": figures(recorded, known),
        "timeline": _timeline(recorded, digest), "time": _time_parts(app), "missing_roll": digest.missing_roll,
        "same_name": len(known.by_name.get(app.name, ())), "runs_link": addresses.runs(app.name),
        "before": _run_before(known, recorded),
    }  # fmt: skip
    shown = [slow, accesses_table(recorded.prefix, digest.accesses)]
    others = _attempts(known, recorded)
    return Shown("application.html", values, [*shown, others] if others.rows else shown)


def failure_of(failure: RecordedFailure) -> dict[str, Any]:
    """A failure as pages show it: the line that names the error, the rest of the message, and where to look further."""
    message, stack = failure.error.message, failure.error.stack
    named = gist(message)
    # Spark's stack often begins with the message, and a message may be long: each is shown once.
    rest = "" if message.strip() == named.strip() else message
    return {
        "what": failure.what, "title": failure.title.partition("\n")[0], "at": failure.at, "gist": named,
        "message": rest, "stack": stack if stack.strip() != message.strip() else "",
        "link": link_of(failure.prefix, failure.what),
    }  # fmt: skip


def link_of(prefix: str, what: str) -> str:
    """The page of what a failure or a run names: `job 4`, `sql 3`, `stream <name>`, or the application."""
    kind, _, number = what.partition(" ")
    if kind in ("job", "sql") and number.isascii() and number.isdecimal():
        return addresses.app(prefix, kind, number)
    return addresses.app(prefix, "streams") if kind == "stream" else addresses.app(prefix)


def _time_parts(app: Application) -> Any:
    """Where the time of all tasks went. Spark's run time has CPU, garbage collection, and the wait for shuffled data in it."""
    cpu, waiting = min(round(app.cpu_ms), app.run_ms), min(app.shuffle_wait_ms, app.run_ms)
    other = max(0, app.run_ms - cpu - app.gc_ms - waiting)
    parts = [
        Part("CPU", cpu, texts.duration(cpu), "c1"), Part("garbage collection", app.gc_ms, texts.duration(app.gc_ms), "c5"),
        Part("waiting for shuffled data", waiting, texts.duration(waiting), "c4"),
        Part("reading, writing, Python", other, texts.duration(other), "c2"),
        Part("scheduler delay", app.scheduler_delay_ms, texts.duration(app.scheduler_delay_ms), "c3"),
    ]  # fmt: skip
    return pictures.parts_bar(parts, "Where the time of all tasks went")


def _timeline(recorded: RecordedApplication, digest: Digest) -> Any:
    app, jobs = recorded.app, digest.jobs
    begin = app.started or min((job.started for job in jobs if job.started), default=0)
    end = max(app.ended, app.last_event, max((job.ended for job in jobs), default=0))
    if not begin or end <= begin:
        return ""
    executors = [
        Bar(each.added, each.removed or end, _executor_text(each.id, each.host, each.reason), "",
            "s-warn" if each.removed and app.ended and each.removed < app.ended - 1000 else "c6")
        for each in digest.executors if each.added
    ][:MOST_BARS]  # fmt: skip
    prefix = recorded.prefix
    ran = [
        _Ran("job", job.id, job.status, job.started, job.ended, title_of(job), addresses.job(prefix, job.id))
        for job in jobs
    ]
    staged = [
        _Ran("stage", each.id, each.status, each.started, each.ended, each.name,
             addresses.stage(prefix, each.id, each.attempt)) for each in digest.stages
    ]  # fmt: skip
    bars = {
        name: _bars(each, begin, end, addresses.app(prefix, name)) for name, each in (("jobs", ran), ("stages", staged))
    }
    lanes = [Lane(name, each) for name, each in (("executors", executors), *bars.items()) if each]
    if not lanes:
        return ""
    ticks = [(begin + at, f"+{texts.round_duration(at)}" if at else "0") for at in pictures.ticks_of(end - begin)]
    return pictures.timeline(lanes, begin, end, ticks, f"When {texts.amount(len(jobs), 'job')} ran")


def _executor_text(name: str, host: str, reason: str) -> str:
    return " · ".join(filter(None, (f"executor {name}" if name != "driver" else "driver", host, reason)))


class _Ran(NamedTuple):
    """A job or a stage on the timeline; `ended` is 0 while it runs."""

    what: str
    id: int
    status: str
    started: int
    ended: int
    title: str
    link: str


def _bars(every: Sequence[_Ran], begin: int, end: int, listed: str) -> list[Bar]:
    """A bar for each job or stage; of very many, a bar for each slice of the time in which one began, which leads to the list."""
    ran = [each for each in every if each.started]
    if len(ran) <= MOST_BARS:
        return [
            Bar(each.started, each.ended or end,
                f"{each.what} {each.id}, {texts.duration((each.ended or end) - each.started)}: {each.title}", each.link,
                _COLOURS.get(each.status, "s-ok"))
            for each in ran
        ]  # fmt: skip
    slices: list[list[_Ran]] = [[] for _ in range(_SLICES)]
    length = (end - begin) / _SLICES
    for each in ran:
        slices[min(_SLICES - 1, max(0, int((each.started - begin) / length)))].append(each)
    bars = []
    for number, begun in enumerate(slices):
        if begun:
            bad = [each for each in begun if each.status in ("FAILED", "KILLED")]
            told = f"{texts.amount(len(begun), begun[0].what)} begun" + (f", {len(bad)} failed" if bad else "")
            link = bad[0].link if bad else f"{listed}?from={begun[0].id}"
            bars.append(
                Bar(begin + number * length, begin + (number + 1) * length, told, link, "s-bad" if bad else "s-ok")
            )
    return bars


ACCESS_COLUMNS = (
    Column("does", "", "plain"),
    Column("dataset", "data set", "text"),
    Column("format", "format", wide=True),
    Column("rows", "rows", "count", wide=True),
    Column("bytes", "bytes", "size"),
    Column("files", "files", "count", wide=True),
)


def accesses_table(prefix: str, accessed: Sequence[Accessed], *, of_one: bool = False) -> Table:
    """The data sets that executions read and wrote, each with the page of its lineage; `of_one` if they are all of one."""
    rows = []
    for each in accessed:
        row = access_row(each.access, writes=each.writes, of_stream=each.of_stream)
        links = {**row.links, "sql": addresses.execution(prefix, each.execution)}
        rows.append(row._replace(values={**row.values, "sql": each.execution}, links=links))
    columns = ACCESS_COLUMNS if of_one else (*ACCESS_COLUMNS, Column("sql", "execution", "plain", wide=True))
    return Table("data", "Read and written", columns, rows, "No SQL execution says what it read or wrote.")


def access_row(access: Access, *, writes: bool, of_stream: bool) -> Row:
    """The row of a read or a write; `of_stream` if a batch of a streaming query did it."""
    name = lineage_name(access, of_stream=of_stream)
    shown = access.table or without_packages(access.where) or access.what
    known = {key: value if value >= 0 else None for key, value in
             (("rows", access.rows), ("bytes", access.bytes), ("files", access.files))}  # fmt: skip
    values = {"does": "writes" if writes else "reads", "dataset": shown, "format": access.what, **known, "where": access.where,
              "table": access.table, "name": name}  # fmt: skip
    return Row(values, {"dataset": addresses.lineage(name)} if name else {})


def lineage_name(access: Access, *, of_stream: bool) -> str:
    """The name of a data set as the lineage has it; nothing for one that the lineage cannot name.

    A batch of a streaming query names single files: the lineage has their folder.
    """
    return next((each.text for each in names_of(access, of_stream=of_stream)), "")


def _run_before(known: Listing, recorded: RecordedApplication) -> str:
    """The page that compares a run with the one of this name before it; nothing for the first one."""
    named = known.by_name.get(recorded.app.name, [])
    place = next((number for number, each in enumerate(named) if each.prefix == recorded.prefix), len(named))
    return addresses.comparison(named[place + 1].prefix, recorded.prefix) if place + 1 < len(named) else ""


def _attempts(known: Listing, recorded: RecordedApplication) -> Table:
    columns = (Column("application", "attempt"), Column("status", "status", "status"), Column("started", "started", "moment"),
               Column("duration_ms", "duration", "duration"))  # fmt: skip
    every = [each for each in known.by_name.get(recorded.app.name, ()) if each.app.id == recorded.app.id]
    rows = [
        Row({"application": each.prefix, "status": each.app.status, "started": each.app.started,
             "duration_ms": lasted_ms(each.app)}, {"application": addresses.app(each.prefix)})
        for each in every if each.prefix != recorded.prefix
    ]  # fmt: skip
    return Table("attempts", "Other attempts", columns, rows)


def failures_page(records: RecordReader, recorded: RecordedApplication, command: str) -> Shown:
    """The page of all failures of one application, latest last, as `kvwal jobs --failed` tells them."""
    failures = queries.failures(records, of=recorded)
    columns = (Column("what", "what", "plain"), Column("at", "failed at", "moment"), Column("title", "description"),
               Column("error", "error"))  # fmt: skip
    rows = [
        Row({"what": each.what, "at": each.at, "title": each.title, "error": gist(each.error.message),
             "message": each.error.message, "stack": each.error.stack},
            {"what": link_of(each.prefix, each.what)}, mark="bad")
        for each in failures
    ]  # fmt: skip
    values = {
        **frame(recorded, "failures", command, "Failures"),
        "failures": [failure_of(each) for each in failures[:50]],
    }
    return Shown("failures.html", values, [Table("failures", "All failures", columns, rows, "Nothing failed.")])
