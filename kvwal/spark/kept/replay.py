"""Kept logs as event logs, and recording them again: the records of an application are made anew, by this version of kvwal."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import BinaryIO, Literal, NamedTuple

import msgspec

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.listing import EventLogFile, ReadableFile
from kvwal.spark.eventlog.log_reader import LogReader, LogResult, ReportProgress, result_of
from kvwal.spark.eventlog.logs import ApplicationIdentity, identify
from kvwal.spark.eventlog.record_logs import Hold
from kvwal.spark.eventlog.runs import EarlierRun, RecordMap
from kvwal.spark.kept.contents import KEPT_LOGS, KeptName, ReadContents
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.records import Application, from_value
from kvwal.spark.state.lease import LeaseHeld, LeaseLost


class KeptFile(NamedTuple):
    """The file of a kept log (see `listing.ReadableFile`), and the path of it as a log."""

    contents: ReadContents
    kept: KeptName

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.kept.file

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """The file. `FileNotFoundError` if it was deleted."""
        try:
            return self.contents.open(str(self.kept))
        except KeyError as error:
            raise FileNotFoundError(str(self)) from error

    def __str__(self) -> str:
        return f"{KEPT_LOGS}: {self.kept}"


class _Lines(NamedTuple):
    """Lines of kvwal's own, as a file of a log."""

    name: str
    data: bytes

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """The lines."""
        return io.BytesIO(self.data)

    def __str__(self) -> str:
        return self.name


class KeptEventLog(NamedTuple):
    """A kept log as an event log (see `listing.EventLog`).

    `before` and `after` are lines of kvwal's own before and after those of the log.
    """

    path: KeptFile
    length: int
    before: bytes = b""
    after: bytes = b""
    listed: bool = False

    def files(self) -> list[EventLogFile]:
        """See `EventLog.files`."""
        before, after = ([_Lines("how its Python ended", data)] if data else [] for data in (self.before, self.after))
        files: list[ReadableFile] = [*before, self.path, *after]
        return [EventLogFile(roll, file, roll) for roll, file in enumerate(files)]

    def in_progress(self) -> bool:
        """See `EventLog.in_progress`."""
        return self.path.kept.in_progress

    def size(self) -> int:
        """See `EventLog.size`."""
        return self.length

    def is_nested(self) -> bool:
        """See `EventLog.is_nested`."""
        return False


def kept_event_log(contents: ReadContents, name: KeptName) -> KeptEventLog:
    """A kept log as an event log."""
    return KeptEventLog(KeptFile(contents, name), contents.stat(str(name)).length)


def record_again(
    hold: Hold,
    contents: ReadContents,
    names: Iterable[KeptName],
    progress: ReportProgress | None = None,
    beat: Callable[[], None] = lambda: None,
) -> list[LogResult]:
    """Make the records of applications anew from their kept logs, each while `hold` gives its application. `beat` is called while
    a log is read.

    The records of an application are replaced from the first transaction on, as those of an earlier run are (`RunRecords`). A
    call that is interrupted leaves a part of the new ones, and the next call makes them anew. How the driver's Python ended
    stays: a recorder saw it, and the log does not tell.
    """
    logs = [kept_event_log(contents, name) for name in names]
    total, done, results = sum(log.length for log in logs), 0, []
    for log in logs:

        def report(read: int, before: int = done, name: str = log.path.name) -> None:
            beat()
            if progress is not None:
                progress(before + read, total, name)

        results.append(_record_again(hold, log, report))
        done += log.length
    return results


def _record_again(hold: Hold, log: KeptEventLog, report: Callable[[int], None]) -> LogResult:
    prefix = log.path.kept.prefix
    try:
        identity = identify(log)
    except ConfigError as error:
        return LogResult(log.path, prefix, "", 0, 0, False, str(error))
    if identity is None or app_prefix(identity.app, identity.attempt) != prefix:
        return LogResult(log.path, prefix, "", 0, 0, False, f"{log.path} is not the log of {prefix}.")
    try:
        with hold(prefix) as records:
            return _read(records, _with_ending(records, log, prefix), identity, report)
    except EarlierRun as error:
        return LogResult(log.path, prefix, identity.name, 0, 0, False, skipped=str(error))
    except (LeaseHeld, LeaseLost) as error:
        return LogResult(log.path, prefix, identity.name, 0, 0, False, str(error))


def _read(
    records: RecordMap, log: KeptEventLog, identity: ApplicationIdentity, report: Callable[[int], None]
) -> LogResult:
    reader = LogReader(records, log, identity, anew=True)
    try:
        reader.advance(report)
        return result_of(reader, log, identity, complete=reader.projection.position.complete)
    finally:
        reader.close()


def _with_ending(records: RecordMap, log: KeptEventLog, prefix: str) -> KeptEventLog:
    """The log with what a recorder saw of the end, if one did: as its last line, and as its first one, so that the first
    transaction has it, too.
    """
    stored = records.get(f"{prefix}/app")
    app = None if stored is None else from_value(stored)
    if not isinstance(app, Application) or app.status == "RUNNING":
        return log
    if not (app.status_from == "python" or app.status == "DETACHED" or app.dropped):
        return log
    error = app.error
    ending = {
        "Event": "kvwal.Detached",
        "Status": app.status if app.status_from == "python" else "",
        "Exit Code": app.exit_code,
        "Error": error.message if error else "",
        "Stack": error.stack if error else "",
        "Dropped": app.dropped,
    }
    before, after = (msgspec.json.encode({**ending, "Timestamp": at}) + b"\n" for at in (0, app.ended))
    return log._replace(before=before, after=after)
