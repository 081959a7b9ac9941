"""A program of kvwal on a machine whose clock is wrong: python -m tests.support.cluster.shifted SECONDS PROGRAM [ARGUMENT…]

SECONDS is how far its clock is ahead. The program shifts the clock port, which is where all of kvwal's code reads the time.
"""

from __future__ import annotations

import runpy
import sys
import time

from kvwal.ports.clock import SystemClock


def main() -> None:
    """Run it."""
    ahead = int(float(sys.argv[1]) * 1000)
    SystemClock.wall_ms = lambda self: time.time_ns() // 1_000_000 + ahead  # type: ignore[method-assign]
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
