"""File locks without a file descriptor: each lock file is locked itself, and the lock is kept by a mapping of it.

The lock is one byte of the lock file, locked for its open file description (`F_OFD_SETLK`). A lock of a table that many logs
share would be another lock where the log is reached by another path (a symbolic link, a bind mount), so the lock is on the log's
own file. A held lock would cost a descriptor, and a process may have a thousand logs: but a memory mapping keeps the open file
description alive as well, and with it the lock, after the descriptor is closed. A forked child does not inherit the mapping.

The byte's position is the inode of the lock file's folder: copies of a folder by hard links have one lock file and locks of their
own.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.ports.locks import Lock
from kvwal.ports.processes import take_before_fork
from kvwal_archive.objects.owner import give_file

if TYPE_CHECKING:
    import ctypes

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock`: type, whence, start, length, pid (0 for a lock of an open file description)."""
_MOST = (1 << 62) - 1
_ATTEMPTS = 10
_NO_NOTE = "a process that left no note"
_MODE = 0o640
_MADV_DONTFORK = 10
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
"""Errors of a path that leads nowhere. Any other error says nothing of the path."""
_FAILED = (1 << 64) - 1
"""`MAP_FAILED`, as an unsigned number."""

Inode = tuple[int, int]

_taking = Lock()
"""Held while a lock file is open. A child that is forked then would have the open file description, and so the lock."""
take_before_fork(_taking)


def _request(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


def _inode(state: os.stat_result) -> Inode:
    return state.st_dev, state.st_ino


@cache
def _libc() -> ctypes.CDLL:
    """The C library: Python's own `mmap` keeps a descriptor open. Imported late, because a reading command locks nothing."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_longlong]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def _map(fd: int) -> int:
    """Map a page of the file, which nobody reads, and return its address. It lasts until `_unmap`, or the end of the process."""
    import ctypes

    address = _libc().mmap(None, mmap.PAGESIZE, 0, mmap.MAP_PRIVATE, fd, 0)
    if address is None or address == _FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "mmap of a lock file")
    if _libc().madvise(address, mmap.PAGESIZE, _MADV_DONTFORK):
        error = OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "madvise of a lock file")
        _unmap(address)
        raise error
    return int(address)


def _unmap(address: int) -> None:
    _libc().munmap(address, mmap.PAGESIZE)


class FileLock:
    """A held lock. A second lock of the same file, also in this process, is refused until this one is released."""

    def __init__(self, path: Path, file: Inode, folder: Inode, address: int) -> None:
        self._path = path
        self._file = file
        self._folder = folder
        self._address: int | None = address
        self._process = os.getpid()

    def in_place(self) -> bool:
        """See `kvwal.ports.disk.Lock.in_place`."""
        try:
            return (_inode(os.stat(self._path)), _inode(os.stat(self._path.parent))) == (self._file, self._folder)
        except OSError as error:
            return error.errno not in _GONE

    def release(self) -> None:
        """See `kvwal.ports.disk.Lock.release`. In a forked child it does nothing, because the parent holds the lock."""
        address, self._address = self._address, None
        if address is not None and self._process == os.getpid():
            _unmap(address)

    def __del__(self) -> None:
        """Release the lock at garbage collection."""
        self.release()


def take(path: Path, note: str) -> FileLock | str:
    """Take the lock of the lock file `path` and write `note` into the file, or return the note of the holder."""
    for _ in range(_ATTEMPTS):
        with _taking:
            fd = _opened(path)
            try:
                if (taken := _take(path, fd, note)) is not None:
                    return taken
            finally:
                os.close(fd)
    raise FileNotFoundError(f"{path}: the lock file was removed each time it was created")


def _take(path: Path, fd: int, note: str) -> FileLock | str | None:
    """See `take`; None if the lock file was removed or replaced meanwhile."""
    folder = _inode(os.stat(path.parent))
    if not _lock(fd, folder):
        return os.pread(fd, 4096, 0).decode("utf-8", "replace").strip() or _NO_NOTE
    held = FileLock(path, _inode(os.fstat(fd)), folder, _map(fd))
    if not held.in_place():
        held.release()
    elif os.fstat(fd).st_nlink > 1:
        _replace(path)  # a copy of the folder has the file too: the note is this one's alone
        held.release()
    elif not is_held(path):
        raise OSError(errno.ENOLCK, "the file system gave a lock and did not keep it", str(path))
    else:
        os.ftruncate(fd, 0)
        os.pwrite(fd, note.encode(), 0)
        return held
    return None


def _lock(fd: int, folder: Inode) -> bool:
    """Lock the byte of a folder; False if it is held, or an earlier version holds a `flock` of the file.

    The `flock` that finds this out is given back before the byte is locked: the NFS client of Linux makes of both one lock of the
    same owner on the server, and giving back the `flock` gives back the byte, too.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK, _byte(folder)))
    except (BlockingIOError, PermissionError):
        return False
    return True


def _replace(path: Path) -> None:
    """Put a new lock file in the place of one with several names. The caller holds the lock of the old one."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.partial")
    with suppress(FileNotFoundError):
        fresh.unlink()
    os.close(_opened(fresh, os.O_EXCL))
    os.replace(fresh, path)


def _opened(path: Path, flags: int = 0) -> int:
    """Open a lock file, which is created if it does not exist. A link in its place is refused: its target would be cut.

    A lock file that an earlier version left as root's is given to the owner of the folder, too.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, _MODE)
    give_file(fd, path.parent, _MODE)
    return fd


def _byte(folder: Inode) -> int:
    return folder[1] & _MOST


def is_held(path: Path) -> bool:
    """Whether any process holds the lock of the lock file `path`. The check takes no lock."""
    try:
        byte = _byte(_inode(os.stat(path.parent)))
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, byte))
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def held_by(path: Path) -> str:
    """The note of the process that holds the lock of the lock file `path`; empty if none does. See `is_held`."""
    if not is_held(path):
        return ""
    return path.read_text(errors="replace").strip() or _NO_NOTE


def mark_written(fd: int) -> None:
    """Mark a new file as written, for `is_written`, until the last descriptor of this opening of the file is closed."""
    with suppress(OSError):  # a file system without locks
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK, 0))


def is_written(path: Path) -> bool:
    """Whether a living process, this one included, holds the mark of `mark_written` on the file. The check takes no lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, 0))
    except OSError:
        return False
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
