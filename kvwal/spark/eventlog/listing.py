"""A listing of a folder of event logs, and the logs in it. One listing tells of all logs, so no log is asked for by itself.

A log is one file (`<app>[_<attempt>][.<codec>][.inprogress]`), or a folder `eventlog_v2_<app>…` of rolled files
`events_<n>_<app>…`. The history server may merge the first k of them into `events_<k>_<app>….compact`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import BinaryIO, Literal, NamedTuple, Protocol

_ROLLED_FILE = re.compile(r"events_([0-9]+)_.*?(\.compact)?")
ROLLING_PREFIX = "eventlog_v2_"
IN_PROGRESS = ".inprogress"
_STATUS = "appstatus_"
_NO_LOGS = (".", "_", _STATUS)


class LogFile(Protocol):
    """A file of an event log, on this machine or behind a URL. `str` of it says where it is."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        ...

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """The file as it is now, seekable. `FileNotFoundError` if it is gone."""
        ...


class LogPath(Protocol):
    """The place of a log: a file or a folder. `str` of it is the whole path or URL."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        ...


class EventLogFile(NamedTuple):
    """One file of a log. `roll` is its number, 0 for a log of one file. `covers` is the lowest roll whose events it may hold."""

    roll: int
    path: LogFile
    covers: int


class Log(Protocol):
    """An application's event log: a file or a folder of rolled files. `listed`: it was found in a folder, not named."""

    @property
    def path(self) -> LogPath:
        """The file or the folder."""
        ...

    @property
    def listed(self) -> bool:
        """Whether it was found in a folder."""
        ...

    def files(self) -> list[EventLogFile]:
        """The files of the log in order, without those that a compacted file replaces. Empty if the log is gone."""
        ...

    def in_progress(self) -> bool:
        """Whether Spark marks the log as still being written. The mark of a killed driver stays."""
        ...

    def size(self) -> int:
        """Bytes of its files."""
        ...


class ListedFile(NamedTuple):
    """One file of a listing. `key` is its path from the folder. `version` changes whenever the bytes of the file do."""

    key: str
    size: int
    version: str
    file: LogFile


class LogFolder(Protocol):
    """The port to a folder of event logs."""

    @property
    def url(self) -> str:
        """The folder as it was named, without credentials."""
        ...

    def list(self) -> list[ListedFile]:
        """All files of event logs in the folder, by one listing.

        `EventLogsUnreachable` if a later call may succeed. `ConfigError` (behind a URL `EventLogsRefused`) if the folder is not
        there or may not be read.
        """
        ...


class ListedPath(NamedTuple):
    """The place of a log in a listing."""

    name: str
    where: str

    def __str__(self) -> str:
        return self.where


class ListedLog(NamedTuple):
    """An event log as one listing of its folder shows it. It asks for nothing again. `key` does not change with its end."""

    key: str
    path: ListedPath
    found: tuple[ListedFile, ...]
    listed: bool = True

    def files(self) -> list[EventLogFile]:
        """See `Log.files`."""
        if self.key.startswith(ROLLING_PREFIX):
            return in_order(file.file for file in self.found)
        return [EventLogFile(0, self.found[0].file, 0)]

    def in_progress(self) -> bool:
        """See `Log.in_progress`."""
        if self.key.startswith(ROLLING_PREFIX):
            return is_in_progress(file.file.name for file in self.found)
        return self.path.name.endswith(IN_PROGRESS)

    def size(self) -> int:
        """See `Log.size`."""
        return sum(file.size for file in self.found)

    @property
    def place(self) -> str:
        """Where the log is: its path or URL, which does not change when the application ends."""
        return str(self.path).removesuffix(IN_PROGRESS)

    def version(self) -> str:
        """A text that changes whenever the log does: its names, its sizes, its bytes."""
        told = "\n".join(f"{file.key} {file.size} {file.version}" for file in self.found)
        return f"{self.size()}-{zlib.crc32(told.encode()):08x}"


def in_order(files: Iterable[LogFile]) -> list[EventLogFile]:
    """The rolled files among these, in order, without those that a compacted file replaces."""
    rolls = [(int(match[1]), bool(match[2]), file) for file in files if (match := _ROLLED_FILE.fullmatch(file.name))]
    compacted = max((roll for roll, compact, _ in rolls if compact), default=-1)
    kept = [
        EventLogFile(roll, file, 0 if compact else roll)
        for roll, compact, file in rolls
        if roll > compacted or (roll == compacted and compact)
    ]
    return sorted(kept, key=lambda file: file.roll)


def is_in_progress(names: Iterable[str]) -> bool:
    """Whether a rolling log with files of these names is still being written."""
    return any(name.startswith(_STATUS) and name.endswith(IN_PROGRESS) for name in names)


def logs_in(url: str, files: Iterable[ListedFile]) -> list[ListedLog]:
    """The logs that a listing of the folder `url` shows, by name. `url` may also be that of the only log.

    Of a log that stands there both with `.inprogress` and without, the finished one counts.
    """
    grouped: dict[str, list[ListedFile]] = {}
    for file in sorted(files, key=lambda file: file.key):
        top, _, inner = file.key.partition("/")
        if inner:
            if top.startswith(ROLLING_PREFIX) and "/" not in inner:
                grouped.setdefault(top, []).append(file)
        elif not top.startswith(_NO_LOGS):
            grouped.setdefault(top.removesuffix(IN_PROGRESS), [file])
    return [_listed_log(url, key, tuple(found)) for key, found in grouped.items()]


def _listed_log(url: str, key: str, found: tuple[ListedFile, ...]) -> ListedLog:
    file = found[0].file
    rolling = key.startswith(ROLLING_PREFIX)
    where = str(file).rpartition("/")[0] if rolling else str(file)
    return ListedLog(key, ListedPath(key if rolling else file.name, where), found, listed=where != url)
