"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=.:archive python tests/golden/log-5/make.py

A log with a queue, with a fixed clock and fixed salts: a segment of format 1 with two keys of the map; a segment of format 2
with three items, one of which is put before the others by its priority, and a take with a key of the map; a snapshot of both,
of format 2; and a segment of format 2 with one more item. kvwal 07c43a1, the last version without queues, refuses it.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.format import WITH_QUEUES, Header
from kvwal.log.files.names import segment_name, snapshot_name
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.structures.queue.positions import item_class, key_of, queue_structure

HERE = Path(__file__).resolve().parent
START_MS = 1767225600000
ITEMS = item_class(queue_structure("todo"))
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


def item(value: object, priority: int, ms: int) -> Entry:
    """An item whose position is a timestamp before that of its put."""
    key = key_of(priority, (START_MS + ms << 16) - 1)
    return Entry(key, ITEMS, *registry.encode_value(value), False, START_MS + ms << 16)


def take(queued: Entry, ms: int) -> Entry:
    """The delete of an item."""
    return Entry(queued.key, ITEMS, b"", "", True, START_MS + ms << 16)


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(1)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    first, second, urgent, last = item("a", 0, 2), item({"b": 2}, 0, 3), item("urgent", -1, 4), item("c", 0, 6)
    appender = Appender(OS_DISK, Clock(), HERE, HEADER, Settings(), [])
    appender.append([encode_entries([put("moved", 0, 0), put("old", "kept", 1)])], 2, sync=True)
    for together in ([first], [second, urgent], [take(first, 5), put("moved", 1, 5)]):
        appender.append([encode_entries(together)], len(together), sync=True, format=WITH_QUEUES)
    appender.rotate()
    checkpoint(OS_DISK, Clock(), HERE, appender.sealed, entry_decoder())
    appender.append([encode_entries([last])], 1, sync=True, format=WITH_QUEUES)
    appender.close(seal=True)
    names = {path.name for path in HERE.iterdir() if path.suffix != ".py"}
    assert names == {segment_name(1), segment_name(3), snapshot_name(7), segment_name(8)}, names


if __name__ == "__main__":
    main()
