"""Finding event logs: which files are logs of Spark, in which order their parts come, and whose they are.

A log is one file (`<app>[_<attempt>][.<codec>][.inprogress]`), or a folder `eventlog_v2_<app>…` of rolled files
`events_<n>_<app>…`. The history server may merge the first k of them into `events_<k>_<app>….compact`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.spark.eventlog.lines import DamagedFile, Lines
from kvwal.spark.events import ApplicationStart, DamagedLine, EnvironmentUpdate, LogStart, parse_line

_ROLLED = re.compile(r"events_([0-9]+)_.*?(\.compact)?")
_FOLDER = "eventlog_v2_"
_LOOKED_AT = 2_000


class Part(NamedTuple):
    """A file of a log. `roll` is its number, 0 for a log of one file. `covers` is the lowest roll whose events it may hold."""

    roll: int
    path: Path
    covers: int


class Log(NamedTuple):
    """An application's event log: a file or a folder of rolled files."""

    path: Path

    @property
    def rolling(self) -> bool:
        """Whether it is a folder."""
        return self.path.name.startswith(_FOLDER)

    def parts(self) -> list[Part]:
        """Its files in order; those that a compacted one replaces are left out. Empty if the log is gone."""
        if not self.rolling:
            path = self._renamed()
            return [Part(0, path, 0)] if path else []
        found = [
            (int(match[1]), bool(match[2]), path) for path in self._folder() if (match := _ROLLED.fullmatch(path.name))
        ]
        compacted = max((roll for roll, compact, _ in found if compact), default=-1)
        return sorted(
            Part(roll, path, 0 if compact else roll)
            for roll, compact, path in found
            if roll > compacted or (roll == compacted and compact)
        )

    def running(self) -> bool:
        """Whether Spark still says that it writes here (a driver that was killed says so for ever)."""
        if self.rolling:
            return any(
                path.name.startswith("appstatus_") and path.name.endswith(".inprogress") for path in self._folder()
            )
        return self.path.name.endswith(".inprogress") and self.path.exists()

    def size(self) -> int:
        """Bytes on the disk."""
        return sum(_size(part.path) for part in self.parts())

    def _folder(self) -> list[Path]:
        try:
            return sorted(self.path.iterdir())
        except FileNotFoundError:
            return []

    def _renamed(self) -> Path | None:
        """The file, under the name it has now: Spark drops `.inprogress` when the application ends."""
        finished = self.path.with_name(self.path.name.removesuffix(".inprogress"))
        return next((path for path in (self.path, finished) if path.exists()), None)


class Identity(NamedTuple):
    """Whose log it is."""

    app: str
    attempt: str
    name: str


def find_logs(paths: Iterable[str | Path]) -> list[Log]:
    """The logs at the given files and folders. A path that is not there, or holds no log, is a `ConfigError`."""
    logs: dict[Path, Log] = {}
    for given in paths:
        path = Path(str(given).removeprefix("file://"))
        if not path.exists():
            raise ConfigError(
                f"There is no event log at {given}.", hint="Name a log file, or a folder of logs, on this machine."
            )
        found = [Log(path)] if path.is_file() or path.name.startswith(_FOLDER) else list(_in_folder(path))
        if not found:
            raise ConfigError(
                f"{given} holds no event log.",
                hint="Spark writes them to spark.eventLog.dir, with spark.eventLog.enabled=true.",
            )
        logs.update({log.path.absolute(): log for log in found})
    return list(logs.values())


def _in_folder(folder: Path) -> Iterator[Log]:
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith((".", "_", "appstatus_"))
        if (path.is_dir() and path.name.startswith(_FOLDER)) or (path.is_file() and not hidden):
            yield Log(path)


def identify(log: Log) -> Identity | None:
    """Whose log it is, or None where it is not written yet. A file that is no event log is a `ConfigError`."""
    looked_at = 0
    for part in log.parts():
        lines = Lines(part.path)
        try:
            while (batch := lines.more()) is not None and looked_at < _LOOKED_AT:
                looked_at += len(batch)
                found = _identity_in(part.path, batch)
                if found:
                    return found
        except DamagedFile as error:
            raise ConfigError(f"{part.path}: {error}") from error
        finally:
            lines.close()
    if looked_at >= _LOOKED_AT:
        raise ConfigError(
            f"{log.path} names no application in its first {_LOOKED_AT} lines.", hint="Is it an event log of Spark?"
        )
    return None


def settings_of(log: Log) -> dict[str, str]:
    """Spark's settings as the log has them; empty where it does not say them in its first lines, or cannot be read."""
    looked_at = 0
    for part in log.parts():
        lines = Lines(part.path)
        try:
            while (batch := lines.more()) is not None and looked_at < _LOOKED_AT:
                looked_at += len(batch)
                for line in batch:
                    if b'"SparkListenerEnvironmentUpdate"' in line and (found := _settings_in(line)) is not None:
                        return found
        except DamagedFile:
            return {}
        finally:
            lines.close()
    return {}


def _settings_in(line: bytes) -> dict[str, str] | None:
    try:
        event = parse_line(line)
    except DamagedLine:
        return None
    return event.spark_properties if isinstance(event, EnvironmentUpdate) else None


def _identity_in(path: Path, batch: list[bytes]) -> Identity | None:
    known = False
    for line in batch:
        try:
            event = parse_line(line)
        except DamagedLine:
            if not known and not line.startswith(b'{"Event"'):
                raise ConfigError(f"{path} is no event log of Spark: it begins with {line[:60]!r}.") from None
            continue
        known = known or isinstance(event, LogStart)
        if isinstance(event, ApplicationStart):
            name = path.name.removesuffix(".inprogress")
            return Identity(event.app_id or name, event.attempt or "", event.app_name)
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
