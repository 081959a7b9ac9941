"""Locks on the lock files of other programs, as Java takes them: of the whole file."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_HELD = (errno.EACCES, errno.EAGAIN)


@contextmanager
def held_shared(paths: Iterable[Path]) -> Iterator[Path | None]:
    """Hold a shared lock of each file, so that no program locks it meanwhile. Yields the first file that another program has
    locked, None if there is none.

    A file that this user may not read, and a file system without locks, are passed over.
    """
    with ExitStack() as stack:
        yield next((path for path in paths if not _lock(path, stack)), None)


def _lock(path: Path, stack: ExitStack) -> bool:
    """Lock a file until the stack ends. False if another program has it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    stack.callback(os.close, fd)
    try:
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _HELD
    return True
