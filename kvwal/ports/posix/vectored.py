"""Whole writes and reads by calls that limit the number of buffers, and may transfer fewer bytes than they were given.

A call of the operating system takes at most `MAX_BUFFERS` buffers: more of them are `EINVAL`. It may write or read fewer bytes
than it was given: at a signal, at the limit of a file's size, or above 2 GiB.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

_LEAST_BUFFERS = 16
"""Buffers that every POSIX system takes, for a system that names no limit."""


def _system_limit() -> int:
    limit = os.sysconf("SC_IOV_MAX")
    return limit if limit > 0 else _LEAST_BUFFERS


MAX_BUFFERS = _system_limit()
"""Buffers that one call of this operating system takes."""

Part = bytes | memoryview
Write = Callable[[Sequence[Part], int], int]
"""Writes buffers at an offset, and returns the number of bytes that were written."""


def write_all(write: Write, offset: int, parts: Sequence[Part], path: Path) -> None:
    """Write all parts, one after the other, from `offset` on. A call that takes no byte is an `OSError` (EIO) for `path`."""
    end = offset + sum(map(len, parts))
    while offset < end:
        batch = parts if len(parts) <= MAX_BUFFERS else parts[:MAX_BUFFERS]
        taken = write(batch, offset)
        offset += taken
        if offset < end:
            if not taken and any(map(len, batch)):
                raise OSError(errno.EIO, "the disk took no bytes", str(path))
            parts = _after(parts, taken)


def _after(parts: Sequence[Part], taken: int) -> list[Part]:
    """The parts without their first `taken` bytes, and without empty parts before them."""
    for at, part in enumerate(parts):
        if taken < len(part):
            return [memoryview(part)[taken:], *parts[at + 1 :]]
        taken -= len(part)
    return []


def read_all(read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
    """`size` bytes from `offset` on, or fewer if the file ends before. `read` is given an offset and a number of bytes."""
    parts = []
    while size > 0 and (part := read(offset, size)):
        parts.append(part)
        offset += len(part)
        size -= len(part)
    return b"".join(parts)
