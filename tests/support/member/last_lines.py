"""What nodes said last, for the report of a test that failed: why a node ended stands in its own log, which CI deletes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LINES = 40
"""Of each log, at its end."""


def last_lines(folder: Path, since: float) -> Iterator[tuple[str, str]]:
    """Each log of a node (`tests.support.cluster.nodes`) below the folder that was written after `since`, in seconds since the
    epoch: its name and its last lines."""
    for log in sorted(folder.rglob("*-node-*.log")):
        if log.stat().st_mtime >= since:
            yield str(log.relative_to(folder)), "\n".join(log.read_text(errors="replace").splitlines()[-LINES:])
