"""Counting the calls that make data durable, by strace: the proof that all contestants promise the same."""

from __future__ import annotations

import re
from pathlib import Path

SYNCS = ("fsync", "fdatasync", "msync", "sync_file_range", "sync", "syncfs")
LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def wrapper(report: Path) -> list[str]:
    """What goes before a command, so that its calls, its threads' and its children's are counted into `report`."""
    return ["strace", "--follow-forks", "--summary-only", "-o", str(report), "-e", f"trace={','.join(SYNCS)}"]


def calls(report: str) -> dict[str, int]:
    """The number of calls by name, from a report of strace."""
    return {name: int(count) for count, name in LINE.findall(report) if name in SYNCS}


def total(report: Path) -> int:
    """All calls that make data durable. `sync_file_range` does not: it promises nothing after a power loss."""
    return sum(count for name, count in calls(report.read_text()).items() if name != "sync_file_range")
