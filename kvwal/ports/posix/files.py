"""Open files and folders of the operating system: what `kvwal.ports.disk.OsDisk` hands out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from kvwal.ports.children.standard_streams import not_standard
from kvwal.ports.posix import file_locks
from kvwal.ports.posix.vectored import Part, read_all, write_all
from kvwal_archive.objects.owner import give_file

_FILE_MODE = 0o640


class OsFile:
    """A file of the operating system, open for writing."""

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._fd = not_standard(os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, _FILE_MODE))

    def mark_written(self) -> None:
        """See `Disk.is_written`."""
        file_locks.mark_written(self._fd)

    def give(self) -> None:
        """Give a new file of root to the owner of its folder."""
        give_file(self._fd, self.path.parent, _FILE_MODE)

    def write_at(self, offset: int, parts: Sequence[Part]) -> None:
        """See `File.write_at`."""
        write_all(partial(os.pwritev, self._fd), offset, parts, self.path)

    def datasync(self) -> None:
        """See `File.datasync`."""
        os.fdatasync(self._fd)

    def allocate(self, size: int) -> None:
        """See `File.allocate`."""
        have = os.fstat(self._fd).st_size
        if size > have:
            os.posix_fallocate(self._fd, have, size - have)

    def truncate(self, size: int) -> None:
        """See `File.truncate`."""
        os.ftruncate(self._fd, size)

    def begin_writeback(self, offset: int, size: int) -> None:
        """See `File.begin_writeback`. Linux begins to write dirty pages that are not needed soon, and keeps them meanwhile."""
        with suppress(OSError):
            os.posix_fadvise(self._fd, offset, size, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """See `File.close`."""
        os.close(self._fd)


class OsOpenedFile:
    """A file of the operating system, open for reading."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # `close` closes it

    def read_at(self, offset: int, size: int) -> bytes:
        """See `OpenedFile.read_at`."""
        number = self._file.fileno()
        return read_all(lambda at, wanted: os.pread(number, wanted, at), offset, size)

    def close(self) -> None:
        """See `OpenedFile.close`."""
        self._file.close()


class OsFolder:
    """A folder of the operating system."""

    def __init__(self, path: Path) -> None:
        self._fd: int | None = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def sync(self) -> None:
        """See `Folder.sync`."""
        if self._fd is not None:
            os.fsync(self._fd)

    def close(self) -> None:
        """See `Folder.close`."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
