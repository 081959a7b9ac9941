"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=.:archive python tests/golden/log-7/make.py

A log with large values, with a fixed clock and fixed salts: a segment of format 1 with a key of the map; a segment of format 4
with two large values of the map, of which one expires, and one item of a queue; a snapshot of all of them, of format 4; and a
segment of format 4 with one more large value. Beside it stands the claim file.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import google_crc32c

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.content.claim import Claim
from kvwal.content.folder import claim_path
from kvwal.entry import CLAIMED, Entry, encode_entries, make_entry
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.format import WITH_LARGE_VALUES, Header
from kvwal.log.files.names import segment_name, snapshot_name
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.structures.queue.positions import item_class, key_of, queue_structure

HERE = Path(__file__).resolve().parent
START_MS = 1767225600000
FILE = "5eed5eed5eed5eed5eed5eed5eed5eed"
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


class Values:
    """The large values, one behind the other."""

    def __init__(self) -> None:
        self.data = b""

    def claimed(self, value: object) -> tuple[bytes, str]:
        """The claim on a value, and its class."""
        data, value_class = registry.encode_value(value)
        claim = Claim(FILE, len(self.data), len(data), int(google_crc32c.value(data)), "")
        self.data += data
        return claim.value(), CLAIMED + value_class


def at(entry: Entry, ms: int) -> Entry:
    """An entry with the timestamp of `ms` milliseconds after START_MS."""
    return make_entry(
        entry.key, entry.key_class, entry.value, entry.value_class, False, START_MS + ms << 16, entry.expires
    )


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(1)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    values = Values()
    small = Entry(b"state", "str", *registry.encode_value("begun"), False, 0)
    plan = Entry(b"plan", "str", *values.claimed({"text": "x" * 300, "number": 1}), False, 0)
    log = make_entry(b"log", "str", *values.claimed(bytes(range(256)) * 2), False, 0, START_MS + (1 << 40))
    item = Entry(
        key_of(0, (START_MS + 2 << 16) - 1), item_class(queue_structure("todo")), *values.claimed("y" * 300), False, 0
    )
    last = Entry(b"last", "str", *values.claimed("z" * 300), False, 0)
    appender = Appender(OS_DISK, Clock(), HERE, HEADER, Settings(), [])
    appender.append([encode_entries([at(small, 0)])], 1, sync=True)
    for ms, entries in enumerate(([plan, log], [item]), start=1):
        block = [at(entry, ms) for entry in entries]
        appender.append([encode_entries(block)], len(block), sync=True, format=WITH_LARGE_VALUES)
    appender.rotate()
    checkpoint(OS_DISK, Clock(), HERE, appender.sealed, entry_decoder())
    appender.append([encode_entries([at(last, 3)])], 1, sync=True, format=WITH_LARGE_VALUES)
    appender.close(seal=True)
    path = claim_path(HERE, FILE)
    path.parent.mkdir(parents=True)
    path.write_bytes(values.data)
    names = {path.name for path in HERE.iterdir() if path.suffix in (".wal", ".snapshot")}
    assert names == {segment_name(1), segment_name(2), snapshot_name(4), segment_name(5)}, names


if __name__ == "__main__":
    main()
