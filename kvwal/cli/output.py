"""Standard streams of a command, as a pipe has them: closed, full, or left by the reader. Light: `kvwal get` loads it."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

UNWRITTEN = 5
"""Exit code of a command that did its work, and whose answer standard output did not take."""
READER_GONE = 141
"""Exit code when the reader of the output has seen enough: what a shell tells of a program that SIGPIPE ended."""


class OutputFailed(Exception):
    """Standard output takes no more. No OSError, so that nothing on the way takes it for a failure of the store."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error) from error


def prepare_streams() -> None:
    """Have all three streams there, and failures of standard output known by their class.

    A stream that was closed would give its number to the next file that is opened, a log's: it is held by /dev/null, which
    takes no output where the stream is standard output.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # it gets the lowest number that is free: this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        encoding = getattr(sys.stdout, "encoding", "utf-8")
        raw = _Output(1, "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty()
        )


def leave(failed: OutputFailed) -> int:
    """Let go of standard output, and say why on standard error, unless its reader left. The exit code."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # what is still in a buffer goes there at the end
    if isinstance(failed.error, BrokenPipeError):
        return READER_GONE
    print(
        f"kvwal: standard output took no more ({failed.error.strerror}). What the command did is done; its answer is not"
        " complete.",
        file=sys.stderr,
    )
    return UNWRITTEN
