"""The event logs of Spark on this machine: which files are logs, the order of their files, and the application of each.

A log is one file (`<app>[_<attempt>][.<codec>][.inprogress]`), or a folder `eventlog_v2_<app>…` of rolled files
`events_<n>_<app>…`. The history server may merge the first k of them into `events_<k>_<app>….compact`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.events.application import ApplicationStart, EnvironmentUpdate, LogStart
from kvwal.spark.events.parser import DamagedLine, parse_line

_ROLLED_FILE = re.compile(r"events_([0-9]+)_.*?(\.compact)?")
_FOLDER_PREFIX = "eventlog_v2_"
_FIRST_LINES = 2_000
_EVENT = b'{"Event"'
"""The beginning of every line that Spark writes."""


class EventLogFile(NamedTuple):
    """One file of a log. `roll` is its number, 0 for a log of one file. `covers` is the lowest roll whose events it may hold."""

    roll: int
    path: Path
    covers: int


class NotAnEventLog(ConfigError):
    """A file is no event log of Spark."""


class EventLog(NamedTuple):
    """An application's event log: a file or a folder of rolled files. `listed`: it was found in a folder, not named."""

    path: Path
    listed: bool = False

    @property
    def rolling(self) -> bool:
        """Whether the log is a folder of rolled files."""
        return self.path.name.startswith(_FOLDER_PREFIX)

    def files(self) -> list[EventLogFile]:
        """The files of the log in order, without those that a compacted file replaces. Empty if the log is gone."""
        if not self.rolling:
            path = self._present_path()
            return [EventLogFile(0, path, 0)] if path else []
        rolls = [
            (int(match[1]), bool(match[2]), path)
            for path in self._folder()
            if (match := _ROLLED_FILE.fullmatch(path.name))
        ]
        compacted = max((roll for roll, compact, _ in rolls if compact), default=-1)
        return sorted(
            EventLogFile(roll, path, 0 if compact else roll)
            for roll, compact, path in rolls
            if roll > compacted or (roll == compacted and compact)
        )

    def in_progress(self) -> bool:
        """Whether Spark marks the log as still being written. The mark of a killed driver stays."""
        if self.rolling:
            return any(
                path.name.startswith("appstatus_") and path.name.endswith(".inprogress") for path in self._folder()
            )
        return self.path.name.endswith(".inprogress") and self.path.exists()

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(_size(file.path) for file in self.files())

    def _folder(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir())
        except FileNotFoundError:
            return []

    def _present_path(self) -> Path | None:
        """The file under its present name: Spark drops `.inprogress` when the application ends."""
        finished = self.path.with_name(self.path.name.removesuffix(".inprogress"))
        return next((path for path in (self.path, finished) if path.exists()), None)


class ApplicationIdentity(NamedTuple):
    """The id of an application, its attempt (empty if the cluster manager counts none) and its name."""

    app: str
    attempt: str
    name: str


def find_logs(paths: Iterable[str | Path]) -> list[EventLog]:
    """The logs at the given files and folders. Raises `ConfigError` for a path that is missing or holds no log."""
    logs: dict[Path, EventLog] = {}
    for given in paths:
        path = Path(str(given).removeprefix("file://"))
        if not path.exists():
            raise ConfigError(
                f"There is no event log at {given}.", hint="Name a log file, or a folder of logs, on this machine."
            )
        is_log = path.is_file() or path.name.startswith(_FOLDER_PREFIX)
        logs_at_path = [EventLog(path)] if is_log else list(_in_folder(path))
        if not logs_at_path:
            raise ConfigError(
                f"{given} holds no event log.",
                hint="Spark writes event logs to spark.eventLog.dir if spark.eventLog.enabled is true.",
            )
        logs.update({log.path.absolute(): log for log in logs_at_path})
    return list(logs.values())


def _in_folder(folder: Path) -> Iterator[EventLog]:
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_", "appstatus_"))
        if (path.is_dir() and path.name.startswith(_FOLDER_PREFIX)) or (path.is_file() and not hidden):
            yield EventLog(path, listed=True)


def identify(log: EventLog) -> ApplicationIdentity | None:
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


def settings_of(log: EventLog) -> dict[str, str]:
    """Spark's settings from the first lines of the log; empty if they are not there, or cannot be read."""
    with suppress(ConfigError):
        for _, batch in _first_lines(log):
            for line in batch:
                if b'"SparkListenerEnvironmentUpdate"' in line and (settings := _settings_in(line)) is not None:
                    return settings
    return {}


def _first_lines(log: EventLog) -> Iterator[tuple[Path, list[bytes]]]:
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


def _identity_in(path: Path, batch: list[bytes]) -> ApplicationIdentity | None:
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
            name = path.name.removesuffix(".inprogress")
            return ApplicationIdentity(event.app_id or name, event.attempt or "", event.app_name)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
