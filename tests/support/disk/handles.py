"""What a disk in memory (`tests.support.disk.power`) hands out: open files and folders, which are counted, and locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.ports.disk import Disk
from kvwal.ports.posix.vectored import Part, read_all, write_all
from tests.support.disk.durability import Content
from tests.support.disk.limits import Limits

if TYPE_CHECKING:
    from tests.support.disk.power import MemoryDisk


class OpenFolder:
    """See `kvwal.ports.disk.Folder`."""

    def __init__(self, disk: Disk, path: Path, limits: Limits) -> None:
        self._disk = disk
        self._path = path
        self._limits = limits
        limits.hold(self, path)

    def sync(self) -> None:
        self._disk.sync_folder(self._path)

    def close(self) -> None:
        self._limits.release(self)


class MemoryFile:
    """A file of a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, path: Path, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        disk.limits.hold(self, path)

    def write_at(self, offset: int, parts: Sequence[Part]) -> None:
        try:
            self._disk.enter("write_at", self.path)
        except OSError:
            if not self._disk.dead:
                data = b"".join(parts)
                self._content.write(offset, data[: len(data) // 2])
            raise
        write_all(self._write, offset, parts, self.path)

    def _write(self, parts: Sequence[Part], offset: int) -> int:
        data = self._disk.limits.written(parts, offset, self.path)
        self._content.write(offset, data)
        self._disk.happened()
        return len(data)

    def datasync(self) -> None:
        try:
            self._disk.enter("datasync", self.path)
        except OSError:
            if not self._disk.dead:
                self._content.forget()
            raise
        self._content.sync()
        self._disk.happened()

    def allocate(self, size: int) -> None:
        self._disk.enter("allocate", self.path)
        self._disk.limits.check_size(size, self.path)
        self._content.extend(size)
        self._disk.happened()

    def truncate(self, size: int) -> None:
        self._disk.enter("truncate", self.path)
        self._content.cut(size)
        self._disk.happened()

    def begin_writeback(self, offset: int, size: int) -> None:
        """A power cut may find them on the disk at any time anyway."""

    def close(self) -> None:
        """Nothing is synced."""
        self._disk.limits.release(self)


class LimitedReader:
    """A file that is open for reading, with short reads. `data` has its bytes as long as it is open."""

    def __init__(self, limits: Limits, path: Path, data: Callable[[int, int], bytes]) -> None:
        self._limits = limits
        self._data = data
        limits.hold(self, path)

    def read_at(self, offset: int, size: int) -> bytes:
        return read_all(partial(self._limits.read, self._data), offset, size)

    def close(self) -> None:
        self._limits.release(self)


class MemoryLock:
    """Nobody else is there."""

    def in_place(self) -> bool:
        return True

    def release(self) -> None:
        """Let go."""
