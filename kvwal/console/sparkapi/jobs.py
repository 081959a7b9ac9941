"""Jobs of Spark's REST API: from the kept log, else from records as far as they know them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import state_of
from kvwal.console.sparkapi.parameters import not_found, words
from kvwal.console.sparkapi.serving import Asked, Rows
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkstate.rows import JobRow
from kvwal.spark.record_keys import job_key, stage_key
from kvwal.spark.record_reader import RecordReader, decoded, span_of
from kvwal.spark.records import MAX_TEXT, Job, Speculation

STATUSES = ("RUNNING", "SUCCEEDED", "FAILED", "UNKNOWN")


def list_jobs(asked: Asked) -> Rows:
    """GET jobs: the latest first."""
    statuses = words(asked.given, "status", STATUSES)
    rows = _rows(asked)
    return Rows([row for number, row in sorted(rows.items(), reverse=True) if not statuses or row.status in statuses])


def one_job(asked: Asked) -> JobRow:
    """GET jobs/<job>."""
    number = int(asked.path["job"])
    row = _rows(asked, number).get(number)
    if row is None:
        raise not_found(f"unknown job: {number}")
    return row


def _rows(asked: Asked, number: int | None = None) -> dict[int, JobRow]:
    """The jobs, or one of them. Records answer at once where they know every field; else the kept log does, if there is one."""
    prefix, _ = recorded(asked)
    rows = job_rows(asked.view.records, prefix, number)
    if all(row.num_completed_indices is not UNSET for row in rows.values()):
        return rows
    state = state_of(asked)
    return rows if state is None else state.jobs


class _Stage(msgspec.Struct, gc=False):
    """What the row of a job needs of a stage's record."""

    id: int = 0
    attempt: int = 0
    job: int | None = None
    jobs: list[int] = []
    status: str = "RUNNING"
    tasks: int = 0
    failed: int = 0
    killed: int = 0
    planned: int = 0
    speculation: Speculation | None = None
    resubmitted: list[list[int]] = []

    @property
    def is_plain(self) -> bool:
        """Whether each of its tasks succeeded once, and no other attempt or copy can be under way."""
        well = self.tasks - self.failed - self.killed
        is_whole = self.status == "SUCCEEDED" and self.attempt == 0 and well == self.planned
        return is_whole and self.speculation is None and not self.resubmitted


def job_rows(records: RecordReader, prefix: str, number: int | None = None) -> dict[int, JobRow]:
    """The jobs of an application from its records, or the one of a number. A field that they do not know is left out."""
    first, last = f"{prefix}/job/", f"{prefix}/job0"
    if number is not None:
        first = job_key(prefix, number)
        last = f"{first}\0"
    jobs = list(decoded(records, first, last, Job))
    stages: dict[int, list[_Stage]] = defaultdict(list)
    for stage in _stages_of(records, prefix, None if number is None else jobs):
        for job in stage.jobs or ([] if stage.job is None else [stage.job]):
            stages[job].append(stage)
    return {job.id: _row(job, stages[job.id]) for job in jobs}


def _stages_of(records: RecordReader, prefix: str, jobs: list[Job] | None) -> Iterator[_Stage]:
    """The stages of an application; those from the first to the last one that these jobs name, if only they are asked for."""
    if jobs is None:
        return decoded(records, *span_of(f"{prefix}/stage/"), _Stage)
    named = [stage for job in jobs for stage in job.stages]
    if not named:
        return iter(())
    return decoded(records, stage_key(prefix, min(named), 0), stage_key(prefix, max(named) + 1, 0), _Stage)


def _row(job: Job, ran: list[_Stage]) -> JobRow:
    status = {"RUNNING": "RUNNING", "SUCCEEDED": "SUCCEEDED"}.get(job.status, "FAILED")
    last = {stage.id: stage for stage in sorted(ran, key=lambda stage: stage.attempt)}
    results = Counter(stage.status for stage in ran)
    attempts = {(stage.id, stage.attempt) for stage in ran}
    well = job.tasks - job.failed - job.killed
    # Of a job that failed, or has tried something again, only the events tell how far it came. Records cut long texts, and the
    # description of a batch to the name of its query.
    is_plain = status == "SUCCEEDED" and not job.killed and all(stage.is_plain for stage in ran)
    is_known = (
        is_plain
        and job.batch is None
        and well == sum(stage.planned for stage in ran)
        and max(map(len, (job.name, job.description))) < MAX_TEXT
    )
    return JobRow(
        job_id=job.id, name=job.name, description=job.description or UNSET,
        submission_time=moment_text(job.started) if job.started else UNSET,
        completion_time=moment_text(job.ended) if job.ended else UNSET, stage_ids=job.stages, job_group=job.group or UNSET,
        job_tags=sorted(job.tags), status=status, num_tasks=job.planned, num_active_tasks=0 if is_known else UNSET,
        num_completed_tasks=well, num_skipped_tasks=job.skipped_tasks, num_failed_tasks=job.failed,
        num_killed_tasks=job.killed, num_completed_indices=well if is_known else UNSET,
        num_active_stages=0 if is_known else UNSET,
        num_completed_stages=sum(stage.status == "SUCCEEDED" for stage in last.values()),
        # A stage whose result was there at first, and was lost, ran later: Spark counts it among those that it skipped, too.
        num_skipped_stages=len(job.skipped) + sum((stage, 0) not in attempts for stage in job.ran),
        num_failed_stages=results["FAILED"] + results["KILLED"], killed_tasks_summary=job.kill_reasons,
    )  # fmt: skip
