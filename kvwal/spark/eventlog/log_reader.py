"""The reader of event logs: lines in, records in a store out. Each event counts once, also after a reader was killed.

One transaction puts the changed records together with the position: the file, and the number of its lines that were read. The
position counts lines and not bytes, because Spark renames and compacts its files. So the next reader goes on after the last
transaction.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kvwal.log.files.names import RECORDS
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.listing import IN_PROGRESS, EventLog, EventLogFile, LogPath, before_gap
from kvwal.spark.eventlog.logs import ApplicationIdentity, identify, missing_roll, settings_of
from kvwal.spark.eventlog.runs import RecordMap, RunRecords
from kvwal.spark.events.parser import DamagedLine, parse_line
from kvwal.spark.index import index_entries, withdrawn_failures
from kvwal.spark.projection.projection import Projection
from kvwal.spark.record_keys import app_prefix
from kvwal.spark.records import Damage, cut
from kvwal.spark.redaction import Redaction

BUSINESS = RECORDS
EVENT_LOG = "log"
"""The last part of the key of the position in an application's event log."""
MAX_PENDING = 1 << 20
MAX_BYTES = 16 << 20

ReportProgress = Callable[[int, int, str], None]
"""Called with the bytes read, the bytes in total, and the name of the log being read."""


class WrittenAnew(Exception):
    """Another log was written in place of the one that a reader was reading."""


class MapStore(Protocol):
    """The methods of a store that a reader needs."""

    def map(self, name: str, /) -> Any:
        """The map of a business."""
        ...


class LogResult(NamedTuple):
    """The result of reading one log. `events` and `damaged` count the lines of this run.

    `problem` says why it stopped early. `skipped` says why nothing was read although nothing is wrong: the log has just begun, it
    is of an earlier run than the recorded one, or a folder holds a file that is no event log. `is_log` is False for a file that
    is none. `replaced` is when the earlier run of the application started whose records this log replaced (0: none was).
    `kept` is the name of the kept log, and `not_kept` says why it was not kept, or what of it. Both are empty if none is kept.
    """

    path: LogPath
    app: str
    name: str
    events: int
    damaged: int
    complete: bool
    problem: str = ""
    skipped: str = ""
    is_log: bool = True
    replaced: int = 0
    kept: str = ""
    not_kept: str = ""


class LogReader:
    """A reader of one log into a map. Each `advance` reads the log as far as it is written."""

    def __init__(
        self,
        records: RecordMap,
        log: EventLog,
        identity: ApplicationIdentity,
        *,
        position: str = EVENT_LOG,
        anew: bool = False,
    ) -> None:
        """`EarlierRun` if a later run of the application is recorded. The records of an earlier one are replaced. With `anew`
        those of this run are, too, and the log is read from its start.
        """
        self.identity = identity
        self._records = RunRecords(records, identity, log.path, anew=anew)
        self.projection = Projection(app_prefix(identity.app, identity.attempt), self._records.get, log=position)
        known = self.projection.position
        known.started = identity.started or known.started
        self.replaced = self._records.replaced
        """When the earlier run started whose records this log replaces; 0 if there is none."""
        self.events = 0
        self.damaged = 0
        self.bytes = 0
        """Bytes of lines, decompressed, that were read so far."""
        self.puts_metrics = True
        """Whether `advance` puts the metrics of stages that run. Else they wait in the position (see `Projection.take`)."""
        self._log, self._started = log, identity.started
        self._has_every_roll = position == EVENT_LOG  # a recorder deletes the rolls of its spool that were read
        self._missing_roll = 0
        self._damage = ""
        self._file: EventLogFile | None = None
        self._lines: Lines | None = None
        self._line_number = 0
        self._lines_to_skip = 0
        self._last_line: bytes | None = None
        self._restart = (0, 0)
        self._damaged_file = False
        self._unsaved_bytes = 0
        self._unsaved_lines = 0

    @property
    def problem(self) -> str:
        """Why the log was not read to its end: a sentence. Empty if it was, and as long as it grows."""
        if self._missing_roll:
            return missing_roll(self._log, self._missing_roll)
        return self._damage

    def advance(self, progress: Callable[[int], None] = lambda done: None, log: EventLog | None = None) -> int:
        """Read and store the lines written since the last call. Returns their number.

        `progress` is called with the bytes of the log read so far. `log` is the same log as a newer listing shows it. An error
        of the store passes through and ends the use of this reader: a new reader goes on after the last transaction. So does
        `WrittenAnew`: the log may be that of another application now.
        """
        if log is not None:
            self._move_to(log)
        before, done, in_progress, size = self.events, 0, True, 0
        while True:
            # All are asked before the lines are read, so a log or file that is finished by now is read to its end.
            in_progress_now, size, files = self._log.in_progress(), self._log.size(), self._files()
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
        self._save(size=0 if in_progress or self.problem else size, metrics=self.puts_metrics)
        return self.events - before

    def close(self) -> None:
        """Close the open file. `advance` with a newer listing of the log opens it again where it was read to."""
        if self._lines is not None:
            self._lines.close()

    def _move_to(self, log: EventLog) -> None:
        """Go on in the open file under its present name."""
        self._log = log
        if self._file is None or self._lines is None:
            return
        before, files = self._file, log.files()
        now = next((file for file in files if (file.roll, file.covers) == (before.roll, before.covers)), None)
        if now is None and any(file.covers <= before.roll <= file.roll for file in files):  # compacted
            found = identify(log)
            if found is not None and found.started != self._started:
                raise WrittenAnew
            self.close()
            self._file = self._lines = None
        elif now is None or not self._lines.move_to(now.path):
            raise WrittenAnew
        else:
            self._file = now

    def _files(self) -> list[EventLogFile]:
        """The files of the log up to the first roll that is missing."""
        files = self._log.files()
        if self._has_every_roll:
            read = self._file.roll if self._file is not None else self.projection.position.roll
            files, self._missing_roll = before_gap(files, read)
        return files

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
            self._damage = f"{self._file.path}, after line {self._line_number}: {error}"
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

    def _save(self, size: int = 0, *, metrics: bool = False) -> None:
        """Put the changed records and the position in one transaction. `size`: the bytes of a log that was read to its end."""
        position = self.projection.position
        moved = bool(size and size != position.size) or self._missing_roll != position.missing_roll
        moved |= metrics and self.projection.has_waiting_metrics
        if self._file is None or not (self._unsaved_lines or self.projection.pending or moved):
            return
        position.complete, position.size, position.missing_roll = bool(size), size, self._missing_roll
        if self._last_line is not None:
            position.event_crc = zlib.crc32(self._last_line)
        position.offset_event, position.offset = self._restart
        self.projection.moved(self._file.roll, self._line_number, self._unsaved_lines, str(self._file.path))
        changed, dropped = self.projection.take(metrics=metrics), self.projection.take_dropped()
        dropped += withdrawn_failures(changed)
        changed |= index_entries(changed)
        self._records.put(changed, dropped)
        self._unsaved_bytes = self._unsaved_lines = 0


def _name(path: str) -> str:
    """The name of a log file, which does not change when the application ends."""
    return path.rpartition("/")[2].removesuffix(IN_PROGRESS)


def _compacted_since(file: EventLogFile, path: str) -> bool:
    """Whether the file is a compacted copy, and the position was taken in the file that the copy replaced."""
    return file.path.name.endswith(".compact") and not path.endswith(".compact")


def has_more(reader: LogReader, log: EventLog) -> bool:
    """Whether a log may have lines that the reader's position does not cover.

    It has none if the position was taken at the end of this log, and not in another log of the same application. A log that was
    finished may grow: its copy arrives in pieces. A log with `.inprogress` that still stands beside the finished one of the same
    run is older than that.
    """
    position, files = reader.projection.position, [str(file.path) for file in log.files()]
    if position.complete and f"{position.path}{IN_PROGRESS}" in files:
        return False
    if not position.complete or position.size not in (0, log.size()) or log.in_progress():
        return True
    path = position.path.removesuffix(IN_PROGRESS)
    return not any(path == file.removesuffix(IN_PROGRESS) for file in files)


def result_of(reader: LogReader, log: EventLog, identity: ApplicationIdentity, *, complete: bool) -> LogResult:
    """The result of a reader after its `advance`."""
    return LogResult(
        log.path, reader.projection.prefix, identity.name, reader.events, reader.damaged, complete, reader.problem,
        replaced=reader.replaced,
    )  # fmt: skip
