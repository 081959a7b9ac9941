"""Events of an application and its settings, applied to the records."""

from __future__ import annotations

from itertools import count

from kvwal.spark import records as rec
from kvwal.spark.events import application as events
from kvwal.spark.projection import executors
from kvwal.spark.projection.state import Handler, ProjectionState, set_end
from kvwal.spark.record_keys import sql_key, stage_key
from kvwal.spark.records import cut
from kvwal.spark.redaction import Redaction


def _log_start(state: ProjectionState, event: events.LogStart) -> None:
    state.app().spark_version = event.spark_version


def _application_start(state: ProjectionState, event: events.ApplicationStart) -> None:
    app = state.app_seen_at(event.timestamp)
    app.id, app.attempt, app.name = event.app_id or "", event.attempt or "", event.app_name
    app.user, app.started = event.user, event.timestamp
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
    environment.jvm, environment.spark = (
        {name: cut(value) for name, value in state.redaction.settings(settings).items()}
        for settings in (event.jvm, event.spark_properties)
    )
    executors.set_driver_memory(state, environment)


HANDLERS: dict[type, Handler] = {
    events.LogStart: _log_start,
    events.ApplicationStart: _application_start,
    events.ApplicationEnd: _application_end,
    events.Attached: _attached,
    events.Detached: _detached,
    events.EnvironmentUpdate: _environment,
}
