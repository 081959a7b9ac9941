"""The size of the log and of the archive on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, ratio_row

QUESTION = Question(
    "size",
    "How many bytes does an entry take?",
    "for the archive, the same rows written by polars as zstd Parquet; for the log, 108 bytes of key and value.",
    "nothing. Every file under the root, or in the archive, counts.",
)
NEVER = 1e9


def bytes_under(folder: Path, pattern: str) -> int:
    """The size of the files on the disk, in whole blocks."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob(pattern) if path.is_file())


def by_polars(archive: Path, scratch: Path) -> int:
    """The baseline: the bytes of the same rows in files that polars wrote."""
    import polars

    total = 0
    for path in archive.rglob("*.parquet"):
        polars.read_parquet(path).write_parquet(scratch / path.name, compression="zstd")
        total += (scratch / path.name).stat().st_size
    return total


def measure(run: Run) -> list[Row]:
    """Two rows: bytes an entry of the log, and bytes of the archive beside those of polars."""
    entries = run.size(1_000_000, 20_000)
    root, archive = run.root(), run.root()
    settings = kvwal.Settings(archive_seconds=NEVER, checkpoint_seconds=NEVER, checkpoint_bytes=1 << 50)
    with kvwal.open(root, archive=None, flush="os", settings=settings) as store:
        jobs = store.map("bench")
        for first in range(0, entries, 100):
            jobs.put_many({f"{key:08d}": os.urandom(100) for key in range(first, first + 100)})
    on_disk = bytes_under(root, "*")
    with kvwal.open(root, archive=str(archive), settings=settings) as store:
        store.map("bench")
        store.archive()
    objects = sum(path.stat().st_size for path in archive.rglob("*.parquet"))
    return [
        absolute_row(
            "The log, groups of 100 (100 B value, 8 B key)", "bytes/entry", [108.0], [on_disk / entries], "at most", 145
        ),
        ratio_row("The archive", "bytes", [float(by_polars(archive, run.root()))], [float(objects)], "at most", 1.1),
    ]
