"""The logs of one call, the runs of an application in the order of their starts. In a cluster each is read under a lease.

A cluster has no lock. Two commands that read one log, or a command and a follower, would write over each other: the later write
may be that of the one that has read less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

from kvwal.errors import ConfigError
from kvwal.location.cluster import ClusterMaps
from kvwal.location.connect import is_cluster
from kvwal.ports.clock import SYSTEM
from kvwal.spark.eventlog.listing import EventLog
from kvwal.spark.eventlog.log_reader import (
    BUSINESS,
    LogReader,
    LogResult,
    MapStore,
    ReportProgress,
    has_more,
    result_of,
)
from kvwal.spark.eventlog.logs import ApplicationIdentity, NotAnEventLog, find_logs, identify
from kvwal.spark.eventlog.runs import EarlierRun, RecordMap
from kvwal.spark.index import complete_index, node_of_mark
from kvwal.spark.kept.contents import contents_of
from kvwal.spark.kept.keeping import Keeping, keep_log
from kvwal.spark.leases import LeasedMap, Leases, no_longer_than_a_lease
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.state.lease import LeaseHeld, LeaseLost

_Found = tuple[EventLog, ApplicationIdentity | LogResult]
Hold = Callable[[str], AbstractContextManager[RecordMap]]
"""Gives, for a block, the map for the records of the application whose keys begin so."""


Keep = Callable[[EventLog, ApplicationIdentity, Callable[[], None]], Keeping]
"""Keeps a log: see `keep_log`."""


def record_event_logs(
    store: MapStore,
    paths: Iterable[str | Path],
    progress: ReportProgress | None = None,
    *,
    keep_logs: bool = False,
) -> list[LogResult]:
    """Read the event logs at `paths` (files, rolling folders, folders of either) into the business `spark` of the store.

    Logs of finished and running applications are read as far as they are written. A second run reads on; it does not open a
    log again that was read to its end. A damaged line is recorded under the application's `damage` keys. A log that cannot be
    read to its end has a `problem`, and the other logs are read all the same. A log that has just begun, a log of an earlier run
    than the recorded one, and a file in a folder that is no event log, are `skipped`. With `keep_logs`, each log that is
    recorded is kept, too (see `kvwal.spark.kept`).
    """
    keep = partial(keep_log, contents_of(store)) if keep_logs else None
    logs = find_logs(paths)
    records = store.map(BUSINESS)
    complete_index(records, node_of_mark(store))
    with holding(store, records) as (hold, beat):
        return record_logs(hold, logs, progress, beat, keep=keep)


@contextmanager
def holding(store: MapStore, records: LeasedMap) -> Iterator[tuple[Hold, Callable[[], None]]]:
    """What gives a command the applications of a store one by one, for a block, and what it calls while it reads a log."""
    if not (is_cluster(store) or isinstance(store, ClusterMaps)):  # one process has the lock of a folder's node
        yield lambda app: nullcontext(records), lambda: None
        return
    with Leases(records, SYSTEM) as leases:
        yield lambda app: leases.hold(app, no_longer_than_a_lease()), leases.beat


def record_logs(
    hold: Hold,
    logs: Iterable[EventLog],
    progress: ReportProgress | None = None,
    beat: Callable[[], None] = lambda: None,
    *,
    keep: Keep | None = None,
) -> list[LogResult]:
    """Read logs, each while `hold` gives its application. `beat` is called while a log is read. See
    `kvwal.spark.record_event_logs`.
    """
    found = [(log, _identified(log)) for log in logs]
    total, done, results = sum(log.size() for log, _ in found), 0, []
    for log, identity in _in_order_of_runs(found):
        size = log.size()

        def report(read: int, before: int = done, name: str = log.path.name) -> None:
            beat()
            if progress is not None:
                progress(before + read, total, name)

        result = _record_log(hold, log, identity, report) if isinstance(identity, ApplicationIdentity) else identity
        if keep is not None and isinstance(identity, ApplicationIdentity) and not result.skipped:
            result = _kept(hold, keep, log, identity, result, beat)
        results.append(result)
        done += size
        if progress is not None:
            progress(done, total, log.path.name)
    return results


def _kept(
    hold: Hold,
    keep: Keep,
    log: EventLog,
    identity: ApplicationIdentity,
    result: LogResult,
    beat: Callable[[], None],
) -> LogResult:
    """Keep a log that was recorded. Meanwhile no other reader keeps one of its application."""
    try:
        with hold(app_prefix(identity.app, identity.attempt)):
            kept = keep(log, identity, beat)
    except FileNotFoundError:
        return result._replace(not_kept="it was deleted before it could be kept")
    except (LeaseHeld, LeaseLost) as error:
        return result._replace(not_kept=str(error))
    if kept.problem:
        return result._replace(kept=kept.name, not_kept=kept.problem)
    return result._replace(kept=kept.name)


def _identified(log: EventLog) -> ApplicationIdentity | LogResult:
    """The application of a log, or the result of a log that is not read because it names none."""
    try:
        identity = identify(log)
    except NotAnEventLog as error:
        reason = str(error)
        why = ("", reason) if log.listed else (reason, "")
        return LogResult(log.path, "", "", 0, 0, False, *why, is_log=False)
    except ConfigError as error:
        return LogResult(log.path, "", "", 0, 0, False, str(error))
    if identity is None:
        return LogResult(log.path, "", "", 0, 0, False, skipped="the log does not name its application yet")
    return identity


def _in_order_of_runs(found: list[_Found]) -> Iterator[_Found]:
    """The logs in their order, but the runs of one application by their starts: the last of them is the one to keep."""
    runs: dict[tuple[str, str], list[tuple[EventLog, ApplicationIdentity]]] = defaultdict(list)
    for log, identity in found:
        if isinstance(identity, ApplicationIdentity):
            runs[identity.app, identity.attempt].append((log, identity))
    following = {app: iter(sorted(logs, key=lambda run: run[1].started)) for app, logs in runs.items()}
    for log, identity in found:
        if isinstance(identity, ApplicationIdentity):
            yield next(following[identity.app, identity.attempt])
        else:
            yield log, identity


def _record_log(hold: Hold, log: EventLog, identity: ApplicationIdentity, report: Callable[[int], None]) -> LogResult:
    prefix = app_prefix(identity.app, identity.attempt)
    try:
        with hold(prefix) as records:
            return _read_on(records, log, identity, report)
    except EarlierRun as error:
        return LogResult(log.path, prefix, identity.name, 0, 0, False, skipped=str(error))
    except (LeaseHeld, LeaseLost) as error:
        return LogResult(log.path, prefix, identity.name, 0, 0, False, str(error))


def _read_on(
    records: RecordMap, log: EventLog, identity: ApplicationIdentity, report: Callable[[int], None]
) -> LogResult:
    reader = LogReader(records, log, identity)
    try:
        report(0)
        if has_more(reader, log):
            if _identified(log) != identity:  # logs before this one took their time
                why = "it was written anew since the command began; the next one reads it"
                return LogResult(log.path, reader.projection.prefix, identity.name, 0, 0, False, skipped=why)
            reader.advance(report)
        return result_of(reader, log, identity, complete=reader.projection.position.complete)
    finally:
        reader.close()
