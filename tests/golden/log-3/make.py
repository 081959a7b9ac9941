"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=. python tests/golden/log-3/make.py

A log whose snapshot has compressed blocks, with a fixed clock and fixed salts: a base of 105 keys, in one block that is
compressed and one that is not, because its values are random. Behind it a segment with a change of a key of each. The segment
that the snapshot covers is gone.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random

import msgspec

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.names import segment_name, snapshot_name
from kvwal.log.files.snapshot import write_snapshot
from kvwal.ports.disk import OS_DISK

HERE = Path(__file__).resolve().parent
START_MS = 1767225600000
HEADER = Header(
    log_id="6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d", namespace="spark", cluster="local", business="jobs", node="node-1",
    epoch=1, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
)  # fmt: skip


class Clock:
    """Stands still, and draws the same numbers in every run."""

    def __init__(self) -> None:
        self._drawn = count(1)

    def wall_ms(self) -> int:
        return START_MS

    def elapsed(self) -> float:
        return 0.0

    def random_bits(self, bits: int) -> int:
        return 0x5A175A17 * next(self._drawn) % (1 << bits)


def put(key: str, value: object, ms: int) -> Entry:
    """A put, so many milliseconds after the start."""
    return Entry(*registry.encode_key(key), *registry.encode_value(value), False, START_MS + ms << 16)


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(106)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    chance, clock = Random(7), Clock()
    alike = [put(f"alike-{n:02d}", {"state": "RUNNING", "tries": n}, n) for n in range(100)]
    random = [put(f"random-{n}", chance.randbytes(1000), 100 + n) for n in range(5)]
    appender = Appender(OS_DISK, clock, HERE, HEADER, Settings(), [])
    appender.append([encode_entries(alike), encode_entries(random)], 105, sync=True)
    appender.rotate()
    appender.append([encode_entries([put("alike-07", "newest", 105), put("random-3", "newest", 106)])], 2, sync=True)
    appender.close(seal=True)
    covered = appender.sealed[0]
    fields = msgspec.structs.asdict(HEADER) | {
        "last_sequence": covered.last, "last_crc": covered.crc, "last_timestamp": random[-1].timestamp,
    }  # fmt: skip
    write_snapshot(OS_DISK, clock, HERE, SnapshotHeader(**fields), [alike, random])
    covered.path.unlink()
    assert (HERE / snapshot_name(105)).exists()


if __name__ == "__main__":
    main()
