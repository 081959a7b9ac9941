"""The entry of the command line.

A plain `kvwal get ROOT BUSINESS KEY` is what shell scripts call in loops, and typer alone takes longer to load than such a
command may last. So it is answered here, with nothing loaded but the reader of the log; everything else goes to `app`.
"""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType

from kvwal.errors import Kind, KvwalError

EXIT_CODES = {Kind.CALLER: 2, Kind.RETRY: 3, Kind.DAMAGE: 4, Kind.BUG: 70}
INTERRUPTED = 130


def main() -> None:
    """Run the command that was typed, and leave with its exit code."""
    sys.excepthook = report_bug
    try:
        from kvwal.cli.app import app

        app()
    except KvwalError as error:
        sys.stdout.flush()
        print(f"kvwal: {error}", file=sys.stderr)
        sys.exit(EXIT_CODES[error.kind])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that nobody foresaw: the trace is what a report needs, and the exit code says whose fault it is."""
    traceback.print_exception(kind, error, trace)
    print(
        "kvwal: this is a bug; please report it with the lines above. What was acknowledged is safe.", file=sys.stderr
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODES[Kind.BUG])
