"""Applications of Spark's REST API, from their records: the list, one application, one attempt, and the version."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from kvwal.console.shared_reader import View
from kvwal.console.sparkapi.parameters import INT_MAX, Window, integer, not_found, window, words
from kvwal.console.sparkapi.serving import Asked, Json, Rows, encode
from kvwal.console.sparkevents.moments import moment_text
from kvwal.console.sparkstate.recent import Recent
from kvwal.ports.clock import SYSTEM
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Application

SPARK = "4.3.0"
"""The version of Spark whose answers these are."""


class AttemptRow(msgspec.Struct, rename="camel", kw_only=True):
    """One attempt of an application."""

    attempt_id: str | UnsetType = UNSET
    start_time: str
    end_time: str
    last_updated: str
    duration: int
    spark_user: str
    completed: bool
    app_spark_version: str
    exit_code: int | UnsetType = UNSET
    start_time_epoch: int
    end_time_epoch: int
    last_updated_epoch: int


class ApplicationRow(msgspec.Struct):
    """An application with its attempts, the latest first."""

    id: str
    name: str
    attempts: list[AttemptRow]


def attempt_row(app: Application) -> AttemptRow:
    """The row of an attempt. An application that runs has no end, which Spark writes as -1."""
    completed = app.status != "RUNNING"
    ended = (app.ended or app.last_event) if completed else -1
    updated = max(app.ended, app.last_event, app.started)
    return AttemptRow(
        attempt_id=app.attempt or UNSET, start_time=moment_text(app.started), end_time=moment_text(ended),
        last_updated=moment_text(updated), duration=app.duration_ms if completed else 0, spark_user=app.user,
        completed=completed, app_spark_version=app.spark_version,
        exit_code=UNSET if app.exit_code is None else app.exit_code, start_time_epoch=app.started, end_time_epoch=ended,
        last_updated_epoch=updated,
    )  # fmt: skip


def application_rows(records: RecordReader) -> list[ApplicationRow]:
    """All applications, the one that ended last first. Those that run come last, as Spark lists them."""
    found: dict[str, ApplicationRow] = {}
    for _, app in records.applications():
        row = found.setdefault(app.id, ApplicationRow(app.id, app.name, []))
        row.attempts.append(attempt_row(app))
    for row in found.values():
        row.attempts.sort(key=lambda attempt: attempt.start_time_epoch, reverse=True)
    return sorted(found.values(), key=lambda row: (row.attempts[0].end_time_epoch, row.id), reverse=True)


class Listing(NamedTuple):
    """All applications: their rows, the rows by id, and the JSON of all."""

    rows: list[ApplicationRow]
    by_id: dict[str, ApplicationRow]
    all: Json


def listing(view: View) -> Listing:
    """The applications of a location. While its records are the same, the listing is."""
    return view.made_of_records(_listing_of)


def _listing_of(records: RecordReader) -> Listing:
    rows = application_rows(records)
    return Listing(rows, {row.id: row for row in rows}, Json(encode(rows)))


def list_applications(recent: Recent[Listing], asked: Asked) -> Json | Rows:
    """GET applications."""
    given = asked.given
    statuses = words(given, "status", ("COMPLETED", "RUNNING"))
    started, ended = window(given, "minDate", "maxDate"), window(given, "minEndDate", "maxEndDate")
    limit = integer(given, "limit", INT_MAX)
    found = recent.value(asked.view)
    if not given:
        return found.all
    now = SYSTEM.wall_ms()
    return Rows([row for row in found.rows if _is_wanted(row, statuses, started, ended, now)][: max(0, limit)])


def _is_wanted(row: ApplicationRow, statuses: frozenset[str], started: Window, ended: Window, now: int) -> bool:
    """Whether an application is asked for. One that runs ends after now."""
    completed = row.attempts[0].completed
    if statuses and ("COMPLETED" if completed else "RUNNING") not in statuses:
        return False
    return any(
        started.has(attempt.start_time_epoch) and (ended.has(attempt.end_time_epoch) if completed else ended.last > now)
        for attempt in row.attempts
    )


def one_application(recent: Recent[Listing], asked: Asked) -> ApplicationRow:
    """GET applications/<app>."""
    row = recent.value(asked.view).by_id.get(asked.app)
    if row is None:
        raise not_found(f"unknown app: {asked.app}")
    return row


def one_attempt(recent: Recent[Listing], asked: Asked) -> AttemptRow:
    """GET applications/<app>/<attempt>."""
    row = recent.value(asked.view).by_id.get(asked.app)
    for attempt in row.attempts if row is not None else ():
        if attempt.attempt_id == asked.attempt:
            return attempt
    raise not_found(f"unknown app {asked.app}, attempt {asked.attempt}")


def version(asked: Asked) -> dict[str, str]:
    """GET version."""
    return {"spark": SPARK}


def recorded(asked: Asked) -> tuple[str, Application]:
    """The prefix of the keys of an application, and its record. Refuses one that is not there as Spark does."""
    prefix = app_prefix(asked.app, asked.attempt)
    app = asked.view.records.application(prefix)
    if app is None:
        raise not_found(f"no such app: {asked.key}")
    return prefix, app
