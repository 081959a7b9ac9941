"""Retention: recorded applications that are older than a limit are deleted, their kept logs first, then their records.

One record of an application stays, the position in its event log. Without it, a reader that finds the log again would record the
application once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

from kvwal.entry import DataEntry
from kvwal.spark import index, queries
from kvwal.spark.kept.contents import Contents, every_kept_log
from kvwal.spark.lineage.edges import EDGES
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_keys import is_key_of_run
from kvwal.spark.record_reader import RecordReader
from kvwal.spark.records import Application, from_value
from kvwal.structures.map.changes import ABSENT

MOST_DELETES = 2_000
"""Keys that are deleted in one transaction: other writes wait for it."""


class DeletingMap(Protocol):
    """The methods of a map that `delete_applications` needs."""

    def entries(self, prefix: str, /) -> Iterator[DataEntry]:
        """The entries whose keys begin with `prefix`, in the order of the keys."""
        ...

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def commit_if(self, conditions: Mapping[Any, Any], items: Any, deletes: Iterable[Any] = (), /) -> bool:
        """See `kvwal.Map.commit_if`."""
        ...


def old_applications(records: RecordReader, before: int, name: str | None = None) -> list[RecordedApplication]:
    """The applications whose last event, and whose end, lie before a time in Unix milliseconds, oldest first.

    With `name`, only those whose name matches this pattern of a shell. An application that runs has had an event lately.
    """
    return [
        recorded
        for recorded in queries.applications(records)
        if _is_old(recorded.app, before) and (name is None or fnmatchcase(recorded.app.name, name))
    ]


def _is_old(app: Application, before: int) -> bool:
    return max(app.last_event, app.ended) < before


def delete_applications(records: DeletingMap, prefixes: Iterable[str], before: int) -> int:
    """Delete the records of these applications and their index in a map: of one node, or of a cluster.

    An application whose last event is not before that time stays. So does one to which a reader writes meanwhile, however long
    this call stands still: each transaction has the condition that the record of the application is what was read.

    The record of an application and its summary go last. So a call that is interrupted leaves an application that is still
    listed, and that the next call deletes. Returns the number of deleted keys.
    """
    doomed, deleted = set(prefixes), 0
    failures: dict[str, list[str]] = {prefix: [] for prefix in doomed}
    for key in _keys(records, index.FAILURES):
        if (prefix := index.application_of_failure(key)) in doomed:
            failures[prefix].append(key)
    for prefix in sorted(doomed):
        stored = records.get(f"{prefix}/app")
        found = None if stored is None else from_value(stored)
        if isinstance(found, Application) and not _is_old(found, before):
            continue
        last = [f"{prefix}/app", index.summary_key(prefix)]
        first = [key for key in _keys(records, f"{prefix}/") if _is_deleted(prefix, key) and key not in last]
        first += failures[prefix]
        first += _keys(records, f"{EDGES}{prefix}=")
        parts = [first[start : start + MOST_DELETES] for start in range(0, len(first), MOST_DELETES)]
        for part in [*parts, last]:
            if not records.commit_if({last[0]: ABSENT if stored is None else stored}, {}, part):
                break
            deleted += len(part)
    return deleted


def delete_kept_logs(contents: Contents, records: DeletingMap, prefixes: Iterable[str], before: int) -> int:
    """Delete the kept logs of these applications, but of those that have had an event since that time. Returns their number.

    To be called before `delete_applications`: a call that is interrupted leaves applications that are still listed.
    """
    deleted = 0
    for prefix in sorted(prefixes):
        stored = records.get(f"{prefix}/app")
        found = None if stored is None else from_value(stored)
        if isinstance(found, Application) and not _is_old(found, before):
            continue
        for name in list(every_kept_log(contents, prefix)):
            contents.delete(str(name))
            deleted += 1
    return deleted


def _keys(records: DeletingMap, prefix: str) -> Iterator[str]:
    return (entry.key.decode() for entry in records.entries(prefix))


def _is_deleted(prefix: str, key: str) -> bool:
    """False for the position in the event log, and for the records of the attempts at an application without attempts."""
    return key != f"{prefix}/log" and is_key_of_run(prefix, key)
