"""Finding Spark event logs at given paths, and identifying the application of each log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.file_kinds import READ, told_kind
from kvwal.spark.eventlog.folders import HERE, is_remote, logs_at, open_folder
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.eventlog.listing import (
    IN_PROGRESS,
    NO_LOGS,
    OPEN_ROLL,
    ROLLING_PREFIX,
    EventLog,
    EventLogFile,
    ReadableFile,
    databricks_rolls,
    in_order,
    is_in_progress,
    is_of_databricks,
)
from kvwal.spark.events.application import ApplicationStart, EnvironmentUpdate, LogStart
from kvwal.spark.events.parser import DamagedLine, parse_line

_FIRST_LINES = 2_000
"""Lines in which an application must be named, over all rolls."""
_EVENT = b'{"Event"'
"""The beginning of every line that Spark writes."""


class NotAnEventLog(ConfigError):
    """A file is no event log of Spark."""


class LocalEventLog(NamedTuple):
    """An event log on this machine (see `listing.EventLog`). Each method looks at the disk."""

    path: Path
    listed: bool = False

    @property
    def rolling(self) -> bool:
        """Whether the log is a folder of rolled files."""
        return self.path.name.startswith(ROLLING_PREFIX)

    def files(self) -> list[EventLogFile]:
        """See `EventLog.files`."""
        if self.rolling:
            return in_order(self._paths())
        if self._is_of_databricks:
            return databricks_rolls(path for path in self._paths() if is_of_databricks(path.name) and path.is_file())
        path = self._present_path()
        return [EventLogFile(0, path, 0)] if path else []

    def in_progress(self) -> bool:
        """See `EventLog.in_progress`."""
        if self.rolling:
            return is_in_progress(path.name for path in self._paths())
        if self._is_of_databricks:
            return (self._folder / OPEN_ROLL).exists()
        return self.path.name.endswith(IN_PROGRESS) and self.path.exists()

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(_size(self._folder / file.path.name) for file in self.files())

    def is_nested(self) -> bool:
        """See `EventLog.is_nested`."""
        return self.path.is_dir() and not self.rolling and not self.files()

    @property
    def _is_of_databricks(self) -> bool:
        return self.path.name == OPEN_ROLL or self.path.is_dir()

    @property
    def _folder(self) -> Path:
        """The folder of the files."""
        return self.path if self.rolling or self.path.is_dir() else self.path.parent

    def _paths(self) -> list[Path]:
        try:
            return sorted(self._folder.iterdir())
        except (FileNotFoundError, PermissionError):
            return []

    def _present_path(self) -> Path | None:
        """The file under its present name: Spark drops `.inprogress` when the application ends."""
        finished = self.path.with_name(self.path.name.removesuffix(IN_PROGRESS))
        return next((path for path in (self.path, finished) if path.exists()), None)


class ApplicationIdentity(NamedTuple):
    """The id of an application, its attempt (empty if the cluster manager counts none) and its name.

    `started` is when this run of it started, in Unix milliseconds (0: not known).
    """

    app: str
    attempt: str
    name: str
    started: int = 0


def find_logs(paths: Iterable[str | Path]) -> list[EventLog]:
    """The logs at the given files, folders and URLs. Raises `ConfigError` for a place that is missing or holds no log.

    A nested folder is returned too, so that the caller can report it as skipped; a nested folder that was given itself is left
    out.
    """
    logs: dict[str, EventLog] = {}
    given_paths = [str(given) for given in paths]
    for given in given_paths:
        logs_at_path = list(_logs_at(given))
        if not logs_at_path:
            raise ConfigError(
                f"{given} holds no event log.",
                hint="Spark writes event logs to spark.eventLog.dir if spark.eventLog.enabled is true.",
            )
        if all(log.is_nested() for log in logs_at_path):
            raise ConfigError(
                f"{given} holds no event log, but folders: kvwal does not look into them.",
                hint=f"Name one of them: kvwal record LOCATION {logs_at_path[0].path}",
            )
        logs.update(
            {str(log.path.absolute() if isinstance(log, LocalEventLog) else log.path): log for log in logs_at_path}
        )
    named = {given.rstrip("/") if is_remote(given) else str(Path(given).absolute()) for given in given_paths}
    return [log for place, log in logs.items() if not (place in named and log.is_nested())]


def _logs_at(given: str) -> Iterable[EventLog]:
    folder = open_folder(given)
    if is_remote(given):
        return logs_at(folder)
    path = Path(folder.url)
    if not path.exists():
        raise ConfigError(f"There is no event log at {given}.", hint=HERE)
    is_log = path.is_file() or path.name.startswith(ROLLING_PREFIX)
    return [LocalEventLog(path)] if is_log else _in_folder(path)


def _in_folder(folder: Path) -> Iterator[LocalEventLog]:
    paths = [path for path in sorted(folder.iterdir()) if not path.name.startswith(NO_LOGS)]
    for path in paths:
        if path.is_dir():
            if not _is_empty(path):
                yield LocalEventLog(path, listed=True)
        elif path.is_file() and not is_of_databricks(path.name):
            yield LocalEventLog(path, listed=True)
    if any(path.is_file() and is_of_databricks(path.name) for path in paths):
        yield LocalEventLog(folder / OPEN_ROLL, listed=True)


def _is_empty(folder: Path) -> bool:
    try:
        return not any(folder.iterdir())
    except PermissionError:  # the lost+found of a disk
        return False
    except FileNotFoundError:
        return True


def identify(log: EventLog) -> ApplicationIdentity | None:
    """The application of a log; None if the log does not say it yet.

    `NotAnEventLog` for a file that is not an event log, and for a nested folder. `ConfigError` for a log that is damaged before
    it names its application, or that lacks its first roll.
    """
    if log.is_nested():
        raise NotAnEventLog(
            f"{log.path} is a folder in a folder of event logs, and is not read.",
            hint=f"Read it by itself: kvwal record LOCATION {log.path}",
        )
    files = log.files()
    if files and files[0].covers > 1:
        raise ConfigError(missing_roll(log, 1), hint="The application has its name there.")
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


def missing_roll(log: EventLog, roll: int) -> str:
    """The error sentence for a log with a missing roll."""
    return (
        f"{log.path}: roll {roll} is missing (events_{roll}_…), so later rolls are not read."
        " They are read when it is there."
    )


def settings_of(log: EventLog) -> dict[str, str]:
    """Spark's settings from the first lines of the log; empty if they are not there, or cannot be read."""
    with suppress(ConfigError):
        for _, batch in _first_lines(log):
            for line in batch:
                if b'"SparkListenerEnvironmentUpdate"' in line and (settings := _settings_in(line)) is not None:
                    return settings
    return {}


def _first_lines(log: EventLog) -> Iterator[tuple[ReadableFile, list[bytes]]]:
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


def _identity_in(path: ReadableFile, batch: list[bytes]) -> ApplicationIdentity | None:
    is_event_log = False
    for line in batch:
        try:
            event = parse_line(line)
        except DamagedLine:
            # A log that has just begun may have a part of its first line only.
            if not is_event_log and line[: len(_EVENT)] != _EVENT[: len(line)]:
                if kind := told_kind(line):
                    raise NotAnEventLog(f"{path} {kind}, and is not read.", hint=READ) from None
                raise NotAnEventLog(f"{path} is no event log of Spark: it begins with {line[:60]!r}.") from None
            continue
        is_event_log = is_event_log or isinstance(event, LogStart)
        if isinstance(event, ApplicationStart):
            name = path.name.removesuffix(IN_PROGRESS)
            return ApplicationIdentity(event.app_id or name, event.attempt or "", event.app_name, event.timestamp)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
