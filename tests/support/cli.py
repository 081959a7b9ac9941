"""Running the command line inside the test's process: what it printed, and how it ended."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest.mock import patch

from kvwal.cli.main import main


class Ran(NamedTuple):
    """A command that ended."""

    code: int
    out: str
    err: str


def kvwal(*arguments: object) -> Ran:
    """`kvwal ARGUMENTS…`, as a shell would run it, without starting an interpreter."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code = 0
    typed = patch.object(sys, "argv", ["kvwal", *map(str, arguments)])
    with typed, patch.object(sys, "excepthook", sys.excepthook), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ran(code, read(out), read(err))


def read(stream: io.TextIOWrapper) -> str:
    """Everything that was written to a stream of `kvwal`."""
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
