"""Folders of event logs: on this machine, or behind a URL of any fsspec filesystem."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.history.bounded_cache import BoundedCache
from kvwal.spark.eventlog.listing import ROLLING_PREFIX, ListedFile, ListedLog, LogFolder, is_of_databricks, logs_in
from kvwal_archive.errors import ArchiveError
from kvwal_archive.faults import ObjectMissing, may_pass
from kvwal_archive.objects.locations import check_url
from kvwal_archive.objects.ranges import RangeFile
from kvwal_archive.objects.remote import RemoteObjects
from kvwal_archive.objects.typed import typed_path

READ_AHEAD = 4 << 20
"""Bytes of one request for a part of a remote file."""
_KEPT_BLOCKS = 2
"""A log is opened to see whose it is, and opened again to be read."""
_Block = tuple[str, str, int, int]
"""The key and the version of a file, and the bytes [start, end)."""
HERE = "Name a log file, or a folder of logs, on this machine, or a URL of them."


class EventLogsUnreachable(KvwalError):
    """The storage of the event logs does not answer, or cannot serve now. A later call may succeed."""

    kind = Kind.RETRY


class EventLogsRefused(ConfigError):
    """The storage of the event logs refuses until somebody changes something: a wrong key, a bucket that is not there."""


class LocalFolder:
    """A folder on this machine; or one log, which its only logs are then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = str(path)

    def list(self) -> list[ListedFile]:
        """See `LogFolder.list`."""
        name = self._path.name
        try:
            if self._path.is_file():
                found = [_listed(self._path, self._path.stat(), name)]
            elif name.startswith(ROLLING_PREFIX):
                found = list(_files(self._path, f"{name}/"))
            else:
                found = list(_files(self._path, ""))
                for folder in sorted(self._path.glob("*/")):
                    found += _in_nested(folder)
        except FileNotFoundError as error:
            raise ConfigError(f"There is no event log at {self.url}.", hint=HERE) from error
        except OSError as error:
            raise ConfigError(
                f"{self.url} cannot be read ({error.strerror}).", hint="Mend its owner and its mode."
            ) from error
        return found


def _files(folder: Path, prefix: str) -> Iterator[ListedFile]:
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.is_file():
                    yield _listed(folder / entry.name, entry.stat(), prefix + entry.name)
            except FileNotFoundError:  # renamed or deleted since the folder was listed
                continue


def _in_nested(folder: Path) -> Iterator[ListedFile]:
    """The files of a folder in the listed one, if they are rolls of a log; else the folder itself, unless it is empty."""
    if folder.name.startswith(ROLLING_PREFIX):
        yield from _files(folder, f"{folder.name}/")
        return
    try:
        names = os.listdir(folder)
    except PermissionError:  # the lost+found of a disk
        names = [""]
    except FileNotFoundError:
        return
    if any(is_of_databricks(name) and (folder / name).is_file() for name in names):
        yield from _files(folder, f"{folder.name}/")
    elif names:
        yield ListedFile(f"{folder.name}/", 0, "", folder)


def _listed(path: Path, stat: os.stat_result, key: str) -> ListedFile:
    return ListedFile(key, stat.st_size, f"{stat.st_mtime_ns}-{stat.st_ino}", path)


class RemoteFolder:
    """A folder behind a URL; or one log, which its only log is then."""

    def __init__(self, url: str) -> None:
        check_url(url)
        self._objects = RemoteObjects(url.rstrip("/"), {})
        self.url = self._objects.url
        self._blocks: BoundedCache[_Block, bytes] = BoundedCache(_KEPT_BLOCKS)

    def list(self) -> list[ListedFile]:
        """See `LogFolder.list`."""
        name = self.url.rpartition("/")[2]
        with _storage_errors():
            listing = self._objects.list("")
        found = []
        for item in listing:
            key = f"{name}/{item.key}".rstrip("/") if not item.key or name.startswith(ROLLING_PREFIX) else item.key
            version = item.etag or str(item.modified_ms)
            file = RemoteFile(self._objects, self._blocks, item.key, key.rpartition("/")[2], item.size, version)
            found.append(ListedFile(key, item.size, version, file))
        return found


class RemoteFile(NamedTuple):
    """One file behind a URL, in the version that a listing showed. `key` is empty if the URL is that of the file."""

    objects: RemoteObjects
    blocks: BoundedCache[_Block, bytes]
    key: str
    name: str
    size: int
    version: str

    def __str__(self) -> str:
        return f"{self.objects.url}/{self.key}".rstrip("/")

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """A seekable file of what the listing showed. Each read is one request for a range of bytes."""
        return io.BufferedReader(RangeFile(self._range, self.size), buffer_size=READ_AHEAD)

    def _range(self, start: int, end: int) -> bytes:
        return self.blocks.get((self.key, self.version, start, end), lambda: self._request(start, end))

    def _request(self, start: int, end: int) -> bytes:
        with _storage_errors():
            return self.objects.read_range(self.key, start, end)


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Raise an error of the storage as one of event logs."""
    try:
        yield
    except ObjectMissing as error:
        raise FileNotFoundError(error.what) from error
    except ArchiveError as error:
        if error.__cause__ is not None and may_pass(error.__cause__):
            raise EventLogsUnreachable(
                error.what,
                hint="Check the address and the network. No event is lost: reading goes on where it stopped.",
            ) from error
        raise EventLogsRefused(error.what, hint=error.hint) from error


def is_remote(given: str) -> bool:
    """Whether this names event logs behind a URL, and not on this machine."""
    return "://" in given and not given.startswith("file://")


def open_folder(given: str) -> LogFolder:
    """The folder, or the log, at a path or a URL. Nothing is read yet. `ConfigError` for a URL that no filesystem serves."""
    if is_remote(given):
        return RemoteFolder(given)
    check_url(given)
    if given.startswith("file://"):
        return LocalFolder(Path(given.removeprefix("file://")))
    return LocalFolder(typed_path("name of the event logs", given))


def logs_at(folder: LogFolder) -> list[ListedLog]:
    """The logs in a folder now, by one listing. Raises as `LogFolder.list`."""
    return logs_in(folder.url, folder.list())
