"""redis-benchmark, Redis's own program for its own speed: in C, so faster than any client of Python."""

from __future__ import annotations

import csv
import subprocess
from pathlib import Path

from benchmarks.peers.servers import server
from benchmarks.peers.workloads import REDIS_VALUE

COMMAND = "redis-benchmark"
KEYS = 1_000_000


def run(folder: Path, tests: list[str], requests: int, clients: int, pipeline: int = 1) -> dict[str, float]:
    """Requests a second of each test, against a server of its own that syncs before it answers."""
    with server("redis", folder) as opening:
        words = [
            COMMAND, "-p", str(opening.port), "-t", ",".join(tests), "-n", str(requests), "-c", str(clients),
            "-P", str(pipeline), "-d", str(REDIS_VALUE), "-r", str(KEYS), "--csv",
        ]  # fmt: skip
        ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return parse(ran.stdout)


def parse(output: str) -> dict[str, float]:
    """Requests a second by the name of the test. The first line is a head since Redis 7, and was none before."""
    lines = [line for line in csv.reader(output.splitlines()) if len(line) > 1]
    return {line[0]: float(line[1]) for line in lines if line[0] != "test"}
