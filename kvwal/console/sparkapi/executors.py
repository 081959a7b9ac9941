"""Executors and processes of Spark's REST API: from the kept log, else executors from records as far as they know them."""

from __future__ import annotations

from typing import Any, NoReturn

from msgspec import UNSET

from kvwal.console.bodies import Refused
from kvwal.console.sparkapi.applications import recorded
from kvwal.console.sparkapi.known import kept_state, state_of
from kvwal.console.sparkapi.serving import Asked, Rows
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkstate.executor_rows import ExecutorRow, ResourceRow
from kvwal.spark.record_reader import RecordReader, under
from kvwal.spark.records import Application, Executor

DRIVER = "driver"


def list_active(asked: Asked) -> Rows:
    """GET executors: those that are there, the greatest name first, as Spark lists them."""
    return Rows([row for _, row in sorted(_rows(asked).items(), reverse=True) if row.is_active])


def list_all(asked: Asked) -> Rows:
    """GET allexecutors."""
    return Rows([row for _, row in sorted(_rows(asked).items())])


def list_processes(asked: Asked) -> Rows:
    """GET allmiscellaneousprocess."""
    return Rows(list(kept_state(asked, "The list of processes").processes.values()))


def threads(asked: Asked) -> NoReturn:
    """GET executors/<executor>/threads: refused, as Spark's History Server does."""
    name = asked.path["executor"]
    recorded(asked)
    if name != DRIVER and not name.isdigit():
        raise Refused(400, "Invalid executorId: neither 'driver' nor number.")
    raise Refused(503, "Thread dumps not available through the history server.")


def _rows(asked: Asked) -> dict[str, ExecutorRow]:
    state = state_of(asked)
    if state is not None:
        return state.executors
    prefix, app = recorded(asked)
    return executor_rows(asked.view.records, prefix, app)


def executor_rows(records: RecordReader, prefix: str, app: Application) -> dict[str, ExecutorRow]:
    """The executors of an application from its records. A field that they do not know is left out."""
    executors = [stored.of(Executor) for stored in under(records, f"{prefix}/executor/")]
    return {executor.id: _row(executor, app) for executor in executors}


def _row(executor: Executor, app: Application) -> ExecutorRow:
    excluded = executor.excluded or executor.host in app.excluded_hosts
    peaks: Any = executor.peaks or UNSET
    gc_ms = UNSET if executor.id == DRIVER else executor.gc_ms  # Spark has that of a driver from its heartbeats
    return ExecutorRow(
        id=executor.id, host_port=executor.host, is_active=not executor.removed, total_cores=executor.cores,
        failed_tasks=executor.failed, completed_tasks=executor.tasks - executor.failed - executor.killed,
        total_tasks=executor.tasks, total_gc_time=gc_ms, total_input_bytes=executor.input_bytes,
        total_shuffle_read=executor.shuffle_read_bytes, total_shuffle_write=executor.shuffle_write_bytes,
        is_blacklisted=excluded, max_memory=executor.storage_bytes, add_time=moment_text(executor.added),
        remove_time=moment_text(executor.removed) if executor.removed else UNSET,
        remove_reason=executor.reason if executor.removed else UNSET, executor_logs=executor.logs, peak_memory_metrics=peaks,
        attributes=executor.attributes,
        resources={kind: ResourceRow(kind, addresses) for kind, addresses in executor.resources.items()},
        resource_profile_id=executor.profile, is_excluded=excluded,
    )  # fmt: skip
