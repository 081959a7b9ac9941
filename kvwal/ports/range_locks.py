"""Byte-range locks: the locks of many logs on one open file.

A held `flock` costs a file descriptor, and a process may have a thousand logs. Here a lock is one byte of a shared file, the lock
table, locked for its open file description (`F_OFD_SETLK`): all locks of a process together cost one descriptor. The position of
the byte is the inode of the lock file, so a lock stays with its folder when the folder is renamed.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections import deque
from contextlib import suppress
from pathlib import Path

from kvwal.ports.locks import Lock
from kvwal.ports.processes import take_before_fork, tell_if_forked

_FLOCK = struct.Struct("hhqqi4x")
"""`struct flock`: type, whence, start, length, pid (0 for a lock of an open file description)."""
_MOST = (1 << 62) - 1
_ATTEMPTS = 10

Inode = tuple[int, int]


def _request(kind: int, byte: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0)


def _inode(fd: int) -> Inode:
    state = os.fstat(fd)
    return state.st_dev, state.st_ino


class _Table:
    """An open lock table. `bytes` counts this process's locks of each byte, because inodes of two disks may be equal."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.process = os.getpid()
        self.bytes: dict[int, int] = {}
        tell_if_forked(self)

    def lock(self, byte: int) -> bool:
        """Lock a byte. False if another process holds it."""
        if byte not in self.bytes:
            try:
                fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, _request(fcntl.F_WRLCK, byte))
            except (BlockingIOError, PermissionError):
                return False
        self.bytes[byte] = self.bytes.get(byte, 0) + 1
        return True

    def unlock(self, byte: int) -> None:
        self.bytes[byte] -= 1
        if not self.bytes[byte]:
            del self.bytes[byte]
            fcntl.fcntl(self.fd, fcntl.F_OFD_SETLK, _request(fcntl.F_UNLCK, byte))

    def forked(self) -> None:
        """Close the table in a forked child. The child shares the open file description: an unlock there would unlock here."""
        with suppress(OSError):
            os.close(self.fd)


_tables: dict[Inode, _Table] = {}
_held: set[Inode] = set()
_dropped: deque[tuple[_Table, Inode, Inode]] = deque()
_lock = Lock()
take_before_fork(_lock)


class RangeLock:
    """A held lock. A second lock of the same file, also in this process, is refused until this one is released."""

    def __init__(self, table: _Table, key: Inode, file: Inode) -> None:
        self._table: _Table | None = table
        self._key = key
        self._file = file

    def release(self) -> None:
        """See `kvwal.ports.disk.Lock.release`. In a forked child it does nothing, because the parent holds the lock."""
        table, self._table = self._table, None
        if table is not None:
            with _lock:
                _release(table, self._key, self._file)

    def __del__(self) -> None:
        """Release the lock at garbage collection. If `_lock` is taken, its next holder releases the lock."""
        table, self._table = self._table, None
        if table is None:
            return
        _dropped.append((table, self._key, self._file))
        if _lock.acquire(blocking=False):
            try:
                _release_dropped()
            finally:
                _lock.release()


def _release(table: _Table, key: Inode, file: Inode) -> None:
    if table.process != os.getpid():
        return
    _held.discard(file)
    table.unlock(_byte(file))
    if not table.bytes:
        del _tables[key]
        os.close(table.fd)


def _release_dropped() -> None:
    while _dropped:
        _release(*_dropped.popleft())


def _byte(file: Inode) -> int:
    return file[1] & _MOST


def take(path: Path, note: str, table: Path) -> RangeLock | str:
    """Take the lock of the lock file `path` and write `note` into the file, or return the note of the holder."""
    for _ in range(_ATTEMPTS):
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            file = _inode(fd)
            held = _take(fd, file, table)
            if held is None:
                return os.pread(fd, 4096, 0).decode("utf-8", "replace").strip() or "a process that left no note"
            if path.exists() and _inode_of(path) == file:
                os.ftruncate(fd, 0)
                os.pwrite(fd, note.encode(), 0)
                return held
            held.release()  # the lock file's folder was removed meanwhile
        finally:
            os.close(fd)
    raise FileNotFoundError(f"{path}: the lock file was removed each time it was created")


def _take(fd: int, file: Inode, table: Path) -> RangeLock | None:
    """Take the lock; None if it is held. The `flock` lasts only until the note is written: it respects the `flock` that earlier
    versions hold, and keeps two notes from mixing.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    with _lock:
        _release_dropped()
        if file in _held:
            return None
        key, opened = _open_table(table)
        if opened.lock(_byte(file)):
            _held.add(file)
            return RangeLock(opened, key, file)
        if not opened.bytes:
            del _tables[key]
            os.close(opened.fd)
        return None


def _open_table(path: Path) -> tuple[Inode, _Table]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    key = _inode(fd)
    known = _tables.get(key)
    if known is not None and known.process == os.getpid():
        os.close(fd)
        return key, known
    _tables[key] = _Table(fd)
    return key, _tables[key]


def _inode_of(path: Path) -> Inode:
    state = path.stat()
    return state.st_dev, state.st_ino


def is_held(path: Path, table: Path) -> bool:
    """Whether any process holds the lock of the lock file `path`. The check takes no lock."""
    try:
        byte = _byte(_inode_of(path))
        fd = os.open(table, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _request(fcntl.F_WRLCK, byte))
    finally:
        os.close(fd)
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)
