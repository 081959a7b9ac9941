"""The archiver process: a job a line on standard input, an answer a line on standard output, until the input ends.

It runs at low priority, with one thread for Arrow: the writers of the parent need the processor and the disk more.
"""

from __future__ import annotations

import pyarrow as pa

from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.ports.processes import serve_parent

NICENESS = 10


def main() -> None:
    """Serve the parent."""
    pa.set_cpu_count(1)
    serve_parent(lambda line: encode(answer(decode_job(line))), niceness=NICENESS)


if __name__ == "__main__":
    main()
