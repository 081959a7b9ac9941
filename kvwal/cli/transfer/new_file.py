"""A new file that gets its name when it is whole.

Until then its content is in a temporary file beside it, which an error removes.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kvwal.errors import ConfigError, Kind, KvwalError
from kvwal.ports.disk import OS_DISK
from kvwal_archive.objects.new_names import link_new
from kvwal_archive.objects.owner import give_file

_NO_FOLDER_SYNC = (errno.EACCES, errno.EINVAL)
"""Errors of an fsync of a folder that this user may write to and not read, and of a file system that syncs no folders."""


class NotExported(KvwalError):
    """The disk did not take a file. What was written of it is removed."""

    kind = Kind.RETRY


class NewFile:
    """A context manager that writes a file under a temporary name beside it, and gives it its own name at the end.

    After an error or Ctrl-C the temporary file is removed, and the disk has its room back. Raises `ConfigError` if the name is
    taken or the folder takes no new file, and `NotExported` if a write fails.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.parent / f".kvwal-export-{secrets.token_hex(6)}"

    def __enter__(self) -> Self:
        if os.path.lexists(self._path):
            raise self._taken()
        try:
            descriptor = os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise ConfigError(
                f"{self._path}: cannot be written ({error.strerror}); nothing was exported.", hint="Name a new file."
            ) from error
        self._file = os.fdopen(descriptor, "wb")
        try:
            give_file(descriptor, self._path.parent, 0o666)
        except OSError as error:
            self._discard()
            raise self._failed(error) from error
        return self

    def write(self, data: bytes) -> None:
        """Append these bytes. Raises `NotExported` if the disk does not take them."""
        try:
            self._file.write(data)
        except OSError as error:
            raise self._failed(error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._keep()
        finally:
            self._discard()

    def _keep(self) -> None:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._name()
            self._sync_name()
        except FileExistsError:
            raise self._taken() from None
        except OSError as error:
            raise self._failed(error) from error

    def _name(self) -> None:
        try:
            link_new(self._temporary, self._path)
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            # FUSE without RENAME_NOREPLACE: this replaces a file that appeared after `__enter__`
            os.rename(self._temporary, self._path)

    def _sync_name(self) -> None:
        """Make the name durable. After an error it is removed, as `NotExported` says."""
        try:
            OS_DISK.sync_folder(self._path.parent)
        except OSError as error:
            if error.errno in _NO_FOLDER_SYNC:
                return
            self._path.unlink(missing_ok=True)
            raise

    def _discard(self) -> None:
        with suppress(OSError):  # what the buffer still has goes nowhere; the error of the first write was raised
            self._file.close()
        with suppress(FileNotFoundError):
            self._temporary.unlink()

    def _taken(self) -> ConfigError:
        what = "is a folder" if self._path.is_dir() else "is there already"
        return ConfigError(f"{self._path} {what}; nothing was exported.", hint="Name a new file.")

    def _failed(self, error: OSError) -> NotExported:
        return NotExported(
            f"{self._path}: cannot be written ({error.strerror}); the unfinished file was removed.",
            hint="Free space, or name a file on another disk, then export again.",
        )
