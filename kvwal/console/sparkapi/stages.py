"""Stages of Spark's REST API: from the kept log, else from records as far as they know them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from kvwal.console.shared_reader import View
from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import nothing_kept, state_of
from kvwal.console.sparkapi.parameters import flag, not_found, quantiles, words, words_of_tasks
from kvwal.console.sparkapi.serving import Asked, Rows, encode
from kvwal.console.sparkapi.tasks import TASK_STATUSES, shown_tasks
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkstate.rows import StageRow, StageState
from kvwal.console.sparkstate.summaries import executor_distributions, task_distributions
from kvwal.spark.record_keys import job_key, stage_part
from kvwal.spark.record_reader import RecordReader, decoded, span_of
from kvwal.spark.records import Error, Job, Totals

STATUSES = ("ACTIVE", "COMPLETE", "FAILED", "PENDING", "SKIPPED")
_QUANTILES = "0.0,0.25,0.5,0.75,1.0"


class _Wanted(NamedTuple):
    """What is asked for beside the row of a stage."""

    details: bool
    statuses: frozenset[str]
    summaries: bool
    quantiles: list[float]


def list_stages(asked: Asked) -> Rows:
    """GET stages: the latest first."""
    statuses, wanted = words(asked.given, "status", STATUSES), _wanted(asked, details=False)
    state = state_of(asked)
    if state is None:
        rows = _recorded(asked, wanted, "")
        return Rows([row for _, row in sorted(rows.items(), reverse=True) if not statuses or row.status in statuses])
    found = [each for _, each in sorted(state.stages.items(), reverse=True)]
    found = [each for each in found if not statuses or each.row.status in statuses]
    if wanted.details and wanted.statuses:
        found = [each for each in found if _has_tasks(each.row, wanted.statuses)]
    return Rows(found, partial(_shown, asked, wanted))


def one_stage(asked: Asked) -> Rows:
    """GET stages/<stage>: its attempts."""
    stage, wanted = int(asked.path["stage"]), _wanted(asked, details=True)
    state = state_of(asked)
    if state is None:
        rows = list(_recorded(asked, wanted, f"{stage_part(stage)}/").values())
        if not rows:
            raise not_found(f"unknown stage: {stage}")
        return Rows(rows)
    found = [each for of, each in state.stages.items() if of[0] == stage]
    if not found:
        raise not_found(f"unknown stage: {stage}")
    return Rows(found, partial(_shown, asked, wanted))


def one_attempt(asked: Asked) -> StageRow:
    """GET stages/<stage>/<attempt>."""
    stage, attempt, wanted = int(asked.path["stage"]), int(asked.path["stage_attempt"]), _wanted(asked, details=True)
    state = state_of(asked)
    rows = _recorded(asked, wanted, f"{stage_part(stage)}/") if state is None else {}
    there = sorted(number for of, number in (rows if state is None else state.stages) if of == stage)
    if not there:
        raise not_found(f"unknown stage: {stage}")
    if attempt not in there:
        raise not_found(f"unknown attempt for stage {stage}.  Found attempts: [{','.join(map(str, there))}]")
    if state is None:
        return rows[stage, attempt]
    return _shown(asked, wanted, asked.view, state.stages[stage, attempt])


def _wanted(asked: Asked, *, details: bool) -> _Wanted:
    given, detailed = asked.given, flag(asked.given, "details", default=details)
    return _Wanted(
        detailed,
        (words_of_tasks if detailed else words)(given, "taskStatus", TASK_STATUSES),
        flag(given, "withSummaries", default=False),
        quantiles(given, _QUANTILES),
    )


def _has_tasks(row: StageRow, statuses: frozenset[str]) -> bool:
    """Whether a stage has tasks of one of these statuses."""
    active = row.num_active_tasks if isinstance(row.num_active_tasks, int) else 0
    counts = {
        "FAILED": row.num_failed_tasks,
        "KILLED": row.num_killed_tasks,
        "RUNNING": active,
        "SUCCESS": row.num_complete_tasks,
    }
    counts["UNKNOWN"] = row.num_tasks - sum(counts.values())
    return any(counts[status] > 0 for status in statuses)


def _shown(first: Asked, wanted: _Wanted, view: View, stage: StageState) -> StageRow:
    """The row of a stage, with details and summaries if they are asked for."""
    row = stage.row
    if not wanted.details and not wanted.summaries:
        return row
    asked = first._replace(view=view)
    prefix, _ = recorded(asked)
    tasks = asked.states.tasks_of(asked.view, prefix, row.stage_id, row.attempt_id) or []
    changes: dict[str, object] = {}
    if wanted.details:
        chosen = [task for task in tasks if not wanted.statuses or task.status in wanted.statuses]
        shown = shown_tasks(asked, chosen)
        changes["tasks"] = {
            str(task.task_id): msgspec.Raw(encode(data)) for task, data in zip(chosen, shown, strict=True)
        }
        changes["executor_summary"] = stage.executors
        changes["speculation_summary"] = UNSET if stage.speculation is None else stage.speculation
    if wanted.summaries:
        changes["task_metrics_distributions"] = task_distributions(tasks, wanted.quantiles) or UNSET
        changes["executor_metrics_distributions"] = executor_distributions(stage, wanted.quantiles) or UNSET
    return msgspec.structs.replace(row, **changes)


def _recorded(asked: Asked, wanted: _Wanted, stage: str) -> dict[tuple[int, int], StageRow]:
    """The stages of an application, or the attempts of one, from records. Records have no tasks."""
    prefix, _ = recorded(asked)
    if wanted.summaries or (wanted.details and not stage) or flag(asked.given, "details", default=False):
        raise nothing_kept(asked, "The tasks of the stages" if not stage else "The tasks of a stage")
    return stage_rows(asked.view.records, prefix, stage)


class _Stage(Totals, gc=False):
    """What a row needs of a stage's record. The rest of it is most of its bytes, and is not decoded."""

    id: int = 0
    attempt: int = 0
    job: int | None = None
    name: str = ""
    status: str = "RUNNING"
    started: int = 0
    ended: int = 0
    planned: int = 0
    kill_reasons: dict[str, int] = msgspec.field(default_factory=dict)
    profile: int = 0
    error: Error | None = None


def stage_rows(records: RecordReader, prefix: str, stage: str = "") -> dict[tuple[int, int], StageRow]:
    """The stages of an application from its records, or the attempts of one. A field that they do not know is left out."""
    found = decoded(records, *span_of(f"{prefix}/stage/{stage}"), _Stage)
    if not stage:
        jobs = {job.id: job for job in decoded(records, *span_of(f"{prefix}/job/"), Job)}
        return {(each.id, each.attempt): _row(each, jobs.get(-1 if each.job is None else each.job)) for each in found}
    attempts = list(found)
    jobs = {job.id: job for job in _jobs(records, prefix, {each.job for each in attempts if each.job is not None})}
    return {(each.id, each.attempt): _row(each, jobs.get(-1 if each.job is None else each.job)) for each in attempts}


def _jobs(records: RecordReader, prefix: str, numbers: Iterable[int]) -> Iterator[Job]:
    """The jobs of these numbers, read one by one."""
    for number in numbers:
        key = job_key(prefix, number)
        yield from (stored.of(Job) for stored in records.between(key, f"{key}\0"))


def _row(stage: _Stage, job: Job | None) -> StageRow:
    status = {"RUNNING": "ACTIVE", "SUCCEEDED": "COMPLETE"}.get(stage.status, "FAILED")
    return StageRow(
        status=status, stage_id=stage.id, attempt_id=stage.attempt, num_tasks=stage.planned,
        num_complete_tasks=stage.tasks - stage.failed - stage.killed, num_failed_tasks=stage.failed,
        num_killed_tasks=stage.killed, submission_time=moment_text(stage.started) if stage.started else UNSET,
        completion_time=moment_text(stage.ended) if stage.ended else UNSET,
        failure_reason=stage.error.message if stage.error else UNSET, executor_run_time=stage.run_ms,
        jvm_gc_time=stage.gc_ms, memory_bytes_spilled=stage.spill_memory_bytes,
        disk_bytes_spilled=stage.spill_disk_bytes, input_bytes=stage.input_bytes, input_records=stage.input_rows,
        output_bytes=stage.output_bytes, output_records=stage.output_rows, shuffle_fetch_wait_time=stage.shuffle_wait_ms,
        shuffle_read_bytes=stage.shuffle_read_bytes, shuffle_read_records=stage.shuffle_read_rows,
        shuffle_write_bytes=stage.shuffle_write_bytes, shuffle_write_records=stage.shuffle_write_rows, name=stage.name,
        description=(job.description or UNSET) if job else UNSET, scheduling_pool=(job.pool or "default") if job else UNSET,
        killed_tasks_summary=stage.kill_reasons, resource_profile_id=stage.profile,
    )  # fmt: skip
