"""A checkpoint takes no more memory for a large snapshot than for a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from tests.support.log.logs import header

MIB = 1 << 20
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
folder, *numbers = sys.argv[1:]
segment = SealedSegment(Path(folder), *map(int, numbers))
before = peak()
done = checkpoint(OS_DISK, SYSTEM, segment.path.parent, [segment], entry_decoder())
print(peak() - before, done.entries)
"""


def test_the_old_snapshot_passes_through_a_few_megabytes(tmp_path: Path) -> None:
    appender = Appender(OS_DISK, SYSTEM, tmp_path, header(), Settings(), [])

    def write(keys: range) -> None:
        for key in keys:
            entries = [Entry(b"%06d" % (key * 10 + n), "str", b"v" * 6000, "bytes", False, key + 1) for n in range(10)]
            appender.append([encode_entries(entries)], 10, sync=False)
        appender.rotate()

    write(range(1000))
    done = checkpoint(OS_DISK, SYSTEM, tmp_path, appender.sealed, entry_decoder())
    assert done is not None
    assert done.size > 55 * MIB
    write(range(3))
    last = appender.sealed[-1]
    appender.close(seal=True)
    command = [sys.executable, "-c", BESIDE, *map(str, last)]
    grown, entries = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(entries) == 10_000
    assert int(grown) < 30 * MIB
