#!/usr/bin/env python3
"""The entry point of a container: run a program and exit with its code, but wait to be stopped after exit code 2.

`hold.py PROGRAM ARGUMENT…`. Exit code 2 means a wrong configuration. A container engine restarts a program after any exit, and
would restart this one for ever. A held container stays up and unhealthy, and its log ends with the program's error message.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from types import FrameType

WRONG_CONFIGURATION = 2
STOPS = (signal.SIGTERM, signal.SIGINT)
HELD = "kvwal-held"
"""A file for kvwal-ready, which then does not wait for the program. It is gone when the container starts again."""
SENTENCE = (
    "kvwal-hold: the configuration is wrong, as the log says above; the program is not started again."
    " Correct the configuration, then start the container again."
)


def main(command: list[str]) -> int:
    """Run the command. The exit code is that of the program; after a signal it is 128 plus its number, as in shells."""
    if not command:
        print("hold.py needs a program to run.", file=sys.stderr)
        return WRONG_CONFIGURATION
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the program runs and can receive them
    program = subprocess.Popen(command, preexec_fn=_unblock)

    stopped: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        program.send_signal(number)

    for stop in STOPS:
        signal.signal(stop, pass_on)
    _unblock()
    code = program.wait()
    if code == WRONG_CONFIGURATION and not stopped:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        with suppress(OSError):  # without a folder for it the check only takes longer
            (Path(tempfile.gettempdir()) / HELD).write_text(SENTENCE)
        print(json.dumps({"level": "error", "event": SENTENCE}), file=sys.stderr, flush=True)
        signal.sigwait(STOPS)
    return code if code >= 0 else 128 - code


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
