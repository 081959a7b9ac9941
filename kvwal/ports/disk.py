"""The door to files. Only this module opens, writes, syncs, renames or deletes anything.

A method raises `OSError` as the operating system gave it, with the path in it. What each promises about durability is what
the log builds on: `File.datasync` for bytes, `Disk.sync_folder` for names.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from kvwal.ports import range_locks

_READ_STEP = 1 << 20

Buffer = bytes | mmap.mmap
"""What a file's bytes are read from: slicing it gives `bytes`."""


def drop_pages(buffer: Buffer, end: int) -> None:
    """What stands before the offset `end` of a view was read: it need not stay in this process's memory. It can be read again."""
    if isinstance(buffer, mmap.mmap) and (whole := end - end % mmap.PAGESIZE):
        buffer.madvise(mmap.MADV_DONTNEED, 0, whole)


class Space(NamedTuple):
    """A disk's size, and what an unprivileged process can still write to it, in bytes."""

    capacity: int
    free: int


class File(Protocol):
    """A file open for writing, by one thread at a time."""

    path: Path

    def write_at(self, offset: int, parts: Sequence[bytes]) -> None:
        """Write all parts, one behind the other, from `offset` on. Short writes are continued."""
        ...

    def datasync(self) -> None:
        """Return when every byte written so far, and the size, survive a power cut."""
        ...

    def allocate(self, size: int) -> None:
        """Give the file at least `size` bytes on the disk; new ones read as zeros. A full disk raises here, not in `write_at`."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def close(self) -> None:
        """Close it. Nothing is synced."""
        ...


class Disk(Protocol):
    """The file operations that kvwal needs."""

    def create(self, path: Path) -> File:
        """A new empty file. `FileExistsError` if there is one."""
        ...

    def open(self, path: Path) -> File:
        """An existing file, for writing, its bytes as they are."""
        ...

    def view(self, path: Path) -> AbstractContextManager[Buffer]:
        """A context that gives the file's bytes as they are now, without copying them (`mmap`; empty files give `b""`)."""
        ...

    def read(self, path: Path) -> bytes:
        """The whole of a small file."""
        ...

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        """So many bytes of a file from `offset` on, or as many as there are."""
        ...

    def try_read(self, path: Path) -> None:
        """Read a file of any size and forget it: what the disk cannot give is an `OSError` here, and a signal in `view`."""
        ...

    def size(self, path: Path) -> int:
        """Bytes in the file. `FileNotFoundError` if there is none."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; empty if there is no such folder."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether there is anything at `path`."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Whether `path` is a folder."""
        ...

    def make_folders(self, folder: Path) -> None:
        """Create a folder and those above it, each name durable in the one above."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or a folder another name in one step, replacing what has it. Durable after `sync_folder`."""
        ...

    def unlink(self, path: Path) -> None:
        """Delete a file. It is no error if it is gone. Durable after `sync_folder`."""
        ...

    def remove_tree(self, folder: Path) -> None:
        """Delete a folder and all in it. It is no error if it is gone."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Delete a folder if nothing is in it. It is no error if it is gone, or if something is."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in `folder` survive a power cut."""
        ...

    def open_folder(self, folder: Path) -> Folder:
        """A folder whose names can be synced later without another file descriptor."""
        ...

    def space(self, folder: Path) -> Space:
        """How large the disk of `folder` is, and how much of it is free. `FileNotFoundError` if there is no such folder."""
        ...

    def lock(self, path: Path, note: str, table: Path) -> Lock | str:
        """Take the lock file for this process and write `note` into it, or return the note of the holder.

        However many locks are held, they cost the one file descriptor of `table`, a file that all processes share.
        """
        ...


class Folder(Protocol):
    """An open folder."""

    def sync(self) -> None:
        """Return when its names survive a power cut."""
        ...

    def close(self) -> None:
        """Close it. Again is no error."""
        ...


class Lock(Protocol):
    """A held lock. The operating system lets go of it when the process ends, however it ends."""

    def release(self) -> None:
        """Let go. Again is no error."""
        ...


class OsFile:
    """A file of the operating system."""

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self._fd = os.open(path, flags | os.O_RDWR | os.O_CLOEXEC, 0o640)

    def write_at(self, offset: int, parts: Sequence[bytes]) -> None:
        """See `File.write_at`."""
        total = sum(map(len, parts))
        written = os.pwritev(self._fd, parts, offset)
        while written < total:
            rest = b"".join(parts)[written:]
            step = os.pwrite(self._fd, rest, offset + written)
            if not step:
                raise OSError(errno.EIO, "the disk took no bytes", str(self.path))
            written += step

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

    def close(self) -> None:
        """See `File.close`."""
        os.close(self._fd)


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


class OsDisk:
    """The file system of the machine."""

    def create(self, path: Path) -> File:
        """See `Disk.create`."""
        return OsFile(path, os.O_CREAT | os.O_EXCL)

    def open(self, path: Path) -> File:
        """See `Disk.open`."""
        return OsFile(path, 0)

    @contextmanager
    def view(self, path: Path) -> Iterator[Buffer]:
        """See `Disk.view`."""
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                yield b""
                return
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                yield view

    def read(self, path: Path) -> bytes:
        """See `Disk.read`."""
        return path.read_bytes()

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        """See `Disk.read_part`."""
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            parts = []
            while size > 0 and (part := file.read(size)):
                parts.append(part)
                size -= len(part)
            return b"".join(parts)

    def try_read(self, path: Path) -> None:
        """See `Disk.try_read`."""
        with open(path, "rb", buffering=0) as file:
            while file.read(_READ_STEP):
                pass

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return path.stat().st_size

    def names(self, folder: Path) -> list[str]:
        """See `Disk.names`."""
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: Path) -> bool:
        """See `Disk.exists`."""
        return path.exists()

    def is_folder(self, path: Path) -> bool:
        """See `Disk.is_folder`."""
        return path.is_dir()

    def make_folders(self, folder: Path) -> None:
        """See `Disk.make_folders`."""
        if folder == folder.parent or _is_in_use(self, folder):
            return
        self.make_folders(folder.parent)
        try:
            self.make_folder(folder)
        except FileExistsError:
            if not self.is_folder(folder):
                raise
            with suppress(PermissionError):  # then it was not we who made it there
                self.sync_folder(folder.parent)
        else:
            self.sync_folder(folder.parent)

    def make_folder(self, folder: Path) -> None:
        """Create a folder. Durable after `sync_folder` of the one above."""
        os.mkdir(folder, 0o750)

    def rename(self, old: Path, new: Path) -> None:
        """See `Disk.rename`."""
        os.replace(old, new)

    def unlink(self, path: Path) -> None:
        """See `Disk.unlink`."""
        path.unlink(missing_ok=True)

    def remove_tree(self, folder: Path) -> None:
        """See `Disk.remove_tree`."""
        if folder.exists():
            shutil.rmtree(folder)

    def remove_folder(self, folder: Path) -> None:
        """See `Disk.remove_folder`."""
        try:
            folder.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync_folder(self, folder: Path) -> None:
        """See `Disk.sync_folder`."""
        opened = self.open_folder(folder)
        try:
            opened.sync()
        finally:
            opened.close()

    def open_folder(self, folder: Path) -> Folder:
        """See `Disk.open_folder`."""
        return OsFolder(folder)

    def space(self, folder: Path) -> Space:
        """See `Disk.space`."""
        usage = shutil.disk_usage(folder)
        return Space(usage.total, usage.free)

    def lock(self, path: Path, note: str, table: Path) -> Lock | str:
        """See `Disk.lock`."""
        return range_locks.take(path, note, table)


def _is_in_use(disk: Disk, folder: Path) -> bool:
    """Whether something is in it, or it is not for us to see that: then its name is durable. That of an empty one may not be:
    a program that was killed before its fsync left it.
    """
    try:
        return bool(disk.names(folder))
    except PermissionError:
        return True


OS_DISK = OsDisk()
