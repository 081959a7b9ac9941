"""The descriptors 0, 1 and 2. Where they are closed, as in a daemon, the system gives their numbers to the next files.

The last words of a C library or of the interpreter, written to descriptor 2, would go into such a file.
"""

from __future__ import annotations

import fcntl
import os
import subprocess

_STANDARD_ERROR = 2


def not_standard(descriptor: int) -> int:
    """`descriptor`, or another one of the same file if it has the number of a standard stream."""
    if descriptor > _STANDARD_ERROR:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
    finally:
        os.close(descriptor)


def standard_error() -> int:
    """Standard error for a child process: this process's, or the null device if that is closed."""
    try:
        is_open = os.get_inheritable(_STANDARD_ERROR)  # a file that got the number is not inheritable
    except OSError:
        is_open = False
    return _STANDARD_ERROR if is_open else subprocess.DEVNULL
