"""Entry point of the command line.

Shell scripts call a plain `kvwal get FOLDER MAP KEY` in loops, and loading typer takes longer than this command may take. So
`main` answers it with the reader of the log alone; every other command goes to `run_command`.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from kvwal.cli.output import OutputFailed, leave, prepare_streams
from kvwal.cli.text import is_text, shown, visible
from kvwal.codecs import registry
from kvwal.entry import is_claimed
from kvwal.errors import EXIT_CODES, Kind, KvwalError
from kvwal.history.reads.stable_read import live_entry
from kvwal.ports.disk import OS_DISK

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells give it to a program that SIGINT ended."""


def main() -> None:
    """Run the command that was typed, and exit with its exit code."""
    sys.excepthook = report_bug
    prepare_streams()
    try:
        try:
            run()
        except SystemExit:
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except OutputFailed as failed:
        sys.exit(leave(failed))


def run() -> None:
    """Run the command that was typed.

    Raises `SystemExit` with an exit code other than 0, and `OutputFailed` if standard output did not take the answer.
    """
    try:
        if is_plain_get(sys.argv[1:]) and answer(*sys.argv[2:]):
            return
        from kvwal.cli.app import run_command

        log_to_stderr()
        if code := run_command(sys.argv[1:]):
            sys.exit(code)
    except KvwalError as error:
        fail("\n".join([str(error), *getattr(error, "__notes__", [])]), EXIT_CODES[error.kind])
    except PermissionError as error:
        text = f"not allowed to read or write {error.filename} ({error.strerror})."
        fail(f"{text} Run it as the user of the store, or mend owner and mode.", EXIT_CODES[Kind.CALLER])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def fail(sentence: str, code: int) -> NoReturn:
    """Print an error after the output so far, and exit."""
    sys.stdout.flush()
    print("\n".join(map(visible, f"kvwal: {sentence}".split("\n"))), file=sys.stderr)
    sys.exit(code)


def log_to_stderr() -> None:
    """Send log lines of kvwal and its libraries to standard error, apart from the answer.

    Hazelcast's client logs each failed attempt with a stack. The error of the command says it in a sentence.
    """
    from kvwal.ports.logger import log_to

    logging.getLogger("hazelcast").setLevel(logging.CRITICAL + 1)
    log_to(
        logging.StreamHandler(sys.stderr),
        logging.Formatter("kvwal: %(message)s"),
        level=logging.WARNING,
        own_level=logging.WARNING,
    )


def is_plain_get(typed: list[str]) -> bool:
    """Whether the arguments are `get FOLDER MAP KEY` without any option."""
    plain = len(typed) == 4 and typed[0] == "get" and not any(word.startswith("-") for word in typed)
    plain = plain and bool(typed[1]) and ":/" not in typed[1] and not typed[1].startswith("~")
    return plain and is_text(typed[3])


def answer(root: str, business: str, key: str) -> bool:
    """Print the value of a text key over all nodes, in the default namespace and cluster. False if the key is absent, and for a
    large value, which stands elsewhere.
    """
    data, key_class = registry.encode_key(key)
    now_ms = time.time_ns() // 1_000_000
    entry = live_entry(OS_DISK, Path(root), "default", "local", business, None, (key_class, data), now_ms)
    if entry is None or is_claimed(entry.value_class):
        return False
    sys.stdout.buffer.write(shown(entry.value, entry.value_class) + b"\n")
    sys.stdout.buffer.flush()
    return True


def report_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Exception hook for a bug of kvwal: print the trace, and exit with the exit code of bugs."""
    sys.__excepthook__(kind, error, trace)
    print(
        "kvwal: this is a bug; please report it with the lines above. What was acknowledged is safe.", file=sys.stderr
    )
    with suppress(OutputFailed):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_CODES[Kind.BUG])
