"""The archiver's jobs on a log of a given size, in a process of their own: how much the memory of the process grew.

    python -m tests.support.archive.archiver_memory seed|put|compact ROWS FOLDER

Prints the growth of the resident memory in bytes, from before the job to its highest. The bounds of rows in memory are small,
so that a small log is many times as large as they are.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kvwal.archiver.jobs import Archive, Archived, ArchiveTarget, Compact, Compacted, SegmentRef
from kvwal.archiver.work import answer
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.segment import SealedSegment
from kvwal.log.files.snapshot import write_snapshot
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place

CHECKOUT = Path(__file__).parents[3]
PLACE = Place("default", "local", "b", "n")
VALUE_BYTES = 1000
BLOCK_ROWS = 500
GROUP_BYTES = 2 << 20
INPUTS = 5
SMALL = {
    "kvwal_archive.parquet.object_file.ROW_GROUP_BYTES": GROUP_BYTES,
    "kvwal_archive.merge.BATCH_BYTES": GROUP_BYTES,
    "kvwal_archive.merge.BUDGET_BYTES": 2 * GROUP_BYTES,
    "kvwal.archiver.work.OBJECT_BYTES": 2 * GROUP_BYTES,
}


def grown(what: str, rows: int, folder: Path) -> int:
    """Bytes by which the memory of an archiver, a process of its own, grew during a job on `rows` rows."""
    command = [sys.executable, "-m", "tests.support.archive.archiver_memory", what, str(rows), str(folder)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=CHECKOUT).stdout)


def blocks(rows: int) -> Iterator[Sequence[Any]]:
    """Sorted entries of random values, which zstd cannot make smaller."""
    chance = random.Random(rows)
    for first in range(0, rows, BLOCK_ROWS):
        yield [
            Entry(b"%09d" % row, "str", chance.randbytes(VALUE_BYTES), "bytes", False, (row + 1) << 16)
            for row in range(first, min(rows, first + BLOCK_ROWS))
        ]


def header(first: int) -> Header:
    return Header(
        log_id="0" * 32, namespace="default", cluster="local", business="b", node="n", epoch=1, first_sequence=first,
        previous_crc=0, salt=0, created_ms=0,
    )  # fmt: skip


def resident(field: str) -> int:
    """A size of this process's memory in /proc: VmRSS, or VmHWM, its highest."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def seed(rows: int, folder: Path) -> Archive:
    """The log is a snapshot alone: the archive begins with it."""
    begun = SnapshotHeader(
        **{name: getattr(header(1), name) for name in Header.__struct_fields__},
        last_sequence=rows, last_crc=7, last_timestamp=(rows + 1) << 16,
    )  # fmt: skip
    write_snapshot(OS_DISK, SYSTEM, folder, begun, blocks(rows))
    return job(folder, [], rows, 7)


def put(rows: int, folder: Path) -> Archive:
    """The log is sealed segments."""
    sealed: list[SealedSegment] = []
    appender = Appender(OS_DISK, SYSTEM, folder, header(1), Settings(segment_bytes=GROUP_BYTES), sealed)
    for block in blocks(rows):
        appender.append([encode_entries(block)], len(block), sync=False)
    appender.rotate()
    appender.close(seal=True)
    return job(folder, [SegmentRef.of(segment) for segment in sealed], sealed[-1].last, sealed[-1].crc)


def job(folder: Path, refs: list[SegmentRef], ends: int, crc: int) -> Archive:
    target = ArchiveTarget(str(folder / "archive"), PLACE, "0" * 32)
    return Archive(target, str(folder), refs, ends, crc, 1 << 60)


def main(what: str, rows: int, folder: Path) -> None:
    folder.mkdir()
    given: Archive | Compact = (seed if what == "seed" else put)(rows, folder)
    if what == "compact":  # always the same number of inputs: each holds a page of each column
        with patch("kvwal.archiver.work.OBJECT_BYTES", rows * VALUE_BYTES // INPUTS):
            assert isinstance(answer(given), Archived)
        given = Compact(given.target, str(folder), 0, 0)
    answer_to_a_small_job(folder)
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    before = resident("VmRSS")
    done = answer(given)
    assert isinstance(done, Archived | Compacted), done
    assert not isinstance(done, Compacted) or done.written
    print(resident("VmHWM") - before)


def answer_to_a_small_job(folder: Path) -> None:
    """Do a small job first: what is imported and set up once is no growth."""
    small = folder / "small"
    small.mkdir()
    answer(put(10, small))


if __name__ == "__main__":
    patches = [patch(name, value) for name, value in SMALL.items()]
    for each in patches:
        each.start()
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
