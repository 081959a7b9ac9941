"""The entry of the command line.

A plain `kvwal get ROOT BUSINESS KEY` is what shell scripts call in loops, and typer alone takes longer to load than such a
command may last. So it is answered here, with nothing loaded but the reader of the log; everything else goes to `app`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType

from kvwal.cli.text import shown
from kvwal.codecs import registry
from kvwal.errors import Kind, KvwalError
from kvwal.ports.disk import OS_DISK
from kvwal.reading import live_entry

EXIT_CODES = {Kind.CALLER: 2, Kind.RETRY: 3, Kind.DAMAGE: 4, Kind.BUG: 70}
INTERRUPTED = 130


def main() -> None:
    """Run the command that was typed, and leave with its exit code."""
    sys.excepthook = report_bug
    try:
        if is_plain_get(sys.argv[1:]) and answer(*sys.argv[2:]):
            return
        from kvwal.cli.app import app

        app()
    except KvwalError as error:
        sys.stdout.flush()
        print(f"kvwal: {error}", file=sys.stderr)
        sys.exit(EXIT_CODES[error.kind])
    except PermissionError as error:
        sys.stdout.flush()
        text = f"not allowed to read or write {error.filename} ({error.strerror})."
        print(f"kvwal: {text} Run it as the user of the store, or mend owner and mode.", file=sys.stderr)
        sys.exit(EXIT_CODES[Kind.CALLER])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # whoever read our output has seen enough; nothing may be flushed to it at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_plain_get(typed: list[str]) -> bool:
    """Whether this is `get ROOT BUSINESS KEY` and nothing else."""
    return len(typed) == 4 and typed[0] == "get" and not any(word.startswith("-") for word in typed)


def answer(root: str, business: str, key: str) -> bool:
    """Print the value of a text key over all nodes, in the default namespace and cluster; False if there is none to print."""
    data, key_class = registry.encode_key(key)
    now_ms = time.time_ns() // 1_000_000
    entry = live_entry(OS_DISK, Path(root), "default", "local", business, None, (key_class, data), now_ms)
    if entry is None:
        return False
    sys.stdout.buffer.write(shown(entry.value, entry.value_class) + b"\n")
    sys.stdout.buffer.flush()
    return True


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that nobody foresaw: the trace is what a report needs, and the exit code says whose fault it is."""
    sys.__excepthook__(kind, error, trace)
    print(
        "kvwal: this is a bug; please report it with the lines above. What was acknowledged is safe.", file=sys.stderr
    )
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODES[Kind.BUG])
