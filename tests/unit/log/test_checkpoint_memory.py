"""A checkpoint takes no more memory for a large snapshot than for a small one, and for many changes about their bytes."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.segment import SealedSegment
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from tests.support.log.logs import header

MIB = 1 << 20
SMALL = 500_000
BESIDE = """
import re, sys
from pathlib import Path
from kvwal.log import checkpoint as checkpoints
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import entry_decoder
from kvwal.log.files.segment import SealedSegment
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

checkpoints.FILE_BYTES = 1 << 40  # of a checkpoint that merges all
told = zip(*[iter(sys.argv[1:])] * len(SealedSegment._fields))
segments = [SealedSegment(Path(path), *map(int, numbers)) for path, *numbers in told]
before = peak()
done = checkpoint(OS_DISK, SYSTEM, segments[0].path.parent, segments, entry_decoder())
print(peak() - before, done.entries)
"""


def test_the_old_snapshot_passes_through_a_few_megabytes(tmp_path: Path) -> None:
    appender, chance = Appender(OS_DISK, SYSTEM, tmp_path, header(), Settings(), []), random.Random(1)

    def write(keys: range) -> None:
        for key in keys:
            values = [chance.randbytes(6000) for _ in range(10)]  # values that are alike would make a small snapshot
            entries = [Entry(b"%06d" % (key * 10 + n), "str", values[n], "bytes", False, key + 1) for n in range(10)]
            appender.append([encode_entries(entries)], 10, sync=False)
        appender.rotate()

    write(range(1000))
    done = checkpoint(OS_DISK, SYSTEM, tmp_path, appender.sealed, entry_decoder())
    assert done is not None
    assert done.size > 55 * MIB
    write(range(3))
    grown, entries = beside(appender, appender.sealed[-1:])
    assert entries == 10_000
    assert grown < 30 * MIB


def test_many_small_changes_take_about_their_bytes(tmp_path: Path) -> None:
    """Not those of as many objects, which are five times as many."""
    appender = Appender(OS_DISK, SYSTEM, tmp_path, header(), Settings(), [])
    for first in range(0, SMALL, 1000):
        entries = [
            Entry(b"%09d" % (key * 7919 % SMALL), "str", b"v" * 20, "bytes", False, key + 1)
            for key in range(first, first + 1000)
        ]
        appender.append([encode_entries(entries)], 1000, sync=False)
    appender.rotate()
    size = sum(segment.size for segment in appender.sealed)
    grown, entries = beside(appender, appender.sealed)
    assert entries == SMALL
    assert size > 20 * MIB
    assert grown < 2 * size + 24 * MIB


def beside(appender: Appender, segments: Sequence[SealedSegment]) -> tuple[int, int]:
    """Checkpoint the segments in a process of its own: how much its memory grew, and the entries of the snapshot."""
    told = [str(value) for segment in segments for value in segment]
    appender.close(seal=True)
    command = [sys.executable, "-c", BESIDE, *told]
    grown, entries = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(grown), int(entries)
