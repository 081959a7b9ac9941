"""A claim file of its own for one large content, written while its bytes come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kvwal.content.folder import claim_path
from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk, File
from kvwal.ports.posix.vectored import Part
from kvwal.ports.space import DiskSpace

_MOST_AHEAD = 64 << 20
"""Bytes that are allocated ahead, at most as many as the file has. It is cut to its size at the end."""

_WRITEBACK_BYTES = 8 << 20
"""Bytes after which the disk begins to write: so it works while the next ones come, and the sync at the end waits for few."""


class OwnFile:
    """A claim file `name` that is being written. After `finish` it is durable; after `discard` it is gone."""

    def __init__(self, disk: Disk, space: DiskSpace, folder: Path, name: str) -> None:
        """Raises `OSError`."""
        self.name = name
        self.folder = folder
        self.error: OSError | None = None
        """Why it could not be written."""
        self._disk = disk
        self._space = space
        self._path = claim_path(folder, name)
        self._partial = self._path.with_name(partial_name(name))
        disk.make_folders(self._path.parent)
        self._file: File | None = disk.create(self._partial)
        self._end = self._size = self._begun = 0

    def add(self, part: Part) -> None:
        """Write bytes at the end. Raises `OSError`, ENOSPC also if they would take from the reserve of the disk."""
        file = self._open()
        end = self._end + len(part)
        with self._failing():
            if end > self._size:
                self._size = self._space.grow(file, self._size, end, end + min(_MOST_AHEAD, end))
            file.write_at(self._end, [part])
            self._end = end
            if end - self._begun >= _WRITEBACK_BYTES:
                file.begin_writeback(self._begun, end - self._begun)
                self._begun = end

    def finish(self) -> None:
        """Make the bytes durable, then the name. Raises `OSError`."""
        file = self._open()
        with self._failing():
            if self._size > self._end:
                file.truncate(self._end)
            file.datasync()
            self._disk.rename(
                self._partial, self._path
            )  # while it is open: one that nobody writes is taken for abandoned
            self._disk.sync_folder(self._path.parent)
        self._file = None
        file.close()

    def discard(self) -> None:
        """Delete the file. A second call does nothing. Raises `OSError`."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._disk.unlink(self._partial)
            self._disk.unlink(self._path)  # `finish` may have renamed it, and failed then
        finally:
            file.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.error = error
            raise

    def _open(self) -> File:
        if self._file is None:
            raise ValueError("the file is finished, or was discarded")
        return self._file
