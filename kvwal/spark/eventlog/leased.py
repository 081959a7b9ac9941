"""Reading of event logs into a cluster: each log is read under the lease of its application, as followers and recorders do it.

A cluster has no lock. Two commands that read one log, or a command and a follower, would write over each other: the later write
may be that of the one that has read less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from kvwal.location.connect import is_cluster
from kvwal.ports.clock import SYSTEM, Clock
from kvwal.spark.eventlog.log_reader import BUSINESS, LogResult, MapStore, ReportProgress
from kvwal.spark.eventlog.logs import find_logs
from kvwal.spark.eventlog.record_logs import record_logs
from kvwal.spark.eventlog.runs import RecordMap
from kvwal.spark.index import complete_index, node_of_mark
from kvwal.spark.leases import LeasedMap, LeasedRecords, Leases
from kvwal.spark.recording.spool_lease import LeaseWait, no_longer_than_a_lease, released_after, wait_for_lease


class LeasedReading:
    """The leases of one command that reads event logs."""

    def __init__(self, records: LeasedMap, leases: Leases, wait: Callable[[], LeaseWait]) -> None:
        self._records = records
        self._leases = leases
        self._wait = wait
        self.beat = leases.beat
        """To be called often while a log is read: see `Leases.beat`."""

    @contextmanager
    def hold(self, app: str) -> Iterator[RecordMap]:
        """Hold the lease of an application for the block, which gets the map for its records. `LeaseHeld`, `LeaseLost`."""
        wait_for_lease(self._leases, app, self._wait())
        yield LeasedRecords(self._records, self._leases, app)
        self._leases.release(app)


@contextmanager
def leased_reading(
    records: LeasedMap, wait: Callable[[], LeaseWait] = no_longer_than_a_lease, clock: Clock = SYSTEM
) -> Iterator[LeasedReading]:
    """The leases of a command for the block. After an error of the store they run out by themselves, in a minute."""
    leases = Leases(records, clock)
    with released_after(leases):
        yield LeasedReading(records, leases, wait)


def record_event_logs(
    store: MapStore, paths: Iterable[str | Path], progress: ReportProgress | None = None
) -> list[LogResult]:
    """Read the event logs at `paths` (files, rolling folders, folders of either) into the business `spark` of the store.

    Logs of finished and running applications are read as far as they are written. A second run reads on; it does not open a
    log again that was read to its end. A damaged line is recorded under the application's `damage` keys. A log that cannot be
    read to its end has a `problem`, and the other logs are read all the same. A log that has just begun, a log of an earlier run
    than the recorded one, and a file in a folder that is no event log, are `skipped`.
    """
    logs = find_logs(paths)
    records = store.map(BUSINESS)
    complete_index(records, node_of_mark(store))
    if not is_cluster(store):  # one process has the lock of a folder's node
        return record_logs(lambda app: nullcontext(records), logs, progress)
    with leased_reading(store.map(BUSINESS)) as reading:
        return record_logs(reading.hold, logs, progress, reading.beat)
