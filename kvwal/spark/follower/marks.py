"""Marks of logs: which version of each log was read. A log of the same version is not opened again, also after a restart.

    !log/<URL of the log>           LogMark

No application's id begins with an exclamation mark in a key, because `record_keys.app_prefix` encodes it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from urllib.parse import quote

import msgspec

from kvwal.spark.eventlog.listing import ListedLog
from kvwal.spark.leases import LeasedMap

MOST_PENDING = 200
_MARKS = "!log/"


class LogMark(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="eventlog"):
    """The version of a log up to which it was read.

    `app` is the prefix of its application's keys, empty if the log does not name one. `problem` says why it is read no further.
    `kept` is the version that was kept, or could not be; empty if none was.
    """

    version: str
    app: str = ""
    complete: bool = False
    damaged: int = 0
    problem: str = ""
    kept: str = ""


class LogMarks:
    """The marks of all logs, in memory as far as they were used. `save` writes several in one transaction.

    A mark that is lost costs one more look at its log, which finds nothing new.
    """

    def __init__(self, records: LeasedMap) -> None:
        self._records = records
        self._known: dict[str, LogMark] = {}
        self._pending: dict[str, Any] = {}
        self._scanned: set[str] = set()

    def of(self, log: ListedLog) -> LogMark | None:
        """The mark of a log. It is asked from the store if the one in memory is of another version."""
        key = _key(log)
        known = self._known.get(key)
        if (known is None or known.version != log.version()) and key not in self._pending:
            value = self._records.get(key)
            if value is not None:
                known = self._known[key] = msgspec.convert(value, LogMark)
        return known

    def put(self, log: ListedLog, mark: LogMark) -> None:
        """Note a mark; it is in the store after `save`."""
        key = _key(log)
        self._known[key] = mark
        self._pending[key] = msgspec.to_builtins(mark)
        if len(self._pending) >= MOST_PENDING:
            self.save()

    def save(self) -> None:
        """Put the noted marks into the store."""
        if self._pending:
            self._records.put_many(self._pending)
            self._pending = {}

    def delete_others(self, listed: Collection[ListedLog]) -> None:
        """Delete the marks of logs that were deleted: those beside the logs of a folder's listing that are not in it.

        The store is asked once for the marks of a folder, because earlier followers may have left some. A listing without a log
        says nothing: its disk may not be mounted.
        """
        keys = {_key(log) for log in listed if log.listed}
        folders = {key[: key.rindex("/") + 1] for key in keys}
        for folder in folders - self._scanned:
            self._known.update((key, msgspec.convert(mark, LogMark)) for key, mark in self._records.scan(folder))
        self._scanned |= folders
        gone = [key for key in self._known.keys() - keys if key[: key.rindex("/") + 1] in folders]
        for start in range(0, len(gone), MOST_PENDING):
            self._records.submit_many({}, gone[start : start + MOST_PENDING]).result()
        for key in gone:
            del self._known[key]


def _key(log: ListedLog) -> str:
    return f"{_MARKS}{quote(log.place, safe='@+:/')}"
