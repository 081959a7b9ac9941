"""How tests/golden/segment-1.wal and snapshot-1.snapshot were made, once, by the code of format 1:

    python -m tests.golden.make_log_1

They are what users of that version have on their disks, so they are never made again: whatever is there already is refused.
A later format gets files, and a script, of its own.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries, make_entry
from kvwal.hlc import HybridClock
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.format import Header
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from tests.support.faults import START_MS, FakeClock

HERE = Path(__file__).parent
SEGMENT = HERE / "segment-1.wal"
SNAPSHOT = HERE / "snapshot-1.snapshot"
HEADER = Header(
    log_id="6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d", namespace="spark", cluster="local", business="jobs", node="node-1",
    epoch=1, first_sequence=1, previous_crc=0, salt=0, created_ms=0,
)  # fmt: skip
GROUPS: list[list[list[tuple[str, object, int]]]] = [
    [[("K", 1, 0)]],
    [[("K", 2, 0)], [("K", None, 0)]],
    [[("K", 3, 0), ("gone", None, 0), ("login", {"by": "me"}, START_MS + 60_000)]],
    [[("K", 4, 0)]],
]
"""Groups of transactions of (key, value, expires); None deletes. One block a group; a millisecond passes between two."""


def write_segment(folder: Path) -> Path:
    """The groups, in a segment that was closed as usual."""
    clock, hybrid = FakeClock(), HybridClock()
    appender = Appender(OS_DISK, clock, folder, HEADER, Settings(), [])
    for group in GROUPS:
        entries: list[Entry] = []
        for transaction in group:
            timestamp = hybrid.stamp(clock.ms)
            entries += [_entry(*change, timestamp) for change in transaction]
        appender.append([encode_entries(entries)], len(entries), sync=True)
        clock.ms += 1
    appender.close(seal=True)
    checkpoint(OS_DISK, clock, folder, appender.sealed, entry_decoder())
    return appender.sealed[0].path


def _entry(key: str, value: object, expires: int, timestamp: int) -> Entry:
    data, key_class = registry.encode_key(key)
    encoded, value_class = (b"", "") if value is None else registry.encode_value(value)
    return make_entry(data, key_class, encoded, value_class, value is None, timestamp, expires)


def main() -> None:
    """Make both files, unless one of them is there."""
    if SEGMENT.exists() or SNAPSHOT.exists():
        raise SystemExit(f"{SEGMENT.name} or {SNAPSHOT.name} is there: golden files are never made again")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copyfile(write_segment(Path(folder)), SEGMENT)
        (snapshot,) = Path(folder).glob("*.snapshot")
        shutil.copyfile(snapshot, SNAPSHOT)


if __name__ == "__main__":
    main()
