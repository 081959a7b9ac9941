"""The pages of an SQL execution and of a job: what failed, the plan with its metrics, the data, the jobs and the stages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import PlainTextResponse, Response

from kvwal.console.bodies import Refused
from kvwal.console.pages import addresses, texts
from kvwal.console.pages.rendering import Shown
from kvwal.console.pages.tables import Column, Row, Table
from kvwal.console.sparkpages.application import ACCESS_COLUMNS, access_row, accesses_table, failure_of, lineage_name
from kvwal.console.sparkpages.frame import frame
from kvwal.console.sparkpages.lists import JOB_COLUMNS, STAGE_COLUMNS, job_row, stage_row
from kvwal.console.sparkreads.app_records import JOBS, STAGES, BriefJob, BriefStage, numbered, one
from kvwal.console.sparkreads.digest import Accessed
from kvwal.console.sparkreads.plan_graph import MOST_NODES, Touched, metric_text, plan_of, plan_picture
from kvwal.scrub.units import size
from kvwal.spark import queries
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_keys import job_key, sql_key
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Access, Error, Job, Sql

MOST_PLAN = 20_000
"""Characters of a plan's text that a page shows. The whole text has an address of its own."""
_MOST_PARTS = 200
_SHARE_OF_SLOW = 0.05
"""Share of an execution's duration, from which its slowest node is marked."""
_RAN = tuple(column for column in JOB_COLUMNS if column.key not in ("started", "stages", "failed", "output_bytes"))
_METRICS = (
    Column("node", "node", "text"),
    Column("name", "metric", "text"),
    Column("shown", "value", "plain"),
)
_SETTINGS = (Column("name", "setting", "code"), Column("value", "value", "code"))


def sql_of(records: RecordReader, recorded: RecordedApplication, number: int) -> Sql:
    """An SQL execution. Raises `Refused` if there is none."""
    found = one(records, sql_key(recorded.prefix, number), Sql)
    if found is None:
        raise Refused(404, f"{recorded.prefix} has no SQL execution {number}.")
    return found


def execution_page(records: RecordReader, recorded: RecordedApplication, number: int, command: str) -> Shown:
    """The page of an SQL execution."""
    prefix, sql = recorded.prefix, sql_of(records, recorded, number)
    jobs = _jobs(records, prefix, sql.jobs)
    of_stream = bool(sql.stream)
    accessed = [
        Accessed(writes, each, sql.id, of_stream)
        for writes, side in ((False, sql.reads), (True, sql.writes))
        for each in side
    ]
    touched = {}
    for writes, access, *_ in accessed:
        node = access.node.partition(" ")[0]
        if node.isascii() and node.isdecimal():
            name = lineage_name(access, of_stream=of_stream)
            touched[int(node)] = Touched(writes, addresses.lineage(name) if name else "")
    plan = plan_of(sql.nodes, sql.edges, sql.metrics)
    if plan.slowest is not None and plan.nodes[plan.slowest].ms < _SHARE_OF_SLOW * sql.duration_ms:
        plan = plan._replace(slowest=None)  # Spark reported no time of the nodes that took it
    is_drawn = 0 < len(plan.nodes) <= MOST_NODES
    picture = plan_picture(plan, touched, f"Plan of execution {number}") if is_drawn else ""
    metrics = [
        Row({"node": each.node, "name": each.name, "shown": metric_text(each), "value": each.value, "type": each.type})
        for each in sql.metrics if each.value is not None
    ]  # fmt: skip
    settings = [Row({"name": name, "value": value}) for name, value in sorted(sql.settings.items())]
    first = sql.description.partition("\n")[0]
    values = {
        **frame(recorded, "sql", command, f"SQL execution {number}"), "record": sql, "description": first or sql.call_site,
        "figures": _sql_figures(sql, jobs), "failure": _failure(records, recorded, f"sql {number}", sql.error, sql.status),
        "picture": picture, "nodes": len(plan.nodes), "nodes_left": sql.nodes_left, "plan": sql.plan[:MOST_PLAN],
        "plan_cut": len(sql.plan) > MOST_PLAN, "plan_link": addresses.app(prefix, "sql", number, "plan"),
        "slowest": plan.nodes[plan.slowest].name if plan.slowest is not None else "",
        "root_link": addresses.execution(prefix, sql.root) if sql.root != sql.id else "",
    }  # fmt: skip
    shown = [
        accesses_table(prefix, accessed, of_one=True),
        Table("jobs", "Jobs", _RAN, [job_row(prefix, job) for job in jobs], "It ran no job."),
        Table("metrics", "Metrics", _METRICS, metrics, "Spark reported no metric."),
    ]
    if settings:
        shown.append(Table("settings", "Settings that the session had changed", _SETTINGS, settings))
    return Shown("execution.html", values, shown)


def plan_text(records: RecordReader, recorded: RecordedApplication, number: int) -> Response:
    """The whole text of a plan, as plain text."""
    return PlainTextResponse(sql_of(records, recorded, number).plan.encode(errors="replace"))


def _sql_figures(sql: Sql, jobs: Sequence[BriefJob]) -> list[tuple[str, Any, str]]:
    rows = [_rows(side) for side in (sql.reads, sql.writes)]
    return [
        ("started", texts.moment(sql.started), ""),
        ("duration", texts.duration(sql.duration_ms), ""),
        ("jobs", texts.count(len(sql.jobs)), ""),
        ("task time", texts.duration(sum(job.run_ms for job in jobs)), ""),
        ("read", size(sum(max(0, each.bytes) for each in sql.reads)), rows[0]),
        ("written", size(sum(max(0, each.bytes) for each in sql.writes)), rows[1]),
    ]


def _rows(accesses: Sequence[Access]) -> str:
    """The rows of data sets, as far as they are known."""
    known = [each.rows for each in accesses if each.rows >= 0]
    return texts.amount(sum(known), "row") if known else ""


def _jobs(records: RecordReader, prefix: str, wanted: Sequence[int]) -> list[BriefJob]:
    """The jobs with these numbers."""
    if not wanted:
        return []
    chosen = set(wanted[:_MOST_PARTS])
    return [job for job in numbered(records, prefix, JOBS, BriefJob, min(chosen), max(chosen)) if job.id in chosen]


def _failure(
    records: RecordReader, recorded: RecordedApplication, what: str, error: Error | None, status: str
) -> dict[str, Any] | None:
    """What failed, with the error that has a stack: an execution has its job's."""
    if error is None and status != "FAILED":
        return None
    known = next((each for each in queries.failures(records, of=recorded) if each.what == what), None)
    if known is not None:
        return failure_of(known)
    at = 0
    return failure_of(queries.RecordedFailure(recorded.prefix, recorded.app, what, at, "", error or Error("")))


def job_page(records: RecordReader, recorded: RecordedApplication, number: int, command: str) -> Shown:
    """The page of a job."""
    prefix = recorded.prefix
    job = one(records, job_key(prefix, number), Job)
    if job is None:
        raise Refused(404, f"{prefix} has no job {number}.")
    stages = []
    if job.stages:
        wanted = set(job.stages[:_MOST_PARTS])
        found = numbered(records, prefix, STAGES, BriefStage, min(wanted), max(wanted))
        stages = [stage for stage in found if stage.id in wanted]
    accessed = [
        access_row(each, writes=writes, of_stream=bool(job.stream))
        for writes, side in ((False, job.reads), (True, job.writes)) for each in side
    ]  # fmt: skip
    failure = None
    if job.error is not None:
        title = job.description or job.name
        failure = failure_of(
            queries.RecordedFailure(prefix, recorded.app, f"job {number}", job.ended, title, job.error)
        )
    values = {
        **frame(recorded, "jobs", command, f"Job {number}"), "record": job, "failure": failure,
        "description": (job.description or job.name).partition("\n")[0], "figures": _job_figures(job),
        "facts": _job_facts(prefix, job),
    }  # fmt: skip
    shown = [
        Table("stages", "Stages that ran", STAGE_COLUMNS, [stage_row(prefix, each) for each in stages], "No stage ran.")
    ]
    if accessed:
        shown.append(Table("data", "Read and written by its RDDs", ACCESS_COLUMNS, accessed))
    return Shown("job.html", values, shown)


def _job_figures(job: Job) -> list[tuple[str, Any, str]]:
    return [
        ("started", texts.moment(job.started), ""),
        ("duration", texts.duration(job.duration_ms), ""),
        ("stages", f"{len(job.ran)} of {len(job.stages)}", f"{len(job.skipped)} skipped" if job.skipped else ""),
        ("tasks", texts.count(job.tasks), f"{job.failed} failed" if job.failed else ""),
        ("task time", texts.duration(job.run_ms), f"{texts.duration(job.gc_ms)} in GC"),
        ("read", size(job.input_bytes), texts.amount(job.input_rows, "row")),
        ("written", size(job.output_bytes), texts.amount(job.output_rows, "row")),
        ("shuffled", size(job.shuffle_write_bytes), texts.amount(job.shuffle_write_rows, "row")),
    ]


def _job_facts(prefix: str, job: Job) -> list[tuple[str, str, str]]:
    """Facts of a job: a name, a text, and the page that it leads to."""
    facts = [
        ("Spark's name", job.name, ""), ("group", job.group, ""), ("tags", ", ".join(job.tags), ""), ("pool", job.pool, ""),
        ("SQL execution", "" if job.sql is None else str(job.sql), addresses.execution(prefix, job.sql or 0)),
        ("streaming query", job.stream and f"{job.stream}, batch {job.batch}", addresses.stream(prefix, job.stream)),
        ("killed tasks", ", ".join(f"{count} × {why}" for why, count in job.kill_reasons.items()), ""),
    ]  # fmt: skip
    return [fact for fact in facts if fact[1]]
