"""Runs of one application: an application that is tried again under its id writes another log, perhaps in place of the first one.

The time at which the application started tells its runs apart. The records are those of the latest run. Its reader replaces the
records of an earlier run: the records that the new run does not have are deleted in the transaction that puts its first ones. The
history keeps all of them.
"""

from __future__ import annotations

from typing import Any, Protocol

from kvwal.errors import ConfigError
from kvwal.hlc import second_text
from kvwal.spark.eventlog.listing import LogPath
from kvwal.spark.eventlog.logs import ApplicationIdentity
from kvwal.spark.index import FAILURES, application_of_failure, summary_key
from kvwal.spark.projection.state import LOGS
from kvwal.spark.record_keys import app_prefix, is_key_of_run
from kvwal.spark.records import Application, EventLogPosition, from_value

MOST_DELETES = 2_000
"""Keys that are deleted in one transaction: other writes wait for it."""


class EarlierRun(ConfigError):
    """A log is that of an earlier run of its application than the recorded one. Nothing of it was written."""


class RecordMap(Protocol):
    """The methods of a map that a reader needs."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def put_many(self, entries: dict[str, Any], /) -> Any:
        """Put all entries in one transaction. Returns when the transaction is durable."""
        ...

    def submit_many(self, entries: dict[str, Any], deletes: list[str], /) -> Any:
        """Put all entries and delete all keys in one transaction. Returns a future."""
        ...

    def scan(self, prefix: str, /) -> Any:
        """The keys that begin so, and their values."""
        ...


class RunRecords:
    """The records of one run of an application. Those of an earlier run are not there for its reader.

    They are in the store until the first `put`. A `put` that is interrupted leaves the record of the earlier run's application,
    or has replaced all of its records. So the next reader sees which run is recorded.
    """

    def __init__(self, records: RecordMap, identity: ApplicationIdentity, path: LogPath, *, anew: bool = False) -> None:
        """`EarlierRun` if a later run is recorded. `path` is that of the log, for the message. With `anew` the
        records of this run are replaced, too.
        """
        self._records = records
        self._prefix = app_prefix(identity.app, identity.attempt)
        self._earlier: set[str] = set()
        self.replaced = 0
        """When the earlier run started whose records this one replaces, in Unix milliseconds; 0 if there is none."""
        recorded = self._recorded_start()
        if not recorded or not identity.started or recorded == identity.started:
            self._earlier = self._keys() if anew else set()
            return
        if identity.started < recorded:
            raise EarlierRun(
                f"{path} is of the run of {self._prefix} that started at {second_text(identity.started)}."
                f" A later run is recorded, which started at {second_text(recorded)}.",
                hint="Read the log into another store to see the earlier run.",
            )
        self.replaced = recorded
        self._earlier = self._keys()

    def _recorded_start(self) -> int:
        """When the recorded run started; 0 if that is not known. Where the application was pruned, its position says it."""
        values = (self._records.get(f"{self._prefix}/{part}") for part in ("app", *LOGS))
        found = (from_value(value) for value in values if value is not None)
        starts = (record.started for record in found if isinstance(record, Application | EventLogPosition))
        return next((started for started in starts if started), 0)  # one read, unless the application was pruned

    def _keys(self) -> set[str]:
        """The keys of all records of the application, and of its index."""
        own = {key for key, _ in self._records.scan(f"{self._prefix}/") if is_key_of_run(self._prefix, key)}
        failures = {key for key, _ in self._records.scan(FAILURES) if application_of_failure(key) == self._prefix}
        return own | failures | {summary_key(self._prefix)}

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, as this run has it."""
        return default if key in self._earlier else self._records.get(key, default)

    def put(self, changed: dict[str, Any], dropped: list[str]) -> None:
        """Put and delete in one transaction, with which the records of an earlier run go. Returns when it is durable."""
        gone = sorted((self._earlier | set(dropped)) - changed.keys(), key=self._order)
        while len(gone) > MOST_DELETES:
            self._records.submit_many({}, gone[:MOST_DELETES]).result()
            gone = gone[MOST_DELETES:]
        if gone:
            self._records.submit_many(changed, gone).result()
        else:
            self._records.put_many(changed)
        self._earlier.clear()

    def _order(self, key: str) -> tuple[bool, str]:
        """The record of the application goes last: it says which run is recorded."""
        return key == f"{self._prefix}/app", key
