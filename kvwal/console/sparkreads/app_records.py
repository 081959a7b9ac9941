"""Reads of the pages: the records of one application, by kind and by range of numbers; of large lists only the fields shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

import msgspec

from kvwal.console.bodies import Refused
from kvwal.console.shared_reader import View
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_keys import app_prefix, is_key_of_run
from kvwal.spark.record_reader import RecordReader, StoredRecord
from kvwal.spark.records import Access, Error

T = TypeVar("T")
SKEWED = 3.0
"""Slowest task over the median task of a stage, from which a page marks the stage."""
_AFTER_SLASH = "0"
"""The character after a slash: a folder's keys end before the key with it in the slash's place."""


class TimelineJob(msgspec.Struct, tag_field="kind", tag="job", gc=False):
    """A job as a timeline shows it (see `records.Job`)."""

    id: int = 0
    name: str = ""
    description: str = ""
    status: str = ""
    started: int = 0
    ended: int = 0
    duration_ms: int = 0


class BriefJob(TimelineJob, tag_field="kind", tag="job", gc=False):
    """A job as lists of many jobs show it (see `records.Job`)."""

    sql: int | None = None
    tasks: int = 0
    failed: int = 0
    run_ms: int = 0
    input_bytes: int = 0
    input_rows: int = 0
    output_bytes: int = 0
    output_rows: int = 0
    shuffle_write_bytes: int = 0
    stages: list[int] = []
    ran: list[int] = []


class BriefStage(msgspec.Struct, tag_field="kind", tag="stage", gc=False):
    """A stage as pages about many stages show it (see `records.Stage`)."""

    id: int = 0
    attempt: int = 0
    job: int | None = None
    name: str = ""
    status: str = ""
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    tasks: int = 0
    failed: int = 0
    killed: int = 0
    run_ms: int = 0
    gc_ms: int = 0
    task_median_ms: int = 0
    task_p95_ms: int = 0
    task_max_ms: int = 0
    skew: float = 0.0
    input_bytes: int = 0
    output_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0
    spill_disk_bytes: int = 0


class BriefSql(msgspec.Struct, tag_field="kind", tag="sql"):
    """An SQL execution without its plan (see `records.Sql`)."""

    id: int = 0
    root: int = 0
    description: str = ""
    stream: str = ""
    status: str = ""
    started: int = 0
    ended: int = 0
    duration_ms: int = 0
    jobs: list[int] = []
    reads: list[Access] = []
    writes: list[Access] = []
    error: Error | None = None


class Kind(NamedTuple):
    """A kind of numbered records: its folder in the keys, and the digits of its numbers."""

    folder: str
    digits: int = 10


JOBS, STAGES, EXECUTIONS = Kind("job"), Kind("stage"), Kind("sql")


def application_of(view: View, app: str, attempt: str | int | None = None) -> RecordedApplication:
    """The application of a path. Raises `Refused` if there is none."""
    prefix = app if attempt is None else f"{app}/{attempt}"
    found = view.records.application(prefix)
    if found is None and attempt is None:
        prefix = app_prefix(app)  # as a person types an id, without the quotes of keys
        found = view.records.application(prefix)
    if found is None:
        raise Refused(404, f"There is no application {prefix[:200]!r} here. Look for it in the list of applications.")
    return RecordedApplication(prefix, found)


def decoded(stored: StoredRecord, kind: type[T]) -> T | None:
    """The record of a kind; None for a value that is none, which a program other than kvwal has put there."""
    try:
        return stored.of(kind)
    except msgspec.ValidationError:
        return None


def numbered(
    records: RecordReader, prefix: str, kind: Kind, of: type[T], first: int = 0, last: int | None = None
) -> Iterator[T]:
    """The records of a kind from number `first` to `last`, in the order of their numbers. It reads no others."""
    folder = f"{prefix}/{kind.folder}"
    low = f"{folder}/{first:0{kind.digits}d}"
    high = f"{folder}{_AFTER_SLASH}" if last is None else f"{folder}/{last + 1:0{kind.digits}d}"
    for stored in records.between(low, high):
        found = decoded(stored, of)
        if found is not None:
            yield found


def one(records: RecordReader, key: str, of: type[T]) -> T | None:
    """The record of a key; None if there is none."""
    stored = next(records.between(key, f"{key}\0"), None)
    return None if stored is None else decoded(stored, of)


def in_folder(records: RecordReader, prefix: str, folder: str) -> Iterator[StoredRecord]:
    """The records of an application in a folder of its keys."""
    return records.between(f"{prefix}/{folder}/", f"{prefix}/{folder}{_AFTER_SLASH}")


def every_record(records: RecordReader, prefix: str) -> Iterator[tuple[str, StoredRecord]]:
    """All records of an application, each with its folder; not those of its other attempts."""
    for stored in records.between(f"{prefix}/", f"{prefix}{_AFTER_SLASH}"):
        if is_key_of_run(prefix, stored.key):
            yield stored.key[len(prefix) + 1 :].partition("/")[0], stored


def title_of(record: TimelineJob | BriefSql) -> str:
    """The first line of what a person wrote about a job or an execution, else of Spark's name for it."""
    text = record.description or (record.name if isinstance(record, TimelineJob) else "")
    return text.partition("\n")[0]
