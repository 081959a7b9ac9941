"""The archiver process: a job a line on standard input, an answer a line on standard output, until the input ends.

It runs at low priority, with one thread for Arrow: the writers of the parent need the processor and the disk more.
"""

from __future__ import annotations

import os
import signal
import sys

import pyarrow as pa

from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer

NICE = 10


def main() -> None:
    """Serve the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the parent, which then closes our input
    os.nice(NICE)
    pa.set_cpu_count(1)
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    for line in sys.stdin.buffer:
        output.write(encode(answer(decode_job(line))) + b"\n")
        output.flush()


if __name__ == "__main__":
    main()
