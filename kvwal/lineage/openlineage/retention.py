"""Retention of imported events: runs whose last event is older than a limit are deleted, and what later events made obsolete.

A run goes whole, with its events and its record. What a job or a data set is without a run is what its events told last: that
stays, however old it is, and only the events before the last one go. Times are those of the events, by the producers' clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple, Protocol

import msgspec

from kvwal.entry import DataEntry
from kvwal.lineage.openlineage.runs import LineageRecord
from kvwal.spark.retention import MOST_DELETES, DeletingMap

EVENTS = "event/"
"""Where the keys of events begin."""
_RUNS, _OTHERS = "run/", ("job/", "dataset/")


class EventEntries(Protocol):
    """The entries of the events' business, by the text with which their keys begin."""

    def entries(self, prefix: str, /) -> Iterator[DataEntry]:
        """The entries whose keys begin with `prefix`, in the order of the keys."""
        ...


class OldEvents(NamedTuple):
    """Events that may go: the subject that they tell of (`run/<id>`, `job/<digest>`), its job, and when the last one was."""

    subject: str
    job: str
    at: int


def old_events(business: EventEntries, before: int, name: str | None = None) -> list[OldEvents]:
    """The runs whose last event, on any node, lies before a time in Unix milliseconds, and the jobs and data sets with events
    before it that a later one made obsolete; oldest first. With `name`, only of jobs that match this pattern of a shell."""
    found = []
    for subject, records in _records(business, _RUNS):
        last = max(record.last_event for record in records)
        if last < before and _is_named(records, name):
            found.append(OldEvents(subject, _job(records), last))
    for part in _OTHERS:
        named = {subject: _job(records) for subject, records in _records(business, part) if _is_named(records, name)}
        for subject, group in groupby(_keys(business, EVENTS + part), key=_subject_of_event):
            if subject in named and (old := _obsolete(group, before)):
                found.append(OldEvents(subject, named[subject], max(map(_time_of_event, old))))
    return sorted(found, key=lambda each: (each.at, each.subject))


def subjects_of(business: EventEntries) -> set[str]:
    """The subjects of which there are records."""
    return {_subject_of_record(key) for part in (_RUNS, *_OTHERS) for key in _keys(business, part)}


def delete_events(events: DeletingMap, subjects: Iterable[str], before: int) -> int:
    """Delete the old events of these subjects in a map: of one node, or of a cluster. Returns the number of deleted keys.

    A run with an event that is not before that time stays. So does one of which an event comes meanwhile, however long this call
    stands still: each transaction has the condition that the record of the run is what was read. The record goes last, so that
    a call that is interrupted leaves a run that the next call deletes.
    """
    deleted = 0
    for subject in subjects:
        records = {key: events.get(key) for key in _keys(events, f"{subject}/")}
        told = [msgspec.convert(value, LineageRecord) for value in records.values() if value is not None]
        if not records or len(told) < len(records):
            continue
        of_subject = list(_keys(events, f"{EVENTS}{subject}/"))
        if not subject.startswith(_RUNS):
            parts = [*_parts(_obsolete(of_subject, before))]
        elif all(record.last_event < before for record in told):
            parts = [*_parts(of_subject), list(records)]
        else:
            continue
        for part in parts:
            if not events.commit_if(records, {}, part):
                break
            deleted += len(part)
    return deleted


def _records(business: EventEntries, part: str) -> Iterator[tuple[str, list[LineageRecord]]]:
    """The subjects of a kind, each with its records: one of each node."""
    decode = msgspec.json.Decoder(LineageRecord).decode
    for subject, entries in groupby(business.entries(part), key=lambda entry: _subject_of_record(entry.key.decode())):
        yield subject, [decode(entry.value) for entry in entries]


def _is_named(records: list[LineageRecord], name: str | None) -> bool:
    return name is None or any(fnmatchcase(record.job, name) for record in records)


def _job(records: list[LineageRecord]) -> str:
    latest = max(records, key=lambda record: record.last_event)
    return f"{latest.namespace}/{latest.job}" if latest.job else ""


def _obsolete(keys: Iterable[str], before: int) -> list[str]:
    """Of the events of one subject, those before a time that are not its last one."""
    *earlier, _ = sorted(keys) or [""]
    return [key for key in earlier if _time_of_event(key) < before]


def _subject_of_record(key: str) -> str:
    return key.rpartition("/")[0]


def _subject_of_event(key: str) -> str:
    return key.removeprefix(EVENTS).rpartition("/")[0]


def _time_of_event(key: str) -> int:
    return int(key.rpartition("/")[2].partition("-")[0])


def _keys(events: EventEntries, prefix: str) -> Iterator[str]:
    return (entry.key.decode() for entry in events.entries(prefix))


def _parts(keys: list[str]) -> Iterator[list[str]]:
    return (keys[start : start + MOST_DELETES] for start in range(0, len(keys), MOST_DELETES))
