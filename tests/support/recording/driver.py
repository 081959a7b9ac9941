"""Stand-ins for Spark's driver and for a store that goes away: the faults of a recorder, without Spark and without a cluster."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import kvwal
from kvwal.errors import ClusterUnreachable, CommitUnknown
from kvwal.spark.eventlog.logs import ApplicationIdentity, LocalEventLog
from kvwal.spark.recording.spool import add_roll
from tests.support.event_logs import event_log

JOBS = 2
"""Jobs in the event log of a `LoggingDriver`."""
HALTED = 7
"""Events that count as dropped after a stand-in for Spark was told to write no more."""


class Listener:
    """Has written the beginning of an application's event log."""

    def __init__(self, folder: Path, app: str, started: int) -> None:
        self.log = LocalEventLog(Path(mkdtemp(prefix=f"eventlog_v2_{app}-", dir=folder)))
        self.is_halted = False
        self._rolls = 0
        self.write({
            "Event": "SparkListenerApplicationStart", "App Name": "a test", "App ID": app, "Timestamp": started, "User": "me",
        }, {"Event": "kvwal.Attached"})  # fmt: skip

    def write(self, *events: dict[str, Any]) -> None:
        """Write events as Spark does, in a roll of their own."""
        add_roll(self.log, self._rolls, list(events))
        self._rolls += 1

    def halt(self) -> None:
        self.is_halted = True

    def discard(self) -> None:
        self.is_halted = True
        rmtree(self.log.path)

    def detach(self) -> int:
        return HALTED if self.is_halted else 0


class Driver:
    """Stands in for the driver of a Spark session. `spark` is the application's id, if it is not `app-1`."""

    started = 1_000
    """When the application started, as that of `event_log` did."""

    def __init__(self, spark: object) -> None:
        self.identity = ApplicationIdentity(spark if isinstance(spark, str) else "app-1", "", "a test", self.started)

    def attach(self, folder: Path) -> Listener:
        self.listener = Listener(folder, self.identity.app, self.started)
        return self.listener


class LoggingDriver(Driver):
    """As `Driver`, of a Spark that writes an event log of its own into a folder, too."""

    def __init__(
        self, folder: Path, app: str = "app-1", *, codec: str | None = None, ends_with_python: bool = True
    ) -> None:
        super().__init__(app)
        self.codec = codec
        self.path = folder / app
        self.is_stopped = False
        self._ends_with_python = ends_with_python
        folder.mkdir(exist_ok=True)
        (folder / f"{app}.inprogress").write_bytes(event_log(app, JOBS, ended=False, started=self.started))

    def event_log(self) -> str | None:
        return f"file:{self.path}"  # as Hadoop writes it

    def event_log_codec(self) -> str | None:
        return self.codec

    def has_stopped(self) -> bool:
        return self.is_stopped

    def ends_with_python(self) -> bool:
        return self._ends_with_python

    def stop(self) -> None:
        """End the log, and give it its final name."""
        self.path.write_bytes(event_log(self.identity.app, JOBS, started=self.started))
        self.path.with_name(f"{self.path.name}.inprogress").unlink()
        self.is_stopped = True


class AwayStore:
    """An open store, as a recorder sees it, that is away while `away` is true. `tries` counts the calls meanwhile.

    If `loses_answer` is true, the next transaction of records is kept in `late`, and its outcome is unknown. With `goes_away` the
    store is away from then on.
    """

    def __init__(self, store: kvwal.Store, *, away: bool = True) -> None:
        self._records = store.map("spark")
        self.root, self.namespace, self.cluster, self.node = store.root, store.namespace, store.cluster, store.node
        self.options = store.options
        self.away = away
        self.tries = 0
        self.loses_answer = self.goes_away = False
        self.late: list[Callable[[], bool]] = []

    def map(self, name: str) -> AwayStore:
        return self

    def get(self, key: str, default: Any = None) -> Any:
        self._answer()
        return self._records.get(key, default)

    def __len__(self) -> int:
        self._answer()
        return len(self._records)

    def put_many(self, entries: dict[str, Any]) -> None:
        self._answer()
        self._records.put_many(entries)

    def submit_many(self, entries: dict[str, Any], deletes: list[str]) -> Future[Any]:
        self._answer()
        return self._records.submit_many(entries, deletes)

    def scan(self, prefix: str) -> list[tuple[str, Any]]:
        self._answer()
        return list(self._records.scan(prefix))

    def commit_if(self, conditions: Any, items: Any, deletes: Any = ()) -> bool:
        self._answer()
        if self.loses_answer and len(items) > 1:
            self.loses_answer, self.away = False, self.goes_away
            self.late.append(partial(self._records.commit_if, conditions, items, deletes))
            raise CommitUnknown("the member that was to answer is gone.")
        return self._records.commit_if(conditions, items, deletes)

    def _answer(self) -> None:
        if self.away:
            self.tries += 1
            raise ClusterUnreachable("no node of the cluster answers.")
