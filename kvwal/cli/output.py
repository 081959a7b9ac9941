"""Standard streams of a command, which may be closed, full, or left by their reader.

`kvwal get` loads this module, so it imports little.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

UNWRITTEN = 5
"""Exit code of a command that did its work, but could not print its answer on standard output."""
READER_GONE = 141
"""Exit code after the reader of the output closed its pipe, as shells give it to a program that SIGPIPE ended."""


class OutputFailed(Exception):
    """A write to standard output failed. It is no `OSError`, so that no handler takes it for an error of the store."""

    is_of_the_items = False
    """No fault of the items of a queue that were to be printed: see `kvwal.structures.transaction.is_of_the_items`."""

    def __init__(
        self, error: OSError, outcome: str = "What the command did is done; its answer is not complete."
    ) -> None:
        """`outcome` says for standard error what the command did."""
        super().__init__(str(error))
        self.error = error
        self.outcome = outcome


class _Output(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputFailed(error) from error


def prepare_streams() -> None:
    """Open closed streams, and make standard output raise `OutputFailed`.

    The number of a closed stream would be given to the next opened file, a log's file for example. So /dev/null takes the
    place of a closed stream; for standard output it is opened so that writes to it fail.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, flags), True
            )  # the file gets the lowest free number, which is this one
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
    """Give up standard output, and print the reason on standard error unless the reader left. Returns the exit code."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # the buffer of standard output is flushed there at exit
    if isinstance(failed.error, BrokenPipeError):
        return READER_GONE
    print(f"kvwal: standard output took no more ({failed.error.strerror}). {failed.outcome}", file=sys.stderr)
    return UNWRITTEN
