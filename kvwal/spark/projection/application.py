"""Events of an application and its settings, applied to the records."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, count

from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.projection import executors
from kvwal.spark.projection.state import Handler, ProjectionState, set_end
from kvwal.spark.record_keys import sql_key, stage_key
from kvwal.spark.records import cut
from kvwal.spark.redaction import MAX_SETTINGS, Redaction

SYSTEM_CLASSPATH = "System Classpath"
"""Spark's word for an entry that the application did not add."""
MAX_SECTION = 20_000
"""Characters of the JVM's properties, of the settings of metrics, and of the classpath."""


def _log_start(state: ProjectionState, event: events.LogStart) -> None:
    state.app().spark_version = event.spark_version


def _application_start(state: ProjectionState, event: events.ApplicationStart) -> None:
    app = state.app_seen_at(event.timestamp)
    app.id, app.attempt, app.name = event.app_id or "", event.attempt or "", event.app_name
    app.user, app.started = event.user, event.timestamp
    executors.set_driver_facts(state, event)
    if app.status == "DETACHED":
        _run_again(app)


def _run_again(app: rec.Application) -> None:
    app.status, app.status_from, app.ended, app.duration_ms = "RUNNING", "", 0, 0
    app.error = app.exit_code = None


def _attached(state: ProjectionState, event: events.Attached) -> None:
    """A recorder begins: if another one recorded this application before, the application goes on."""
    app = state.app()
    if app.ended:
        _run_again(app)


def _application_end(state: ProjectionState, event: events.ApplicationEnd) -> None:
    app = state.app_seen_at(event.timestamp)
    if app.status_from != "python":
        app.exit_code = event.exit_code
        app.status, app.status_from = "FAILED" if event.exit_code else "SUCCEEDED", "spark"
    elif event.exit_code and app.status == "SUCCEEDED":
        app.status, app.exit_code = "FAILED", event.exit_code
    set_end(app, event.timestamp)


def _detached(state: ProjectionState, event: events.Detached) -> None:
    app = state.app()
    app.dropped = max(app.dropped, event.dropped)
    status = "KILLED" if event.killed else event.status or ("FAILED" if event.error else "DETACHED")
    if status == "DETACHED":
        app.status = status if app.status == "RUNNING" else app.status
    elif not (status == "SUCCEEDED" and app.exit_code):
        # The JVM of a Python that was killed ends with 0.
        app.status, app.status_from, app.exit_code = status, "python", event.exit_code
    if event.error:
        app.error = rec.Error(cut(event.error, rec.MAX_MESSAGE), cut(event.stack, rec.MAX_STACK))
    if not app.ended:
        set_end(app, event.timestamp or app.last_event)
    if app.status == "KILLED":
        _kill_running(state)


def _kill_running(state: ProjectionState) -> None:
    """Mark all running jobs, stages and SQL executions as killed: a killed driver writes no end event for them."""
    for number in state.position.running:
        job = state.edit_job(number)
        job.status = "KILLED"
        for stage in job.ran:
            _kill_stage(state, stage)
    for number in state.position.running_sql:
        state.cache.edit(sql_key(state.prefix, number), rec.Sql).status = "KILLED"
    state.position.running.clear()
    state.position.running_sql.clear()
    state.assign_stages()


def _kill_stage(state: ProjectionState, number: int) -> None:
    for attempt in count():
        key = stage_key(state.prefix, number, attempt)
        stage = state.cache.fetch(key, rec.Stage)
        if stage is None:
            return
        if stage.status == "RUNNING":
            stage.status = "KILLED"
            state.cache.touch(key)


def _environment(state: ProjectionState, event: events.EnvironmentUpdate) -> None:
    environment = state.cache.edit(f"{state.prefix}/env", rec.Environment)
    state.redaction = Redaction(event.spark_properties)
    environment.jvm = _told(state, event.jvm)
    environment.spark = _told(state, event.spark_properties)
    environment.system = _bounded(_told(state, event.system_properties))
    environment.metrics = _bounded(_told(state, event.metrics_properties))
    environment.classpath = _classpath(event.classpath_entries)
    sizes = {
        "jvm": len(event.jvm) - len(environment.jvm),
        "spark": len(event.spark_properties) - len(environment.spark),
        "system": len(event.system_properties) - len(environment.system),
        "metrics": len(event.metrics_properties) - len(environment.metrics),
        "classpath": len(event.classpath_entries) - sum(len(folder.entries) for folder in environment.classpath),
    }
    environment.left_out = {name: left for name, left in sizes.items() if left > 0}
    executors.set_driver_memory(state, environment)


def _told(state: ProjectionState, settings: Mapping[str, str]) -> dict[str, str]:
    return {name: cut(value) for name, value in state.redaction.settings(settings).items()}


def _classpath(entries: Mapping[str, str]) -> list[rec.ClasspathFolder]:
    """The entries by folder, those that the application added first: the others are Spark's own jars, some hundreds."""
    found: dict[tuple[str, str], rec.ClasspathFolder] = {}
    size = 0
    for entry, source in sorted(entries.items(), key=lambda item: (item[1] == SYSTEM_CLASSPATH, item))[:MAX_SETTINGS]:
        folder, slash, name = cut(entry).rpartition("/")
        size += len(name) + 3 if (source, folder) in found else len(folder) + len(name)
        if size > MAX_SECTION:
            break
        where = found.setdefault((source, folder), rec.ClasspathFolder(cut(source), folder + slash, []))
        where.entries.append(name)
    return list(found.values())


def _bounded(settings: dict[str, str]) -> dict[str, str]:
    """The first settings, up to `MAX_SECTION` characters."""
    sizes = accumulate(len(name) + len(value) for name, value in settings.items())
    return {name: settings[name] for name, size in zip(settings, sizes, strict=True) if size <= MAX_SECTION}


HANDLERS: dict[type, Handler] = {
    events.LogStart: _log_start,
    events.ApplicationStart: _application_start,
    events.ApplicationEnd: _application_end,
    events.Attached: _attached,
    events.Detached: _detached,
    events.EnvironmentUpdate: _environment,
}
