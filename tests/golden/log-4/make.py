"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=. python tests/golden/log-4/make.py

A log with a transaction in an overflow file, between two transactions in blocks, with a fixed clock and fixed salts.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.files.format import Header
from kvwal.log.files.names import segment_name
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
    """A put at `ms` milliseconds after START_MS."""
    return Entry(*registry.encode_key(key), *registry.encode_value(value), False, START_MS + ms << 16)


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(1)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    appender = Appender(OS_DISK, Clock(), HERE, HEADER, Settings(), [])
    appender.append([encode_entries([put("a", "old", 0), put("b", "old", 0)])], 2, sync=True)
    large = [put(f"large-{number:02d}", {"state": "DONE", "tries": number}, 0) for number in range(40)]
    written = appender.write_overflow([*large, put("a", "large", 0)])
    payload = appender.place_overflow(written, 0, START_MS + 1 << 16)
    appender.append([payload, encode_entries([put("b", "new", 2)])], 42, sync=True)
    appender.close(seal=True)


if __name__ == "__main__":
    main()
