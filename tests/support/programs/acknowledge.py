"""Puts, transactions and conditional writes, each acknowledged by a line on standard output: for a tracer to watch.

python -m tests.support.programs.acknowledge ROOT THREADS
"""

from __future__ import annotations

import os
import sys
import threading

import kvwal

WRITES = 30


def write(jobs: kvwal.Map, name: int) -> None:
    """One thread."""
    for count in range(WRITES):
        if count % 3 == 0:
            jobs.put(f"{name}", count)
        elif count % 3 == 1:
            jobs.put_many({f"{name}": count, f"{name}-also": count})
        else:
            jobs.replace(f"{name}", count - 1, count)
        os.write(1, f"acknowledged {name} {count}\n".encode())


def main() -> None:
    """Write, then leave."""
    with kvwal.open(sys.argv[1], archive=None) as store:
        jobs = store.map("jobs")
        os.write(1, b"opened\n")
        threads = [threading.Thread(target=write, args=(jobs, name)) for name in range(int(sys.argv[2]))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        os.write(1, b"written\n")


if __name__ == "__main__":
    main()
