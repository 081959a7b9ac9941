"""A listing of a folder of event logs, and the logs in it. One listing tells of all logs, so no log is asked for by itself.

A log is one file (`<app>[_<attempt>][.<codec>][.inprogress]`), or a folder `eventlog_v2_<app>…` of rolled files
`events_<n>_<app>…`. The history server may merge the first k of them into `events_<k>_<app>….compact`. Databricks writes rolls
`eventlog-<date>--<time>[.gz]` beside the open file `eventlog`, in a folder for each driver, without a mark of the end.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import BinaryIO, Literal, NamedTuple, Protocol

_ROLLED_FILE = re.compile(r"events_([0-9]+)_.*?(\.compact)?")
_DATABRICKS = re.compile(r"eventlog(-[0-9]{4}-[0-9]{2}-[0-9]{2}--[0-9]{2}-[0-9]{2}(\.gz)?)?")
OPEN_ROLL = "eventlog"
"""The name of the file that Databricks writes to. A later one has it when this one is a roll."""
ROLLING_PREFIX = "eventlog_v2_"
IN_PROGRESS = ".inprogress"
_STATUS = "appstatus_"
NO_LOGS = (".", "_", _STATUS)
"""What the names of files and folders begin with that are no logs."""


class ReadableFile(Protocol):
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
    path: ReadableFile
    covers: int


class EventLog(Protocol):
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
        """Bytes of `files`."""
        ...

    def is_nested(self) -> bool:
        """Whether this is no log, but a folder within the folder of logs. Its files are not looked at."""
        ...


class ListedFile(NamedTuple):
    """One file of a listing. `key` is its path from the folder. `version` changes whenever the bytes of the file do.

    A key that ends with a slash is that of a folder whose files the listing leaves out.
    """

    key: str
    size: int
    version: str
    file: ReadableFile


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
    """An event log as one listing of its folder shows it. It asks for nothing again. `key` does not change with its end.

    Only that of a log with `.inprogress` beside the finished one of the same name has the suffix: an application is tried again,
    and Spark replaces the finished log when the new one ends.
    """

    key: str
    path: ListedPath
    found: tuple[ListedFile, ...]
    listed: bool = True

    def files(self) -> list[EventLogFile]:
        """See `EventLog.files`."""
        files = [file.file for file in self.found]
        if self.key.startswith(ROLLING_PREFIX):
            return in_order(files)
        return databricks_rolls(files) if self._is_of_databricks else [EventLogFile(0, files[0], 0)]

    def in_progress(self) -> bool:
        """See `EventLog.in_progress`."""
        if self.key.startswith(ROLLING_PREFIX):
            return is_in_progress(file.file.name for file in self.found)
        if self._is_of_databricks:
            return any(file.file.name == OPEN_ROLL for file in self.found)
        return self.path.name.endswith(IN_PROGRESS)

    def size(self) -> int:
        """See `EventLog.size`."""
        sizes = {file.file.name: file.size for file in self.found}
        return sum(sizes[file.path.name] for file in self.files())

    def is_nested(self) -> bool:
        """See `EventLog.is_nested`."""
        return not self.found

    @property
    def _is_of_databricks(self) -> bool:
        """Whether the files are those of a folder of Databricks: it is the listed folder, or one in it."""
        return self.key == OPEN_ROLL or self.key.endswith("/")

    @property
    def place(self) -> str:
        """Where the log is: its path or URL, which does not change when the application ends."""
        return str(self.path) if self.key.endswith(IN_PROGRESS) else str(self.path).removesuffix(IN_PROGRESS)

    def version(self) -> str:
        """A text that changes whenever the log does: its names, its sizes, its bytes."""
        told = "\n".join(f"{file.key} {file.size} {file.version}" for file in self.found)
        return f"{sum(file.size for file in self.found)}-{zlib.crc32(told.encode()):08x}"


def in_order(files: Iterable[ReadableFile]) -> list[EventLogFile]:
    """The rolled files among these, in order, without those that a compacted file replaces."""
    rolls = [(int(match[1]), bool(match[2]), file) for file in files if (match := _ROLLED_FILE.fullmatch(file.name))]
    compacted = max((roll for roll, compact, _ in rolls if compact), default=-1)
    kept = [
        EventLogFile(roll, file, 0 if compact else roll)
        for roll, compact, file in rolls
        if roll > compacted or (roll == compacted and compact)
    ]
    return sorted(kept, key=lambda file: file.roll)


def is_of_databricks(name: str) -> bool:
    """Whether a file of this name is one that Databricks writes."""
    return _DATABRICKS.fullmatch(name) is not None


def databricks_rolls(files: Iterable[ReadableFile]) -> list[EventLogFile]:
    """The files among these that Databricks wrote, in order, numbered from 0: so the open file keeps its number as a roll."""
    named = [file for file in files if is_of_databricks(file.name)]
    named.sort(key=lambda file: (file.name == OPEN_ROLL, file.name))
    return [EventLogFile(roll, file, roll) for roll, file in enumerate(named)]


def before_gap(files: Iterable[EventLogFile], read: int) -> tuple[list[EventLogFile], int]:
    """The files of a log, in order, up to the first roll that is missing, and its number; 0 if none is missing.

    `read` is the roll that was read last, 0 before the first. Rolls before it may have been deleted since.
    """
    kept: list[EventLogFile] = []
    following = read + 1
    for file in files:
        if file.covers > following:
            return kept, following
        kept.append(file)
        following = max(following, file.roll + 1)
    return kept, 0


def is_in_progress(names: Iterable[str]) -> bool:
    """Whether a rolling log with files of these names is still being written."""
    return any(name.startswith(_STATUS) and name.endswith(IN_PROGRESS) for name in names)


def logs_in(url: str, files: Iterable[ListedFile]) -> list[ListedLog]:
    """The logs that a listing of the folder `url` shows, by name. `url` may also be that of the only log.

    A log that stands there both with `.inprogress` and without is two: the finished one, and the one beside it. A folder in the
    folder is a log if Databricks wrote it, and else is there as one that is not read.
    """
    grouped: dict[str, list[ListedFile]] = {}
    for file in sorted(files, key=lambda file: file.key):
        top, within, inner = file.key.partition("/")
        if top.startswith(ROLLING_PREFIX) and within:
            if "/" not in inner:
                grouped.setdefault(top, []).append(file)
        elif top.startswith(NO_LOGS):
            continue
        elif within:
            rolls = grouped.setdefault(f"{top}/", [])
            if is_of_databricks(inner):
                rolls.append(file)
        elif is_of_databricks(top):
            grouped.setdefault(OPEN_ROLL, []).append(file)
        else:
            key = top.removesuffix(IN_PROGRESS)
            grouped[top if key in grouped else key] = [file]
    return [_listed_log(url, key, tuple(found)) for key, found in grouped.items()]


def _listed_log(url: str, key: str, found: tuple[ListedFile, ...]) -> ListedLog:
    if key.startswith(ROLLING_PREFIX):
        path = ListedPath(key, str(found[0].file).rpartition("/")[0])
    elif key.endswith("/"):
        path = ListedPath(key[:-1], f"{url}/{key[:-1]}")
    elif key == OPEN_ROLL and str(found[0].file) != url:
        path = ListedPath(key, f"{url}/{key}")
    else:
        path = ListedPath(found[0].file.name, str(found[0].file))
    return ListedLog(key, path, found, listed=path.where != url)
