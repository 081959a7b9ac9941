"""Filesystem port. Log and store open, write, sync, rename and delete files only through it (`posix` has the locks).

A method raises the `OSError` of the operating system, with the path in it. The log builds on two promises of durability:
`File.datasync` for bytes, `Disk.sync_folder` for names.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from kvwal.ports.posix import file_locks
from kvwal.ports.posix.files import OsFile, OsFolder, OsOpenedFile
from kvwal.ports.posix.vectored import Part
from kvwal_archive.objects.owner import make_folder

_READ_STEP = 1 << 20
_FOLDER_MODE = 0o750
_SETTLED_MS = 1_000

Buffer = bytes | mmap.mmap
"""The bytes of a file, for reading. Slicing it gives `bytes`."""


def settled_before(wall_ms: int) -> int:
    """A time as `Disk.changed_ns` tells it. A file whose last change is before it has another time after its next change.

    `wall_ms` is the time when the file is looked at, or earlier.
    """
    return (wall_ms - _SETTLED_MS) * 1_000_000


def drop_pages(buffer: Buffer, end: int) -> None:
    """Free this process's memory of the pages before the offset `end` of a view. They can be read again."""
    if isinstance(buffer, mmap.mmap) and (whole := end - end % mmap.PAGESIZE):
        buffer.madvise(mmap.MADV_DONTNEED, 0, whole)


class Space(NamedTuple):
    """Size of a disk, and the free space for an unprivileged process, in bytes."""

    capacity: int
    free: int


class File(Protocol):
    """A file open for writing, by one thread at a time."""

    path: Path

    def write_at(self, offset: int, parts: Sequence[Part]) -> None:
        """Write all parts, however many, one after the other, from `offset` on. Short writes are continued."""
        ...

    def datasync(self) -> None:
        """Return when all bytes written so far, and the size, survive a power cut."""
        ...

    def allocate(self, size: int) -> None:
        """Allocate at least `size` bytes on the disk; new bytes are zeros. A full disk raises here, not in `write_at`."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""
        ...

    def begin_writeback(self, offset: int, size: int) -> None:
        """Have the system begin to write these bytes to the disk. It promises nothing: `datasync` waits for them."""
        ...

    def close(self) -> None:
        """Close the file. Nothing is synced."""
        ...


class OpenedFile(Protocol):
    """A file open for reading, by one thread at a time. Its bytes can be read to the end also after its name is gone."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset` on; fewer if the file ends before."""
        ...

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        ...


class Disk(Protocol):
    """The file operations that kvwal needs."""

    def create(self, path: Path) -> File:
        """Create an empty file. `FileExistsError` if the path exists. `is_written` until it is closed, or its process ends.

        A file, folder or lock file that root makes in the folder of another user belongs to that user.
        """
        ...

    def is_written(self, path: Path) -> bool:
        """Whether a living process has the file open that created it. A disk without locks of files says False."""
        ...

    def open(self, path: Path) -> File:
        """Open an existing file for writing. Its bytes stay as they are."""
        ...

    def view(self, path: Path) -> AbstractContextManager[Buffer]:
        """A context manager of the file's bytes, without a copy (`mmap`; empty files give `b""`)."""
        ...

    def read(self, path: Path) -> bytes:
        """All bytes of a small file."""
        ...

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        """Up to `size` bytes of a file from `offset` on; fewer if the file ends before."""
        ...

    def open_to_read(self, path: Path) -> OpenedFile:
        """Open a file for reading."""
        ...

    def try_read(self, path: Path) -> None:
        """Read a file of any size and drop its bytes. An unreadable file is an `OSError` here; in `view` it is a signal."""
        ...

    def size(self, path: Path) -> int:
        """Bytes in the file. `FileNotFoundError` if the file does not exist."""
        ...

    def changed_ns(self, path: Path) -> int:
        """When the bytes of the file were last changed, by the clock of its file system, in nanoseconds of Unix time.

        Two changes within some milliseconds may have the same time. `FileNotFoundError` if the file does not exist.
        """
        ...

    def links(self, path: Path) -> int:
        """Number of names that the file has. A file with more than one is also a copy's, and must not be written in place."""
        ...

    def names(self, folder: Path) -> list[str]:
        """Names in a folder, sorted; empty if the folder does not exist."""
        ...

    def exists(self, path: Path) -> bool:
        """Whether `path` exists."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Whether `path` is a folder."""
        ...

    def make_folders(self, folder: Path) -> None:
        """Create a folder and the folders above it. Each name is durable in the folder above."""
        ...

    def link(self, old: Path, new: Path) -> None:
        """Give a file a second name, which must be free. Durable after `sync_folder`."""
        ...

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder in one step. A file that has the new name is replaced. Durable after `sync_folder`."""
        ...

    def unlink(self, path: Path) -> None:
        """Delete a file. A missing file is no error. Durable after `sync_folder`."""
        ...

    def remove_tree(self, folder: Path) -> None:
        """Delete a folder and all files in it. A missing folder is no error."""
        ...

    def remove_folder(self, folder: Path) -> None:
        """Delete a folder if it is empty. A missing folder, or one that is not empty, is no error."""
        ...

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in `folder` survive a power cut."""
        ...

    def open_folder(self, folder: Path) -> Folder:
        """Open a folder, so that its names can be synced later without another file descriptor."""
        ...

    def space(self, folder: Path) -> Space:
        """Size and free space of the disk of `folder`. `FileNotFoundError` if the folder does not exist."""
        ...

    def lock(self, path: Path, note: str) -> Lock | str:
        """Lock the lock file for this process and write `note` into it, or return the note of the holder.

        The lock is on the file itself: another path to it gives the same lock. It needs no file descriptor.
        """
        ...


class Folder(Protocol):
    """An open folder."""

    def sync(self) -> None:
        """Return when the names in the folder survive a power cut."""
        ...

    def close(self) -> None:
        """Close the folder. A second call does nothing."""
        ...


class Lock(Protocol):
    """A held lock. The operating system releases it when the process ends in any way."""

    def in_place(self) -> bool:
        """Whether the path of the lock file still leads to the locked file, in the folder that it was in. Two system calls."""
        ...

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        ...


def others_may_read(path: Path) -> bool:
    """Whether a file's mode lets every user of the machine read it."""
    return bool(path.stat().st_mode & 0o004)


class OsDisk:
    """The file system of the machine."""

    def create(self, path: Path) -> File:
        """See `Disk.create`."""
        file = OsFile(path, os.O_CREAT | os.O_EXCL)
        file.mark_written()
        file.give()
        return file

    def is_written(self, path: Path) -> bool:
        """See `Disk.is_written`."""
        return file_locks.is_written(path)

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
        file = OsOpenedFile(path)
        try:
            return file.read_at(offset, size)
        finally:
            file.close()

    def open_to_read(self, path: Path) -> OpenedFile:
        """See `Disk.open_to_read`."""
        return OsOpenedFile(path)

    def try_read(self, path: Path) -> None:
        """See `Disk.try_read`."""
        with open(path, "rb", buffering=0) as file:
            while file.read(_READ_STEP):
                pass

    def size(self, path: Path) -> int:
        """See `Disk.size`."""
        return path.stat().st_size

    def changed_ns(self, path: Path) -> int:
        """See `Disk.changed_ns`."""
        return path.stat().st_mtime_ns

    def links(self, path: Path) -> int:
        """See `Disk.links`."""
        return path.stat().st_nlink

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
            with suppress(PermissionError):  # then another program created it
                self.sync_folder(folder.parent)
        else:
            self.sync_folder(folder.parent)

    def make_folder(self, folder: Path) -> None:
        """Create a folder. Durable after `sync_folder` of the folder above."""
        make_folder(folder, _FOLDER_MODE)

    def link(self, old: Path, new: Path) -> None:
        """See `Disk.link`."""
        os.link(old, new)

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

    def lock(self, path: Path, note: str) -> Lock | str:
        """See `Disk.lock`."""
        return file_locks.take(path, note)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for temporary files, in the folder that TMPDIR names. It is deleted at the end of the `with` block."""
    with TemporaryDirectory(prefix="kvwal-") as folder:
        yield Path(folder)


def _is_in_use(disk: Disk, folder: Path) -> bool:
    """Whether the folder has files, or is not readable: then its name is durable.

    The name of an empty folder may not be durable: a program may have been killed between creating the folder and its fsync.
    """
    try:
        return bool(disk.names(folder))
    except PermissionError:
        return True


OS_DISK = OsDisk()
