"""The event logs of Spark: those that a caller names, and the application of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.folders import HERE, is_remote, logs_at, open_folder
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.listing import (
    IN_PROGRESS,
    ROLLING_PREFIX,
    EventLogFile,
    Log,
    LogFile,
    in_order,
    is_in_progress,
)
from kvwal.spark.events.application import ApplicationStart, EnvironmentUpdate, LogStart
from kvwal.spark.events.parser import DamagedLine, parse_line

_FIRST_LINES = 2_000
_EVENT = b'{"Event"'
"""The beginning of every line that Spark writes."""


class NotAnEventLog(ConfigError):
    """A file is no event log of Spark."""


class EventLog(NamedTuple):
    """An event log on this machine (see `listing.Log`). Each method looks at the disk."""

    path: Path
    listed: bool = False

    @property
    def rolling(self) -> bool:
        """Whether the log is a folder of rolled files."""
        return self.path.name.startswith(ROLLING_PREFIX)

    def files(self) -> list[EventLogFile]:
        """See `Log.files`."""
        if not self.rolling:
            path = self._present_path()
            return [EventLogFile(0, path, 0)] if path else []
        return in_order(self._folder())

    def in_progress(self) -> bool:
        """See `Log.in_progress`."""
        if self.rolling:
            return is_in_progress(path.name for path in self._folder())
        return self.path.name.endswith(IN_PROGRESS) and self.path.exists()

    def size(self) -> int:
        """Bytes on the disk."""
        folder = self.path if self.rolling else self.path.parent
        return sum(_size(folder / file.path.name) for file in self.files())

    def _folder(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir())
        except FileNotFoundError:
            return []

    def _present_path(self) -> Path | None:
        """The file under its present name: Spark drops `.inprogress` when the application ends."""
        finished = self.path.with_name(self.path.name.removesuffix(IN_PROGRESS))
        return next((path for path in (self.path, finished) if path.exists()), None)


class ApplicationIdentity(NamedTuple):
    """The id of an application, its attempt (empty if the cluster manager counts none) and its name."""

    app: str
    attempt: str
    name: str


def find_logs(paths: Iterable[str | Path]) -> list[Log]:
    """The logs at the given files, folders and URLs. Raises `ConfigError` for a place that is missing or holds no log."""
    logs: dict[str, Log] = {}
    for given in paths:
        logs_at_path = list(_logs_at(str(given)))
        if not logs_at_path:
            raise ConfigError(
                f"{given} holds no event log.",
                hint="Spark writes event logs to spark.eventLog.dir if spark.eventLog.enabled is true.",
            )
        logs.update({str(log.path.absolute() if isinstance(log, EventLog) else log.path): log for log in logs_at_path})
    return list(logs.values())


def _logs_at(given: str) -> Iterable[Log]:
    folder = open_folder(given)
    if is_remote(given):
        return logs_at(folder)
    path = Path(folder.url)
    if not path.exists():
        raise ConfigError(f"There is no event log at {given}.", hint=HERE)
    is_log = path.is_file() or path.name.startswith(ROLLING_PREFIX)
    return [EventLog(path)] if is_log else _in_folder(path)


def _in_folder(folder: Path) -> Iterator[EventLog]:
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_", "appstatus_"))
        if (path.is_dir() and path.name.startswith(ROLLING_PREFIX)) or (path.is_file() and not hidden):
            yield EventLog(path, listed=True)


def identify(log: Log) -> ApplicationIdentity | None:
    """The application of a log; None if the log does not say it yet.

    `NotAnEventLog` for a file that is none, `ConfigError` for one that is damaged before it names its application.
    """
    read = 0
    for path, batch in _first_lines(log):
        read += len(batch)
        if identity := _identity_in(path, batch):
            return identity
    if read >= _FIRST_LINES:
        raise NotAnEventLog(
            f"{log.path} names no application in its first {_FIRST_LINES} lines.", hint="Is it an event log of Spark?"
        )
    return None


def settings_of(log: Log) -> dict[str, str]:
    """Spark's settings from the first lines of the log; empty if they are not there, or cannot be read."""
    with suppress(ConfigError):
        for _, batch in _first_lines(log):
            for line in batch:
                if b'"SparkListenerEnvironmentUpdate"' in line and (settings := _settings_in(line)) is not None:
                    return settings
    return {}


def _first_lines(log: Log) -> Iterator[tuple[LogFile, list[bytes]]]:
    """The first lines of a log, about `_FIRST_LINES`, each batch with its file. A line without an end counts, too.

    `ConfigError`, which names the file, for compressed bytes that are damaged.
    """
    read = 0
    for file in log.files():
        with closing(Lines(file.path)) as lines:
            try:
                while read < _FIRST_LINES and (batch := lines.more()) is not None:
                    read += len(batch)
                    yield file.path, batch
            except DamagedFile as error:
                raise ConfigError(f"{file.path}: {error}") from error
            if read < _FIRST_LINES and (rest := lines.unfinished()):
                yield file.path, [rest]


def _settings_in(line: bytes) -> dict[str, str] | None:
    try:
        event = parse_line(line)
    except DamagedLine:
        return None
    return event.spark_properties if isinstance(event, EnvironmentUpdate) else None


def _identity_in(path: LogFile, batch: list[bytes]) -> ApplicationIdentity | None:
    is_event_log = False
    for line in batch:
        try:
            event = parse_line(line)
        except DamagedLine:
            # A log that has just begun may have a part of its first line only.
            if not is_event_log and line[: len(_EVENT)] != _EVENT[: len(line)]:
                raise NotAnEventLog(f"{path} is no event log of Spark: it begins with {line[:60]!r}.") from None
            continue
        is_event_log = is_event_log or isinstance(event, LogStart)
        if isinstance(event, ApplicationStart):
            name = path.name.removesuffix(IN_PROGRESS)
            return ApplicationIdentity(event.app_id or name, event.attempt or "", event.app_name)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
