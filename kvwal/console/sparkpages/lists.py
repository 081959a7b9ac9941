"""The long tables of one application: its jobs, stages and SQL executions. A page reads only the records that it shows.

In the order of their numbers, the address has the first number (`from`). In another order, all of them are read, with the fields
of a row only, and the address has the number of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, texts
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Link, Pager, Row, Table, page_number
from kvwal.console.sparkpages.frame import frame
from kvwal.console.sparkreads.app_records import (
    EXECUTIONS,
    JOBS,
    SKEWED,
    STAGES,
    BriefJob,
    BriefSql,
    BriefStage,
    Kind,
    TimelineJob,
    numbered,
    title_of,
)
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Access, has_task_times

ROWS = 100
"""Rows of a page."""
_WINDOW = 4 * ROWS
_BAD = ("FAILED", "KILLED")
JOB_COLUMNS = (
    Column("id", "job", "plain", sort="id"),
    Column("status", "status", "status"),
    Column("title", "description", "text"),
    Column("started", "started", "moment", wide=True),
    Column("duration_ms", "duration", "duration", sort="duration"),
    Column("stages", "stages ran", "plain", wide=True),
    Column("tasks", "tasks", "count", wide=True, sort="tasks"),
    Column("failed", "failed tasks", "some", wide=True, sort="failed"),
    Column("run_ms", "task time", "duration", wide=True, sort="run"),
    Column("input_bytes", "read", "size", wide=True, sort="read"),
    Column("output_bytes", "written", "size", wide=True, sort="written"),
)
STAGE_COLUMNS = (
    Column("stage", "stage", "plain", sort="id"),
    Column("status", "status", "status"),
    Column("name", "name", "text", wide=True),
    Column("job", "job", "plain", wide=True),
    Column("duration_ms", "duration", "duration", sort="duration"),
    Column("run_ms", "task time", "duration", sort="run"),
    Column("tasks", "tasks", "count", sort="tasks"),
    Column("task_median_ms", "median", "duration", wide=True, sort="median"),
    Column("task_max_ms", "slowest", "duration", wide=True, sort="slowest"),
    Column("skew", "skew", "factor", sort="skew"),
    Column("read", "read", "size", wide=True, sort="read"),
    Column("written", "written", "size", wide=True, sort="written"),
    Column("spill_disk_bytes", "spilled", "size", wide=True, sort="spilled"),
)
SQL_COLUMNS = (
    Column("id", "execution", "plain", sort="id"),
    Column("status", "status", "status"),
    Column("description", "description", "text"),
    Column("started", "started", "moment", wide=True),
    Column("duration_ms", "duration", "duration", sort="duration"),
    Column("jobs", "jobs", "plain", wide=True),
    Column("reads", "reads", "text", wide=True),
    Column("writes", "writes", "text", wide=True),
)


def job_row(prefix: str, job: BriefJob) -> Row:
    """The row of a job."""
    values = {
        "id": job.id, "status": job.status, "title": title_of(job), "started": job.started, "duration_ms": job.duration_ms,
        "stages": f"{len(job.ran)}/{len(job.stages)}", "tasks": job.tasks, "failed": job.failed, "run_ms": job.run_ms,
        "input_bytes": job.input_bytes, "output_bytes": job.output_bytes, "input_rows": job.input_rows,
        "output_rows": job.output_rows, "sql": job.sql, "name": job.name, "ended": job.ended,
    }  # fmt: skip
    page = addresses.job(prefix, job.id)
    return Row(values, {"id": page, "title": page}, mark="bad" if job.status in _BAD else "warn" if job.failed else "")


def stage_row(prefix: str, stage: BriefStage) -> Row:
    """The row of one attempt of a stage. Times are those of its successful tasks, and a stage may have none."""
    has_times = has_task_times(stage)
    values = {
        "stage": f"{stage.id}.{stage.attempt}" if stage.attempt else str(stage.id), "status": stage.status, "name": stage.name,
        "job": stage.job, "duration_ms": stage.duration_ms, "run_ms": stage.run_ms, "tasks": stage.tasks,
        "task_median_ms": stage.task_median_ms if has_times else None,
        "task_max_ms": stage.task_max_ms if has_times else None, "skew": stage.skew,
        "read": stage.input_bytes + stage.shuffle_read_bytes, "written": stage.output_bytes + stage.shuffle_write_bytes,
        "spill_disk_bytes": stage.spill_disk_bytes, "id": stage.id, "attempt": stage.attempt, "started": stage.started,
        "ended": stage.ended, "failed": stage.failed, "gc_ms": stage.gc_ms, "task_p95_ms": stage.task_p95_ms,
        "input_bytes": stage.input_bytes, "output_bytes": stage.output_bytes, "shuffle_read_bytes": stage.shuffle_read_bytes,
        "shuffle_write_bytes": stage.shuffle_write_bytes,
    }  # fmt: skip
    page = addresses.stage(prefix, stage.id, stage.attempt)
    links = {"stage": page, "name": page}
    if stage.job is not None:
        links["job"] = addresses.job(prefix, stage.job)
    is_odd = stage.skew >= SKEWED or stage.failed or stage.spill_disk_bytes
    return Row(values, links, mark="bad" if stage.status in _BAD else "warn" if is_odd else "")


def with_title(row: Row, titles: Mapping[int, str]) -> Row:
    """The row of a stage with what a person wrote about its job: many stages are named after Spark's own code."""
    title = titles.get(row.values["job"])
    return row._replace(more={"name": title}) if title and title != row.values["name"] else row


def _titles(records: RecordReader, prefix: str, stages: Sequence[BriefStage]) -> dict[int, str]:
    """What people wrote about the jobs of stages, if these are near each other: each range is a read."""
    jobs = [stage.job for stage in stages if stage.job is not None]
    if not jobs or max(jobs) - min(jobs) > _WINDOW:
        return {}
    found = numbered(records, prefix, JOBS, TimelineJob, min(jobs), max(jobs))
    return {job.id: job.description.partition("\n")[0] for job in found if job.description}


def sql_row(prefix: str, sql: BriefSql) -> Row:
    """The row of an SQL execution. One that is a part of another says so."""
    values = {
        "id": sql.id, "status": sql.status, "description": title_of(sql), "started": sql.started, "duration_ms": sql.duration_ms,
        "jobs": _few([str(each) for each in sql.jobs]), "reads": _few([_place(each) for each in sql.reads]),
        "writes": _few([_place(each) for each in sql.writes]), "root": sql.root, "ended": sql.ended,
    }  # fmt: skip
    page = addresses.execution(prefix, sql.id)
    more = {"description": f"part of execution {sql.root}"} if sql.root != sql.id else {}
    bad = sql.status in _BAD or sql.error is not None
    return Row(values, {"id": page, "description": page}, more, "bad" if bad else "")


def _place(access: Access) -> str:
    return access.table or without_packages(access.where) or access.what


def without_packages(where: str) -> str:
    """The place of a data set as a page shows it. Spark names some sinks by their Java objects: their package says nothing."""
    return _OBJECT.sub(r"\1", where.partition("\n")[0])


_OBJECT = re.compile(r"(?:[a-z]\w*\.){2,}([A-Z]\w*)@[0-9a-f]+\b")


def _few(names: list[str]) -> str:
    """The first names of a list, by their last parts, and how many more there are."""
    short = [
        texts.clipped(name.partition("\n")[0].removesuffix(", ...").rstrip("/").rpartition("/")[2], 60)
        for name in names[:3]
    ]
    return ", ".join(short) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


class _List(NamedTuple):
    """A list of an application: its name, the kind of its records, the type that is read, its columns, and its rows.

    `orders` has, by the name in the address, what its rows can be sorted by.
    """

    name: str
    title: str
    kind: Kind
    of: type[Any]
    columns: tuple[Column, ...]
    row: Callable[[str, Any], Row]
    orders: Mapping[str, Callable[[Any], float]]
    empty: str


_LISTS = {
    "jobs": _List("jobs", "Jobs", JOBS, BriefJob, JOB_COLUMNS, job_row, {
        "id": lambda job: job.id, "duration": lambda job: job.duration_ms, "tasks": lambda job: job.tasks,
        "failed": lambda job: job.failed, "run": lambda job: job.run_ms, "read": lambda job: job.input_bytes,
        "written": lambda job: job.output_bytes,
    }, "No job is recorded."),
    "stages": _List("stages", "Stages", STAGES, BriefStage, STAGE_COLUMNS, stage_row, {
        "id": lambda stage: stage.id, "duration": lambda stage: stage.duration_ms, "run": lambda stage: stage.run_ms,
        "tasks": lambda stage: stage.tasks, "median": lambda stage: stage.task_median_ms,
        "slowest": lambda stage: stage.task_max_ms, "skew": lambda stage: stage.skew,
        "read": lambda stage: stage.input_bytes + stage.shuffle_read_bytes,
        "written": lambda stage: stage.output_bytes + stage.shuffle_write_bytes,
        "spilled": lambda stage: stage.spill_disk_bytes,
    }, "No stage is recorded."),
    "sql": _List("sql", "SQL executions", EXECUTIONS, BriefSql, SQL_COLUMNS, sql_row, {
        "id": lambda sql: sql.id, "duration": lambda sql: sql.duration_ms,
    }, "No SQL execution is recorded."),
}  # fmt: skip
NAMES = tuple(_LISTS)
"""The names of the lists in addresses."""


def list_page(
    records: RecordReader, recorded: RecordedApplication, name: str, query: Mapping[str, str], link: Link, command: str
) -> Shown:
    """The page of a list of an application."""
    kind = _LISTS[name]
    count = {"jobs": recorded.app.jobs, "stages": recorded.app.stages, "sql": recorded.app.sql}[name]
    words, status = query.get("q", "").lower().split(), query.get("status", "").upper()

    def taken(first: int) -> Iterator[Any]:
        if not words and not status:
            # Each range is a read of the log's tail, and a long one costs more: so a short one first, then the rest.
            start = list(numbered(records, recorded.prefix, kind.kind, kind.of, first, first + _WINDOW - 1))
            yield from start
            if first == 0 and name != "stages" and len(start) >= count:
                return  # every job, or execution, was counted when it began
            first += _WINDOW
        found = numbered(records, recorded.prefix, kind.kind, kind.of, first)
        yield from (each for each in found if status in ("", each.status) and _says(each, words))

    sort = query.get("sort", "")
    ordered = _in_numbers(taken, query, link, count, bool(words or status)) if sort in ("", "id") else _sorted(
        taken, kind, sort, query, link
    )  # fmt: skip
    rows = [kind.row(recorded.prefix, each) for each in ordered.shown]
    if name == "stages":
        titles = _titles(records, recorded.prefix, ordered.shown)
        rows = [with_title(row, titles) for row in rows]
    table = Table(
        name, kind.title, kind.columns, rows, "Nothing is chosen by these filters." if words or status else kind.empty,
        ordered.pager, lambda: (kind.row(recorded.prefix, each) for each in taken(0)), order="id",
    )  # fmt: skip
    app = recorded.app
    bad = {"jobs": app.jobs_failed, "stages": app.stages_failed, "sql": app.sql_failed}[name]
    chips = [(bad, "FAILED")] if bad and not status else []
    values = {**frame(recorded, name, command, kind.title), "status": status, "filters": True, "chips": chips}
    return Shown("list.html", values, [table])


class _Ordered(NamedTuple):
    shown: list[Any]
    pager: Pager


def _in_numbers(
    taken: Callable[[int], Iterator[Any]], query: Mapping[str, str], link: Link, count: int, chosen: bool
) -> _Ordered:
    """Rows in the order of their numbers, from the one that the address names."""
    text = query.get("from") or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise Refused(400, f"from={text[:40]!r} is no number of a row: give one from 0 on.")
    found = taken(int(text))
    shown = list(islice(found, ROWS))
    after = next(found, None)
    while after is not None and after.id == shown[-1].id:  # the attempts of a stage stay together
        shown.append(after)
        after = next(found, None)
    first = int(text)
    before = link({"from": first - ROWS if first > ROWS and not chosen else None}) if first else ""
    place = texts.amount(len(shown), "row") if chosen else f"{texts.count(len(shown))} of {texts.count(count)}"
    if first:
        place += f", from number {texts.count(first)}"
    words = "← previous page" if first > ROWS and not chosen else "← first page"
    return _Ordered(shown, Pager(place, before, "" if after is None else link({"from": after.id}), words))


def _sorted(
    taken: Callable[[int], Iterator[Any]], kind: _List, sort: str, query: Mapping[str, str], link: Link
) -> _Ordered:
    """Rows in the order that the address names: a page of them."""
    order = kind.orders.get(sort.removeprefix("-"))
    if order is None:
        raise Refused(400, f"This list cannot be sorted by {sort[:40]!r}: by {', '.join(kind.orders)}.")
    every = sorted(taken(0), key=order, reverse=sort.startswith("-"))
    number = page_number(query, len(every), ROWS)
    return _Ordered(every[(number - 1) * ROWS : number * ROWS], Pager.of(number, len(every), ROWS, link))


def _says(record: BriefJob | BriefStage | BriefSql, words: list[str]) -> bool:
    """Whether a record has all of these words in its texts."""
    if not words:
        return True
    names = (record.name,) if isinstance(record, BriefStage) else (title_of(record),)
    accesses = chain(record.reads, record.writes) if isinstance(record, BriefSql) else ()
    said = "\n".join((str(record.id), *names, *(f"{each.where} {each.table}" for each in accesses))).lower()
    return all(word in said for word in words)
