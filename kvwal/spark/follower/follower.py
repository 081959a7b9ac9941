"""The follower of event log folders: one listing of each folder a round, then the logs that have changed are read on.

A log whose version in the listing is that of its mark is not opened. The readers of logs that still grow are kept, as far as
`MOST_READERS` go, so that only new bytes are read. A reader that is made anew goes on at the byte of the position in a file
without compression; a compressed file is decompressed from its start, up to the position. Its first lines are read in both
cases, because the rules of redaction stand there.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import structs

from kvwal.errors import ConfigError
from kvwal.ports.clock import Clock
from kvwal.spark.eventlog.folders import EventLogsRefused, EventLogsUnreachable, logs_at
from kvwal.spark.eventlog.listing import ListedLog, LogFolder
from kvwal.spark.eventlog.log_reader import LogReader, WrittenAnew, has_more
from kvwal.spark.eventlog.logs import NotAnEventLog, identify
from kvwal.spark.eventlog.runs import EarlierRun
from kvwal.spark.follower.marks import LogMark, LogMarks
from kvwal.spark.follower.quiet_logs import QuietLogs
from kvwal.spark.follower.status import FollowerStatus
from kvwal.spark.leases import LeasedMap, LeasedRecords, Leases
from kvwal.spark.record_keys import app_prefix

MOST_READERS = 64


class Stopped(Exception):
    """The follower was told to stop. What is stored is whole."""


class Follower:
    """A follower of folders into one map. Used by one thread. After an error of the store it is of no more use."""

    def __init__(
        self,
        records: LeasedMap,
        folders: Sequence[LogFolder],
        status: FollowerStatus,
        clock: Clock,
        is_stopped: Callable[[], bool],
        quiet_logs: QuietLogs | None = None,
    ) -> None:
        """`quiet_logs` keeps logs when they have ended, or are quiet; None: no log is kept."""
        self._folders = folders
        self._places = {folder.url for folder in folders}
        self._status = status
        self._is_stopped = is_stopped
        self._quiet_logs = quiet_logs
        self._leases = Leases(records, clock)
        self._records = records
        self._marks = LogMarks(records)
        self._readers: OrderedDict[str, LogReader] = OrderedDict()

    def round(self) -> None:
        """Read what is new in all folders. `Stopped` if the follower was told to stop; every error of the store."""
        counts = self._status.begin()
        listed: set[str] = set()
        self._leases.beat()
        self._hand_over()
        for folder in self._folders:
            try:
                logs = [log for log in logs_at(folder) if not (log.is_nested() and log.place in self._places)]
                counts.logs += len(logs)
                listed.update(log.place for log in logs)
                for log in logs:
                    self._stop_here()
                    self._visit(log)
                self._marks.save()
                self._marks.delete_others(logs)
            except (EventLogsUnreachable, ConfigError) as error:
                self._status.trouble(folder.url, error)
        self._marks.save()
        if counts.whole:
            for place in self._readers.keys() - listed:  # deleted: what was read stays in the store
                self._leases.release(self._readers.pop(place).projection.prefix)
            if self._quiet_logs is not None:
                self._quiet_logs.forget_others(listed)
        self._status.end(len(self._readers))

    def beat(self) -> None:
        """Keep the leases of this follower. To be called often, by any thread. `LeaseLost` if they are lost."""
        self._leases.beat()

    def close(self) -> None:
        """Close the readers, and give the leases back, so that others go on at once."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()
        self._marks.save()
        self._leases.close()

    def _hand_over(self) -> None:
        """Leave the applications whose recorders, or readers of what recorders left, have asked for the lease."""
        for app in sorted(self._leases.held):
            if self._leases.is_wanted(app):
                self._forget(app)
                self._leases.release(app)

    def _forget(self, app: str) -> None:
        for place in [place for place, kept in self._readers.items() if kept.projection.prefix == app]:
            del self._readers[place]

    def _stop_here(self) -> None:
        if self._is_stopped():
            raise Stopped

    def _visit(self, log: ListedLog) -> None:
        """Read a log on, if it has changed since the last look at it, and if no other reader has its application."""
        mark = self._marks.of(log)
        if mark is not None and mark.version == log.version():
            self._status.unchanged(mark)
            self._read_log(log, partial(self._keep_quiet, log, mark))
        else:
            self._read_log(log, partial(self._read_anew, log))

    def _read_anew(self, log: ListedLog) -> None:
        if (reader := self._readers.pop(log.place, None)) is not None:
            self._read_on(log, reader)
        else:
            self._begin(log)

    def _read_log(self, log: ListedLog, read: Callable[[], None]) -> None:
        """Do something that reads a log, and note what is wrong with the log."""
        try:
            read()
        except NotAnEventLog as error:
            self._skip(log, error.what, is_log=not log.listed)
        except FileNotFoundError:  # renamed or deleted since it was listed: the next listing shows what is there
            self._status.vanished(str(log.path))
        except (EventLogsUnreachable, EventLogsRefused):
            raise
        except EarlierRun as error:
            self._skip(log, error.what, is_log=False)
        except ConfigError as error:
            self._skip(log, error.what, is_log=True)
        except OSError as error:
            problem = f"{log.path} cannot be read ({error.strerror})."
            self._status.trouble(log.place, EventLogsUnreachable(problem, hint="Mend its owner and its mode."))

    def _read_on(self, log: ListedLog, reader: LogReader) -> None:
        try:
            self._read(log, reader, log)
        except WrittenAnew:  # perhaps by another application
            self._begin(log)

    def _begin(self, log: ListedLog) -> None:
        identity = identify(log)
        if identity is None:  # it has just begun: its next bytes may name its application
            self._mark(log, LogMark(version=log.version()))
            return
        prefix = app_prefix(identity.app, identity.attempt)
        if not self._leases.take(prefix):
            self._status.elsewhere(prefix)
            return
        self._forget(prefix)  # two readers of one application would not see each other's records
        records = LeasedRecords(self._records, self._leases, prefix, self._stop_here)
        try:
            reader = LogReader(records, log, identity)
        except EarlierRun:
            self._leases.release(prefix)
            raise
        if reader.replaced:
            self._status.replaced(prefix, str(log.path), reader.replaced)
        self._read(log, reader, None)

    def _read(self, log: ListedLog, reader: LogReader, newer: ListedLog | None) -> None:
        """Let a reader read up to the end of the log; keep it if the log may grow. After an error it is not kept."""
        position = reader.projection.position
        events, counted = reader.events, [reader.bytes]
        try:
            if newer is not None or has_more(reader, log):
                reader.advance(partial(self._count, reader, counted), newer)
            self._count(reader, counted, 0)
        finally:
            reader.close()
        prefix = reader.projection.prefix
        if position.complete or reader.problem:
            self._leases.release(prefix)
        else:
            self._keep(log, reader)
        mark = LogMark(
            version=log.version(),
            app=prefix,
            complete=position.complete,
            damaged=position.damaged,
            problem=reader.problem,
        )
        self._marks.put(log, mark)
        self._status.read(mark, str(log.path), reader.events - events)
        self._keep_quiet(log, mark)

    def _keep_quiet(self, log: ListedLog, mark: LogMark) -> None:
        """Keep a log that has ended or is quiet, unless this version of it was kept. When it is, no event of it is missing."""
        if self._quiet_logs is None or not mark.app or not self._quiet_logs.is_due(log, mark):
            return
        identity = identify(log)
        if identity is None:
            return
        is_held = mark.app in self._leases.held
        if not is_held and not self._leases.take(mark.app):
            return  # another reader has the application, and keeps its log if it is to be kept
        try:
            kept = self._quiet_logs.keep(log, identity, self._beat_and_stop)
        finally:
            if not is_held:
                self._leases.release(mark.app)
        self._marks.put(log, structs.replace(mark, kept=mark.version))
        self._status.kept(str(log.path), kept)

    def _beat_and_stop(self) -> None:
        self._stop_here()
        self._leases.beat()

    def _keep(self, log: ListedLog, reader: LogReader) -> None:
        """Keep a reader, with the lease of its application. The one that was used longest ago gives way."""
        self._readers[log.place] = reader
        if len(self._readers) > MOST_READERS:
            _, oldest = self._readers.popitem(last=False)
            self._leases.release(oldest.projection.prefix)

    def _count(self, reader: LogReader, counted: list[int], done: int) -> None:
        self._status.received(reader.bytes - counted[0])
        counted[0] = reader.bytes
        self._leases.beat()

    def _mark(self, log: ListedLog, mark: LogMark) -> None:
        self._marks.put(log, mark)
        self._status.unchanged(mark)

    def _skip(self, log: ListedLog, problem: str, *, is_log: bool) -> None:
        """Leave a file alone until it changes."""
        mark = LogMark(version=log.version(), problem=problem)
        self._marks.put(log, mark)
        self._status.skipped(mark, str(log.path), is_log=is_log)
