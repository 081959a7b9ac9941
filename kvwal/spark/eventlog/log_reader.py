"""The reader of event logs: lines in, records in a store out. Each event counts once, also after a reader was killed.

One transaction puts the changed records together with the position: the file, and the number of its lines that were read. The
position counts lines and not bytes, because Spark renames and compacts its files. So the next reader goes on after the last
transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.listing import IN_PROGRESS, EventLogFile, Log, LogPath
from kvwal.spark.eventlog.logs import ApplicationIdentity, NotAnEventLog, find_logs, identify, settings_of
from kvwal.spark.events.parser import DamagedLine, parse_line
from kvwal.spark.index import complete_index, index_entries, node_of_mark, withdrawn_failures
from kvwal.spark.projection.projection import Projection
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.records import Damage, cut
from kvwal.spark.redaction import Redaction

BUSINESS = "spark"
MAX_PENDING = 1 << 20
MAX_BYTES = 16 << 20

ReportProgress = Callable[[int, int, str], None]
"""Called with the bytes read, the bytes in total, and the name of the log being read."""


class RecordMap(Protocol):
    """The methods of a map that a reader needs."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def __len__(self) -> int:
        """The number of keys."""
        ...

    def put_many(self, entries: dict[str, Any], /) -> Any:
        """Put all entries in one transaction. Returns when the transaction is durable."""
        ...

    def submit_many(self, entries: dict[str, Any], deletes: list[str], /) -> Any:
        """Put all entries and delete all keys in one transaction. Returns a future."""
        ...


class WrittenAnew(Exception):
    """Another log was written in place of the one that a reader was reading."""


class MapStore(Protocol):
    """The methods of a store that a reader needs."""

    def map(self, name: str, /) -> Any:
        """The map of a business."""
        ...


class LogResult(NamedTuple):
    """The result of reading one log. `events` and `damaged` count the lines of this run.

    `problem` says why it stopped early. `skipped` says why nothing was read although nothing is wrong: the log has just begun,
    or a folder holds a file that is no event log.
    """

    path: LogPath
    app: str
    name: str
    events: int
    damaged: int
    complete: bool
    problem: str = ""
    skipped: str = ""


class LogReader:
    """A reader of one log into a map. Each `advance` reads the log as far as it is written."""

    def __init__(self, records: RecordMap, log: Log, identity: ApplicationIdentity, *, position: str = "log") -> None:
        self.projection = Projection(app_prefix(identity.app, identity.attempt), records.get, log=position)
        self.events = 0
        self.damaged = 0
        self.problem = ""
        self.bytes = 0
        """Bytes of lines, decompressed, that were read so far."""
        self._records = records
        self._log = log
        self._file: EventLogFile | None = None
        self._lines: Lines | None = None
        self._line_number = 0
        self._lines_to_skip = 0
        self._last_line: bytes | None = None
        self._restart = (0, 0)
        self._damaged_file = False
        self._unsaved_bytes = 0
        self._unsaved_lines = 0

    def advance(self, progress: Callable[[int], None] = lambda done: None, log: Log | None = None) -> int:
        """Read and store the lines written since the last call. Returns their number.

        `progress` is called with the bytes of the log read so far. `log` is the same log as a newer listing shows it. An error
        of the store passes through and ends the use of this reader: a new reader goes on after the last transaction. So does
        `WrittenAnew`: the log may be that of another application now.
        """
        if log is not None:
            self._move_to(log)
        before, done, in_progress = self.events, 0, True
        while True:
            # Both are asked before the lines are read, so a log or file that is finished by now is read to its end.
            in_progress_now, files = self._log.in_progress(), self._log.files()
            if self._file is None and not self._begin(files):
                break
            self._read_file(lambda read, before=done: progress(before + read))  # type: ignore[misc]
            done += self._lines.tell() if self._lines else 0
            later = next((file for file in files if self._file and file.roll > self._file.roll), None)
            if later or not in_progress_now:
                self._take_unfinished()
            if later is None:
                in_progress = in_progress_now
                break
            self.close()
            self._open(later, 0)
        self._save(complete=not in_progress and not self.problem)
        return self.events - before

    def close(self) -> None:
        """Close the open file. `advance` with a newer listing of the log opens it again where it was read to."""
        if self._lines is not None:
            self._lines.close()

    def _move_to(self, log: Log) -> None:
        """Go on in the open file under its present name."""
        self._log = log
        if self._file is None or self._lines is None:
            return
        before = self._file
        now = next((file for file in log.files() if (file.roll, file.covers) == (before.roll, before.covers)), None)
        if now is None:  # compacted, or deleted
            self.close()
            self._file = self._lines = None
        else:
            self._file = now
            if not self._lines.move_to(now.path):
                raise WrittenAnew

    def _begin(self, files: list[EventLogFile]) -> bool:
        """Open the file of the position. False if there is nothing to read yet."""
        position = self.projection.position
        if position.events:  # the event with the redaction rules stands before the position
            self.projection.redact_by(Redaction(settings_of(self._log)))
        for file in files:
            if file.covers <= position.roll <= file.roll:
                # A compacted copy numbers its lines anew, so it is read from its start. Events that were read before count once.
                same_lines = file.roll == position.roll and not _compacted_since(file, position.path)
                if same_lines and position.offset and file.path.name.removesuffix(IN_PROGRESS) == _name(position.path):
                    self._open(file, position.event, position.offset_event, position.offset)
                else:
                    self._open(file, position.event if same_lines else 0)
                return True
            if file.roll > position.roll:
                self._open(file, 0)
                return True
        if files:  # the position was taken in another log of the application
            self._open(files[0], 0)
        return bool(files)

    def _open(self, file: EventLogFile, event: int, before: int = 0, offset: int = 0) -> None:
        """Open a file of which `event` lines are read already. The one after the first `before` begins at byte `offset`."""
        self._file, self._lines = file, Lines(file.path, offset)
        self._line_number, self._lines_to_skip, self._damaged_file = before, event - before, False
        self._restart = (before, offset)
        self._last_line = None

    def _reread(self) -> None:
        """Read the open file from its start. Events that were read before count once."""
        self.close()
        if self._file is not None:
            self._open(self._file, 0)

    def _read_file(self, progress: Callable[[int], None]) -> None:
        """Read the open file as far as it is written."""
        if self._lines is None or self._file is None:
            return
        try:
            while (batch := self._lines.more()) is not None or self._is_another_file():
                if batch is None:
                    self._reread()
                    continue
                self._take_lines(batch)
                size = sum(map(len, batch))
                self._unsaved_bytes += size
                self.bytes += size
                if self._lines.last_line is not None:
                    self._restart = (self._line_number - 1, self._lines.last_line)
                if self.projection.pending > MAX_PENDING or self._unsaved_bytes > MAX_BYTES:
                    self._save()
                progress(self._lines.tell())
        except DamagedFile as error:  # later files can still be read
            self._damaged_file = True
            self.problem = f"{self._file.path}, after line {self._line_number}: {error}"
            self._record_damage(self._line_number + 1, str(error), b"")

    def _take_lines(self, batch: list[bytes]) -> None:
        if self._lines_to_skip:
            skipped = min(self._lines_to_skip, len(batch))
            if skipped == self._lines_to_skip and not self._is_last_read(batch[skipped - 1]):
                self._reread()
                return
            self._lines_to_skip -= skipped
            self._line_number += skipped
            batch = batch[skipped:]
        for line in batch:
            self._take_line(line)
            if self.projection.pending > MAX_PENDING:
                self._save()

    def _take_line(self, line: bytes) -> None:
        self._line_number += 1
        self._last_line = line
        self._unsaved_lines += 1
        self.events += 1
        try:
            event = parse_line(line)
        except DamagedLine as error:
            self._record_damage(self._line_number, str(error), line)
            return
        if event is not None:
            self.projection.apply(event, len(line))

    def _is_last_read(self, line: bytes) -> bool:
        """Whether a line is the one at the position. Another line means that another log was written under this name."""
        known = self.projection.position.event_crc
        return not known or zlib.crc32(line) == known

    def _is_another_file(self) -> bool:
        """Whether the file ends before the position, although it did not when the position was taken."""
        if not self._lines_to_skip or not self.projection.position.event_crc or self._lines is None:
            return False
        return not (self._lines_to_skip == 1 and self._is_last_read(self._lines.rest))

    def _take_unfinished(self) -> None:
        """Take the last line of a finished file even without a line end: it is an event, or the beginning of one."""
        rest = self._lines.unfinished() if self._lines is not None and not self._damaged_file else b""
        if rest and not self._lines_to_skip:
            self._take_line(rest)

    def _record_damage(self, number: int, problem: str, line: bytes) -> None:
        self.damaged += 1
        path, roll = (str(self._file.path), self._file.roll) if self._file else ("", 0)
        self.projection.damaged(
            Damage(path=path, roll=roll, event=number, problem=cut(problem), text=cut(line.decode("utf-8", "replace")))
        )

    def _save(self, *, complete: bool = False) -> None:
        """Put the changed records and the position in one transaction."""
        position = self.projection.position
        if self._file is None or not (self._unsaved_lines or self.projection.pending or complete > position.complete):
            return
        position.complete = complete
        if self._last_line is not None:
            position.event_crc = zlib.crc32(self._last_line)
        position.offset_event, position.offset = self._restart
        self.projection.moved(self._file.roll, self._line_number, self._unsaved_lines, str(self._file.path))
        changed, dropped = self.projection.take(), self.projection.take_dropped()
        dropped += withdrawn_failures(changed)
        changed |= index_entries(changed)
        if dropped:
            self._records.submit_many(changed, dropped).result()
        else:
            self._records.put_many(changed)
        self._unsaved_bytes = self._unsaved_lines = 0


def _name(path: str) -> str:
    """The name of a log file, which does not change when the application ends."""
    return path.rpartition("/")[2].removesuffix(IN_PROGRESS)


def _compacted_since(file: EventLogFile, path: str) -> bool:
    """Whether the file is a compacted copy, and the position was taken in the file that the copy replaced."""
    return file.path.name.endswith(".compact") and not path.endswith(".compact")


def record_event_logs(
    store: MapStore, paths: Iterable[str | Path], progress: ReportProgress | None = None
) -> list[LogResult]:
    """Read the event logs at `paths` (files, rolling folders, folders of either) into the business `spark` of the store.

    Logs of finished and running applications are read as far as they are written. A second run reads on; it does not open a
    log again that was read to its end. A damaged line is recorded under the application's `damage` keys. A log that cannot be
    read to its end has a `problem`, and the other logs are read all the same. A log that has just begun, and a file in a folder
    that is no event log, are `skipped`.
    """
    logs = find_logs(paths)
    records = store.map(BUSINESS)
    complete_index(records, node_of_mark(store))
    total, done, results = sum(log.size() for log in logs), 0, []
    for log in logs:
        size = log.size()

        def report(read: int, before: int = done, name: str = log.path.name) -> None:
            if progress is not None:
                progress(before + read, total, name)

        report(0)
        results.append(_record_log(records, log, report))
        done += size
        report(0, done)
    return results


def _record_log(records: RecordMap, log: Log, report: Callable[[int], None]) -> LogResult:
    try:
        identity = identify(log)
    except NotAnEventLog as error:
        reason = str(error)
        return LogResult(log.path, "", "", 0, 0, False, *(("", reason) if log.listed else (reason, "")))
    except ConfigError as error:
        return LogResult(log.path, "", "", 0, 0, False, str(error))
    if identity is None:
        return LogResult(log.path, "", "", 0, 0, False, skipped="the log does not name its application yet")
    reader = LogReader(records, log, identity)
    try:
        if not reader.projection.position.complete or log.in_progress() or not was_read(reader, log):
            reader.advance(report)
        return result_of(reader, log, identity, complete=reader.projection.position.complete)
    finally:
        reader.close()


def was_read(reader: LogReader, log: Log) -> bool:
    """Whether the reader's position was taken in this log, and not in another log of the same application."""
    path = reader.projection.position.path.removesuffix(IN_PROGRESS)
    return any(path == str(file.path).removesuffix(IN_PROGRESS) for file in log.files())


def result_of(reader: LogReader, log: Log, identity: ApplicationIdentity, *, complete: bool) -> LogResult:
    """The result of a reader after its `advance`."""
    return LogResult(
        log.path, reader.projection.prefix, identity.name, reader.events, reader.damaged, complete, reader.problem
    )
