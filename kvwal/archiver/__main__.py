"""The archiver process: one job a line on standard input, one answer a line through a pipe of its own, until the input ends.

It has one thread for Arrow, because the parent's writers need the processor more, and the priority of its parent, because
members of a cluster wait for it.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.ports.processes import serve_parent
from kvwal.ports.tasks import side_by_side

THREADS = 8
"""Number of small jobs at a time. They mostly wait for an fsync or a bucket."""


def main() -> None:
    """Serve the jobs of the parent process."""
    pa.set_cpu_count(1)
    run = partial(side_by_side, threads=THREADS)
    serve_parent(lambda line: encode(answer(decode_job(line), run=run)))


if __name__ == "__main__":
    main()
