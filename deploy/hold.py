#!/usr/bin/env python3
"""The entry point of a container: run a program and exit with its code, but wait to be stopped after exit code 2.

`hold.py PROGRAM ARGUMENT…`. Exit code 2 means a wrong configuration. A container engine restarts a program after any exit, and
would restart this one for ever. A held container stays up and unhealthy, and its log ends with the program's error message.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from types import FrameType

WRONG_CONFIGURATION = 2
STOPS = (signal.SIGTERM, signal.SIGINT)


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
        print(
            "kvwal-hold: the configuration is wrong, as said above; the program is not started again."
            " Correct the configuration, then start the container again.",
            file=sys.stderr,
            flush=True,
        )
        signal.sigwait(STOPS)
    return code if code >= 0 else 128 - code


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
