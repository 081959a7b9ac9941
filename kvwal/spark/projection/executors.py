"""Events of executors, applied to the records: their cores, their memory, and the core time of the application."""

from __future__ import annotations

import re

from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.projection.state import Handler, ProjectionState
from kvwal.spark.record_keys import executor_key
from kvwal.spark.records import cut

DRIVER = "driver"
DRIVER_MEMORY = "1g"
"""Spark's default of `spark.driver.memory`."""
_SIZE = re.compile(r"([0-9]{1,15})([bkmgtp]?)b?")
_MIB = 1 << 20


def set_driver_memory(state: ProjectionState, environment: rec.Environment) -> None:
    """Set the heap of the driver, if it is an executor here. No resource profile has it: the settings do."""
    key = executor_key(state.prefix, DRIVER)
    driver = state.cache.fetch(key, rec.Executor)
    if driver is not None:
        driver.memory_bytes = _bytes(environment.spark.get("spark.driver.memory", DRIVER_MEMORY))
        state.cache.touch(key)


def _profile_added(state: ProjectionState, event: events.ResourceProfileAdded) -> None:
    memory = event.executor.get("memory")
    if memory is not None:
        _environment(state).executor_memory_bytes[str(event.profile)] = memory.amount * _MIB


def _added(state: ProjectionState, event: events.ExecutorAdded) -> None:
    executor, info = _present(state, event.executor_id, event.timestamp), event.executor_info
    if executor is None:
        return
    executor.host = info.host
    app = state.app_seen_at(event.timestamp)
    _count_cores(app, info.total_cores - executor.cores, executor.added)
    executor.cores = info.total_cores
    environment = _environment(state)
    if executor.id == DRIVER:
        set_driver_memory(state, environment)
    else:
        executor.memory_bytes = environment.executor_memory_bytes.get(str(info.profile), 0)


def _block_manager_added(state: ProjectionState, event: events.BlockManagerAdded) -> None:
    executor = _present(state, event.block_manager.executor_id, event.timestamp)
    if executor is None:
        return
    executor.host = executor.host or event.block_manager.host
    executor.storage_bytes = event.maximum_memory
    if executor.id == DRIVER:
        set_driver_memory(state, _environment(state))


def _removed(state: ProjectionState, event: events.ExecutorRemoved) -> None:
    executor = state.edit_executor(event.executor_id)
    if event.timestamp <= executor.removed:
        return
    app = state.app()
    if executor.added and not executor.removed:
        # An earlier version did not count the cores of the executors that it recorded.
        _count_cores(app, -min(executor.cores, app.cores), min(event.timestamp, app.ended or event.timestamp))
    executor.removed, executor.reason = event.timestamp, cut(event.reason)
    state.app_seen_at(event.timestamp)


HANDLERS: dict[type, Handler] = {
    events.ResourceProfileAdded: _profile_added,
    events.ExecutorAdded: _added,
    events.BlockManagerAdded: _block_manager_added,
    events.ExecutorRemoved: _removed,
}


def _present(state: ProjectionState, name: str, moment: int) -> rec.Executor | None:
    """The executor that is there at `moment`, marked as changed; None if it has left since: the event is read again."""
    executor = state.edit_executor(name)
    if executor.removed and moment <= executor.removed:
        return None
    if executor.removed:  # it registered again
        executor.added, executor.cores, executor.removed, executor.reason = 0, 0, 0, ""
    executor.added = executor.added or moment
    return executor


def _count_cores(app: rec.Application, cores: int, moment: int) -> None:
    """Count cores that are there from `moment` on, or, if `cores` is negative, until then."""
    app.cores += cores
    app.core_offset_ms += cores * moment


def _environment(state: ProjectionState) -> rec.Environment:
    return state.cache.edit(f"{state.prefix}/env", rec.Environment)


def _bytes(size: str) -> int:
    """A size as Spark's memory settings have it (`512m`; MiB without a unit) in bytes; 0 for other text."""
    parts = _SIZE.fullmatch(size.strip().lower())
    return int(parts[1]) << 10 * "bkmgtp".index(parts[2] or "m") if parts else 0
