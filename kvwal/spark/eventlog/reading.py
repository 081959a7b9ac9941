"""Event logs into the store: read on from where the last transaction stopped, so that each event counts once.

The position (file and number of lines, because Spark renames and compacts its files) is put in the same transaction as the
records that those lines changed. Whatever is killed when, the next reader goes on behind the last transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.logs import Identity, Log, Part, find_logs, identify, settings_of
from kvwal.spark.events import DamagedLine, parse_line
from kvwal.spark.projection import Projection
from kvwal.spark.records import Damage, app_prefix, cut
from kvwal.spark.redaction import Redaction

BUSINESS = "spark"
MAX_PENDING = 1 << 20
MAX_BYTES = 16 << 20

Progress = Callable[[int, int, str], None]
"""Called with bytes done, bytes in all, and the log being read."""


class Records(Protocol):
    """What is needed of a map."""

    def get(self, key: str, default: Any = None, /) -> Any:
        """The value of a key."""
        ...

    def put_many(self, entries: dict[str, Any], /) -> Any:
        """Put all in one transaction, and return when it is durable."""
        ...


class Store(Protocol):
    """What is needed of a store."""

    def map(self, name: str, /) -> Any:
        """The map of a business."""
        ...


class Read(NamedTuple):
    """What became of one log. `events` and `damaged` are what this run read; `problem` is why it stopped early, if it did."""

    path: Path
    app: str
    name: str
    events: int
    damaged: int
    complete: bool
    problem: str = ""


class LogReader:
    """Reads one log into a map, as far as it is written, whenever `advance` is called."""

    def __init__(self, records: Records, log: Log, identity: Identity, *, position: str = "log") -> None:
        self.projection = Projection(app_prefix(identity.app, identity.attempt), records.get, log=position)
        self.events = 0
        self.damaged = 0
        self.problem = ""
        self._records = records
        self._log = log
        self._part: Part | None = None
        self._lines: Lines | None = None
        self._number = 0
        self._unsaved = 0
        self._since = 0
        self._skip = 0
        self._broken = False

    def advance(self, progress: Callable[[int], None] = lambda done: None) -> int:
        """Read and store what was written since the last call; returns the number of lines.

        `progress` is called with the bytes read of the log. Errors of the store pass through, and then this reader is done
        with: make a new one, it goes on where the last transaction ended.
        """
        before, done, written = self.events, 0, True
        while True:
            running, parts = (
                self._log.running(),
                self._log.parts(),
            )  # asked before the reading: what is over by then is whole
            if self._part is None and not self._begin(parts):
                break
            self._read_part(lambda read, before=done: progress(before + read))  # type: ignore[misc]
            done += self._lines.tell() if self._lines else 0
            later = next((part for part in parts if self._part and part.roll > self._part.roll), None)
            if later or not running:
                self._take_unfinished()
            if later is None:
                written = running
                break
            self.close()
            self._open(later, 0)
        self._save(complete=not written and not self.problem)
        return self.events - before

    def close(self) -> None:
        """Close the file that is open."""
        if self._lines is not None:
            self._lines.close()

    def _begin(self, parts: list[Part]) -> bool:
        """Open the part where the position stands. False if there is nothing to read yet."""
        position = self.projection.position
        if position.events:  # the rules of the application stand before the place where it goes on
            self.projection.redaction = Redaction(settings_of(self._log))
        for part in parts:
            if part.covers <= position.roll <= part.roll:
                # In a compacted copy lines have other numbers: it is read whole, and events that were seen count once.
                self._open(
                    part,
                    position.event if part.roll == position.roll and not _compacted_since(part, position.path) else 0,
                )
                return True
            if part.roll > position.roll:
                self._open(part, 0)
                return True
        return False

    def _open(self, part: Part, skip: int) -> None:
        self._part, self._lines, self._number, self._skip, self._broken = part, Lines(part.path), 0, skip, False

    def _read_part(self, progress: Callable[[int], None]) -> None:
        """Everything that the open part holds by now."""
        if self._lines is None or self._part is None:
            return
        try:
            while (batch := self._lines.more()) is not None:
                self._take_lines(batch)
                self._unsaved += sum(map(len, batch))
                if self.projection.pending > MAX_PENDING or self._unsaved > MAX_BYTES:
                    self._save()
                progress(self._lines.tell())
        except DamagedFile as error:  # what comes in later files can still be read
            self._broken = True
            self.problem = f"{self._part.path}, behind line {self._number}: {error}"
            self._keep_aside(self._number + 1, str(error), b"")

    def _take_lines(self, batch: list[bytes]) -> None:
        if self._skip:
            skipped = min(self._skip, len(batch))
            self._skip -= skipped
            self._number += skipped
            batch = batch[skipped:]
        for line in batch:
            self._take_line(line)
            if self.projection.pending > MAX_PENDING:
                self._save()

    def _take_line(self, line: bytes) -> None:
        self._number += 1
        self._since += 1
        self.events += 1
        try:
            event = parse_line(line)
        except DamagedLine as error:
            self._keep_aside(self._number, str(error), line)
            return
        if event is not None:
            self.projection.apply(event, len(line))

    def _take_unfinished(self) -> None:
        """A last line without an end, in a file that nobody writes to any more: an event, or the stump of one."""
        rest = self._lines.unfinished() if self._lines is not None and not self._broken else b""
        if rest and not self._skip:
            self._take_line(rest)

    def _keep_aside(self, number: int, problem: str, line: bytes) -> None:
        self.damaged += 1
        path, roll = (str(self._part.path), self._part.roll) if self._part else ("", 0)
        self.projection.damaged(
            Damage(path=path, roll=roll, event=number, problem=cut(problem), text=cut(line.decode("utf-8", "replace")))
        )

    def _save(self, *, complete: bool = False) -> None:
        """One transaction: the records that changed, and how far the log was read."""
        position = self.projection.position
        if self._part is None or not (self._since or self.projection.pending or complete > position.complete):
            return
        position.complete = complete
        self.projection.moved(self._part.roll, self._number, self._since, str(self._part.path))
        self._records.put_many(self.projection.take())
        self._unsaved = self._since = 0


def _compacted_since(part: Part, path: str) -> bool:
    """Whether the part is a compacted copy, and the position was taken in the file that it replaced."""
    return part.path.name.endswith(".compact") and not path.endswith(".compact")


def record_event_logs(store: Store, paths: Iterable[str | Path], progress: Progress | None = None) -> list[Read]:
    """Read the event logs at `paths` (files, rolling folders, folders of either) into the business `spark` of the store.

    Finished and running applications, as far as they are written. Run again, it reads on; a log whose end was read is not
    opened again. A damaged line is kept aside under the application's `damage` keys, a log that cannot be read to its end
    says so in `problem`, and the others are read all the same.
    """
    records: Records = store.map(BUSINESS)
    logs = find_logs(paths)
    total, done, reads = sum(log.size() for log in logs), 0, []
    for log in logs:
        size = log.size()

        def tell(read: int, before: int = done, name: str = log.path.name) -> None:
            if progress is not None:
                progress(before + read, total, name)

        tell(0)
        reads.append(_record_log(records, log, tell))
        done += size
        tell(0, done)
    return reads


def _record_log(records: Records, log: Log, tell: Callable[[int], None]) -> Read:
    try:
        identity = identify(log)
    except ConfigError as error:
        return Read(log.path, "", "", 0, 0, False, str(error))
    if identity is None:
        return Read(log.path, "", "", 0, 0, False, "it does not say yet whose log it is")
    reader = LogReader(records, log, identity)
    try:
        if not reader.projection.position.complete or log.running():
            reader.advance(tell)
        complete = reader.projection.position.complete
        return Read(
            log.path, reader.projection.prefix, identity.name, reader.events, reader.damaged, complete, reader.problem
        )
    finally:
        reader.close()
