#!/usr/bin/env python3
"""Run a program in a container, and end as it does; but when its configuration is wrong (exit code 2), wait to be stopped.

`hold.py PROGRAM ARGUMENT…`. A container engine that restarts every program that ended cannot tell a wrong option from a crash:
it would start the program for ever. Held, the container is there, is unhealthy, and its log ends with the program's own sentence.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType

WRONG_CONFIGURATION = 2
STOPS = (signal.SIGTERM, signal.SIGINT)


def main(words: list[str]) -> int:
    """The exit code of the program; of one that a signal ended, 128 and its number, as shells have it."""
    if not words:
        print("hold.py needs a program to run.", file=sys.stderr)
        return WRONG_CONFIGURATION
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there is a program to pass them on to
    program = subprocess.Popen(words, preexec_fn=_unblock)

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
        print(
            "kvwal-hold: the configuration is wrong, as said above; the program is not started again."
            " Mend it, then start the container anew.",
            file=sys.stderr,
            flush=True,
        )
        signal.sigwait(STOPS)
    return code if code >= 0 else 128 - code


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
