"""Limits of a real disk and its operating system, for the disks of tests: a fake without them takes what a real disk refuses.

- One `pwritev` takes at most `MAX_BUFFERS` buffers (EINVAL), and may take fewer bytes than it was given: after a signal (the
  rest of what EINTR means to a Python program, which makes interrupted calls again), or at the limit of a file's size.
- A file has a largest size (EFBIG): that of its file system, or that of `ulimit -f`.
- A process has a number of files that it may hold open (EMFILE).
- A disk writes sectors whole. Their size is 512 bytes, or 4,096.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvwal.ports.posix.vectored import MAX_BUFFERS, Part

SECTOR = 512
SHORT_EVERY = 3
"""A disk gets at most this many whole calls before a short one."""
LARGEST_FILE = 1 << 43
OPEN_FILES = 64


class Limits:
    """The limits of one disk, and the files that are held open on it. `open_files` and `file_bytes` may be changed by a test."""

    def __init__(
        self, *, sector: int = SECTOR, file_bytes: int = LARGEST_FILE, open_files: int = OPEN_FILES,
        short_every: int = SHORT_EVERY,
    ) -> None:  # fmt: skip
        self.sector = sector
        self.file_bytes = file_bytes
        self.open_files = open_files
        self.held: dict[int, Path] = {}
        self._short_every = short_every
        self._writes = 0
        self._reads = 0

    def hold(self, handle: Any, path: Path) -> None:
        """A file or folder is opened. EMFILE if the process has too many."""
        self.check_free(path)
        self.held[id(handle)] = path

    def check_free(self, path: Path) -> None:
        """Raise EMFILE if no other file may be opened."""
        if len(self.held) >= self.open_files:
            raise _refusal(errno.EMFILE, path)

    def release(self, handle: Any) -> None:
        """It is closed; a second close does nothing."""
        self.held.pop(id(handle), None)

    def check_size(self, size: int, path: Path) -> None:
        """Raise EFBIG if no file may be that large."""
        if size > self.file_bytes:
            raise _refusal(errno.EFBIG, path)

    def written(self, parts: Sequence[Part], offset: int, path: Path) -> bytes:
        """The bytes that one `pwritev` of these buffers takes."""
        if len(parts) > MAX_BUFFERS:
            raise _refusal(errno.EINVAL, path)
        data = b"".join(parts)
        if data and offset >= self.file_bytes:
            raise _refusal(errno.EFBIG, path)
        self._writes += 1
        if self._writes % (self._short_every + 1) == 0 and len(data) > 1:
            data = data[: max(1, len(data) * 2 // 3)]
        return data[: self.file_bytes - offset]

    def read(self, data: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
        """The bytes that one `pread` gives of what `data` has."""
        self._reads += 1
        if self._reads % (self._short_every + 1) == 0 and size > 1:
            size -= size // 3
        return data(offset, size)


def _refusal(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
