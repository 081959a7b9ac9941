"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=. python tests/golden/log-1/make.py

A log of format 1 with a fixed clock and fixed salts: a first segment with the five entries of one key (the worked example of
docs/format/segment.md), the snapshot of it, and a second segment with every built-in codec, an entry that expires, and a group
of two blocks.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries, make_entry
from kvwal.log.appender import Appender
from kvwal.log.format import Header, SnapshotHeader
from kvwal.log.names import segment_name, snapshot_name
from kvwal.log.snapshot import write_snapshot
from kvwal.ports.disk import OS_DISK

HERE = Path(__file__).resolve().parent
START_MS = 1767225600000
HEADER = Header(
    log_id="6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d", namespace="spark", cluster="local", business="jobs", node="node-1",
    epoch=1, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
)  # fmt: skip
VALUES = ["text", -1, 2.5, True, None, b"\x00\xff", {"state": "RUNNING", "tries": [1, 2]}]


class Clock:
    """Stands still, and draws the same numbers in every run."""

    def __init__(self) -> None:
        self.drawn = 0

    def wall_ms(self) -> int:
        return START_MS

    def elapsed(self) -> float:
        return 0.0

    def random_bits(self, bits: int) -> int:
        self.drawn += 1
        return 0x5A175A17 * self.drawn % (1 << bits)


def put(key: object, value: object, ms: int, expires: int = 0) -> Entry:
    """A put, so many milliseconds after the start."""
    encoded = (*registry.encode_key(key), *registry.encode_value(value))
    return make_entry(*encoded, False, START_MS + ms << 16, expires)


def delete(key: object, ms: int) -> Entry:
    """A delete, so many milliseconds after the start."""
    return Entry(*registry.encode_key(key), b"", "", True, START_MS + ms << 16)


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    first = [[put("K", 1, 0), put("K", 2, 1), delete("K", 2)], [put("K", 3, 3), put("K", 4, 4)]]
    keys = ["ß", 7, -2.5, False, None, b"\x00"]
    blocks = [
        [put(key, value, 5) for key, value in zip(keys, VALUES[1:], strict=True)],
        [put("K", VALUES[0], 6), put("gone", 1, 6, expires=START_MS + 1000), delete("never", 6)],
    ]
    if (HERE / segment_name(1)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    clock = Clock()
    appender = Appender(OS_DISK, clock, HERE, HEADER, Settings(), [])
    for group in first:
        appender.append([encode_entries(group)], len(group), sync=True)
    appender.rotate()
    appender.append([encode_entries(block) for block in blocks], sum(map(len, blocks)), sync=True)
    appender.close(seal=True)
    done = appender.sealed[0]
    fields = msgspec.structs.asdict(HEADER) | {
        "last_sequence": done.last, "last_crc": done.crc, "last_timestamp": first[-1][-1].timestamp,
    }  # fmt: skip
    write_snapshot(OS_DISK, clock, HERE, SnapshotHeader(**fields), [[first[-1][-1]]])
    assert (HERE / snapshot_name(5)).exists()


if __name__ == "__main__":
    main()
