"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=. python tests/golden/log-2/make.py

A log whose snapshot is a base and two deltas, with a fixed clock and fixed salts: a base of three keys up to sequence 3, a delta
up to 6 that deletes one of them, a delta up to 8, and a segment behind it. The segments that the snapshot covers are gone.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.format import SnapshotHeader
from kvwal.log.names import segment_name, snapshot_name
from kvwal.log.snapshot import write_snapshot
from kvwal.ports.disk import OS_DISK

HERE = Path(__file__).resolve().parent
_FIRST = importlib.util.spec_from_file_location("log_1", HERE.parent / "log-1" / "make.py")
assert _FIRST is not None
assert _FIRST.loader is not None
log_1 = importlib.util.module_from_spec(_FIRST)
_FIRST.loader.exec_module(log_1)
put, delete = log_1.put, log_1.delete

GROUPS = [
    [put("a", "base", 0), put("b", "base", 1), put("c", "base", 2)],
    [put("b", "delta", 3), delete("c", 4), put("d", "delta", 5, expires=log_1.START_MS + 1000)],
    [put("a", "newest", 6), put(1, "newest", 7)],
    [put("b", "tail", 8), delete("nothing", 9)],
]


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(9)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    clock = log_1.Clock()
    appender = Appender(OS_DISK, clock, HERE, log_1.HEADER, Settings(), [])
    for group in GROUPS:
        appender.append([encode_entries(group)], len(group), sync=True)
        appender.rotate()
    appender.close(seal=False)
    for group, segment in zip(GROUPS[:-1], appender.sealed, strict=False):
        fields = msgspec.structs.asdict(log_1.HEADER) | {
            "first_sequence": segment.first, "previous_crc": segment.previous_crc, "last_sequence": segment.last,
            "last_crc": segment.crc, "last_timestamp": group[-1].timestamp,
        }  # fmt: skip
        entries: list[Entry] = sorted(group, key=lambda entry: (entry.key_class, entry.key))
        write_snapshot(OS_DISK, clock, HERE, SnapshotHeader(**fields), [entries])
        segment.path.unlink()
    (HERE / segment_name(11)).unlink()
    assert (HERE / snapshot_name(8, 7)).exists()


if __name__ == "__main__":
    main()
