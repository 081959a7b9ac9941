"""Events of executors, applied to the records: cores, memory, exclusion, and the core time of the application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from operator import attrgetter

from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.events.executors import (
    Excluded,
    ExecutorMetricsUpdate,
    MetricsUpdate,
    StageExecutorMetrics,
    Unexcluded,
)
from kvwal.spark.projection.state import Handler, ProjectionState
from kvwal.spark.record_keys import executor_key, stage_key
from kvwal.spark.records import cut

DRIVER = "driver"
DRIVER_MEMORY = "1g"
"""Spark's default of `spark.driver.memory`."""
_SIZE = re.compile(r"([0-9]{1,15})([bkmgtp]?)b?")
_MIB = 1 << 20
MAX_FACTS = 50
"""Attributes, logs, kinds of resources and metrics of one executor."""
MAX_EXCLUSIONS = 100
MAX_PROFILES = 100


def set_driver_memory(state: ProjectionState, environment: rec.Environment) -> None:
    """Set the heap of the driver, if it is an executor here. No resource profile has it: the settings do."""
    key = executor_key(state.prefix, DRIVER)
    driver = state.cache.fetch(key, rec.Executor)
    if driver is not None:
        driver.memory_bytes = _bytes(environment.spark.get("spark.driver.memory", DRIVER_MEMORY))
        state.cache.touch(key)


def set_driver_facts(state: ProjectionState, event: events.ApplicationStart) -> None:
    """Set the driver's logs and attributes, which the start of the application has, not that of the driver."""
    key = executor_key(state.prefix, DRIVER)
    driver = state.cache.fetch(key, rec.Executor)
    if driver is not None and event.driver_logs is not None:
        driver.logs = _facts(state, event.driver_logs)
        driver.attributes = _facts(state, event.driver_attributes or {})
        state.cache.touch(key)


def _facts(state: ProjectionState, facts: Mapping[str, str]) -> dict[str, str]:
    """What the cluster manager tells, bounded and without secrets."""
    told = state.redaction.settings(dict(islice(sorted(facts.items()), MAX_FACTS)))
    return {name: cut(value) for name, value in told.items()}


def _profile_added(state: ProjectionState, event: events.ResourceProfileAdded) -> None:
    memory, environment = event.executor.get("memory"), state.cache.edit(f"{state.prefix}/env", rec.Environment)
    if memory is not None:
        environment.executor_memory_bytes[str(event.profile)] = memory.amount * _MIB
    others = [profile for profile in environment.profiles if profile.id != event.profile]
    profile = rec.ResourceProfile(
        event.profile,
        {cut(name): resource.amount for name, resource in islice(sorted(event.executor.items()), MAX_FACTS)},
        {cut(name): resource.amount for name, resource in islice(sorted(event.task.items()), MAX_FACTS)},
    )
    environment.profiles = sorted([*others, profile], key=attrgetter("id"))[:MAX_PROFILES]


def _added(state: ProjectionState, event: events.ExecutorAdded) -> None:
    executor, info = _present(state, event.executor_id, event.timestamp), event.executor_info
    if executor is None:
        return
    executor.host = executor.host or info.host
    app = state.app_seen_at(event.timestamp)
    _count_cores(app, info.total_cores - executor.cores, executor.added)
    executor.cores, executor.profile = info.total_cores, info.profile
    executor.logs, executor.attributes = _facts(state, info.log_urls), _facts(state, info.attributes)
    executor.resources = {
        cut(kind): [cut(address) for address in resource.addresses[:MAX_FACTS]]
        for kind, resource in islice(sorted(info.resources.items()), MAX_FACTS)
    }
    environment = _environment(state)
    if executor.id == DRIVER:
        set_driver_memory(state, environment)
    else:
        executor.memory_bytes = environment.executor_memory_bytes.get(str(info.profile), 0)


def _block_manager_added(state: ProjectionState, event: events.BlockManagerAdded) -> None:
    executor = _present(state, event.block_manager.executor_id, event.timestamp)
    if executor is None:
        return
    executor.host = event.block_manager.host  # Spark shows this one; the other may be `localhost`
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
        # Its clock may have been set back: no executor goes before it came.
        left = max(executor.added, min(event.timestamp, app.ended or event.timestamp))
        _count_cores(app, -min(executor.cores, app.cores), left)
    executor.removed, executor.reason = event.timestamp, cut(event.reason)
    state.app_seen_at(event.timestamp)


def _excluded(state: ProjectionState, event: Excluded) -> None:
    executor = _running(state, event.executor_id) if event.executor_id else None
    if event.stage_id is not None:
        if executor is not None and event.stage_id not in executor.excluded_stages:
            executor.excluded_stages = [*executor.excluded_stages, event.stage_id][-MAX_EXCLUSIONS:]
        _exclude_for_stage(state, event, event.stage_id)
    elif executor is not None:
        executor.excluded = True
    elif event.host_id:
        _add_name(state.app().excluded_hosts, event.host_id)


def _exclude_for_stage(state: ProjectionState, event: Excluded, number: int) -> None:
    key = stage_key(state.prefix, number, event.stage_attempt_id)
    stage = state.cache.fetch(key, rec.Stage)
    if stage is not None:
        _add_name(stage.excluded_executors, event.executor_id)
        _add_name(stage.excluded_hosts, event.host_id)
        state.cache.touch(key)


def _add_name(names: list[str], name: str) -> None:
    if name and name not in names and len(names) < MAX_EXCLUSIONS:
        names.append(cut(name))


def _unexcluded(state: ProjectionState, event: Unexcluded) -> None:
    executor = _running(state, event.executor_id) if event.executor_id else None
    if executor is not None:
        executor.excluded = False
    hosts = state.app().excluded_hosts
    if event.host_id in hosts:
        hosts.remove(event.host_id)


def _stage_metrics(state: ProjectionState, event: StageExecutorMetrics) -> None:
    _note_peaks(state, event.executor_id, event)


def _heartbeat(state: ProjectionState, event: ExecutorMetricsUpdate) -> None:
    for update in event.updates:
        _note_peaks(state, event.executor_id, update)


def _note_peaks(state: ProjectionState, executor: str, event: StageExecutorMetrics | MetricsUpdate) -> None:
    """Raise the peaks of an executor, and those of the stage that it worked for."""
    kinds: tuple[tuple[str, type[rec.Executor | rec.Stage]], ...] = (
        (executor_key(state.prefix, executor), rec.Executor),
        (stage_key(state.prefix, event.stage_id, event.attempt), rec.Stage),
    )
    for key, kind in kinds:
        record = state.cache.fetch(key, kind)
        if record is not None:
            _raise_peaks(record.peaks, event.peaks)
            state.cache.touch(key)


def _raise_peaks(peaks: dict[str, int], values: Mapping[str, int]) -> None:
    for name, value in values.items():
        if value > peaks.get(name, 0) and (name in peaks or len(peaks) < MAX_FACTS):
            peaks[name] = value


HANDLERS: dict[type, Handler] = {
    events.ResourceProfileAdded: _profile_added,
    events.ExecutorAdded: _added,
    events.BlockManagerAdded: _block_manager_added,
    events.ExecutorRemoved: _removed,
    Excluded: _excluded,
    Unexcluded: _unexcluded,
    ExecutorMetricsUpdate: _heartbeat,
    StageExecutorMetrics: _stage_metrics,
}


def _running(state: ProjectionState, name: str) -> rec.Executor | None:
    """An executor that has not left, marked as changed; None if there is none of this name."""
    key = executor_key(state.prefix, name)
    executor = state.cache.fetch(key, rec.Executor)
    if executor is None or executor.removed:
        return None
    state.cache.touch(key)
    return executor


def _present(state: ProjectionState, name: str, moment: int) -> rec.Executor | None:
    """The executor that is there at `moment`, marked as changed; None if it has left since: the event is read again."""
    executor = state.edit_executor(name)
    if executor.removed and moment <= executor.removed:
        return None
    if executor.removed:  # it registered again
        executor.added, executor.cores, executor.removed, executor.reason, executor.host = 0, 0, 0, "", ""
        executor.excluded = False
    executor.added = executor.added or moment
    return executor


def _count_cores(app: rec.Application, cores: int, moment: int) -> None:
    """Count cores that are there from `moment` on, or, if `cores` is negative, until then."""
    app.cores += cores
    app.core_offset_ms += cores * moment


def _environment(state: ProjectionState) -> rec.Environment:
    """The settings, to be read: an executor changes nothing of them."""
    return state.cache.fetch(f"{state.prefix}/env", rec.Environment) or rec.Environment()


def _bytes(size: str) -> int:
    """A size as Spark's memory settings have it (`512m`; MiB without a unit) in bytes; 0 for other text."""
    parts = _SIZE.fullmatch(size.strip().lower())
    return int(parts[1]) << 10 * "bkmgtp".index(parts[2] or "m") if parts else 0
