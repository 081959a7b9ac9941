"""How the files beside this one were made, once. They are never made again: every later version must read this log.

    PYTHONPATH=.:archive python tests/golden/log-6/make.py

A log with contents, with a fixed clock and fixed salts: a segment of format 1 with a key of the map; a segment of format 2 with
an item of a queue; a segment of format 3 with three contents (two in one claim file, one in a file of its own), a copy, and a
delete with a key of the map; a snapshot of all of them, of format 3; and a segment of format 3 with one more content. Beside it
stand the claim files. docs/format/content.md shows the first content as its worked example.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

from kvwal.codecs import registry
from kvwal.config import Settings
from kvwal.content.claim import Claim
from kvwal.content.digest import Digest
from kvwal.content.folder import claim_path
from kvwal.entry import Entry, encode_entries
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.format import WITH_CONTENT, WITH_QUEUES, Header
from kvwal.log.files.names import segment_name, snapshot_name
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.structures.content.names import content_structure, delete_entry, key_class_of, put_entry
from kvwal.structures.queue.positions import item_class, key_of, queue_structure

HERE = Path(__file__).resolve().parent
START_MS = 1767225600000
SHARED, LARGE = "5eed5eed5eed5eed5eed5eed5eed5eed", "a11c0a11c0a11c0a11c0a11c0a11c0a1"
FILES = key_class_of(content_structure("files"))
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


class ClaimFile:
    """A claim file of this log."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._data = b""

    def claim(self, data: bytes, **attributes: str) -> Claim:
        """Add a content at the end."""
        digest = Digest()
        digest.add(data)
        claim = Claim(self._name, len(self._data), len(data), digest.crc32c, digest.sha256, attributes)
        self._data += data
        return claim

    def write(self) -> None:
        """Write the file beside the log."""
        path = claim_path(HERE, self._name)
        path.parent.mkdir(parents=True)
        path.write_bytes(self._data)


def at(entry: Entry, ms: int) -> Entry:
    """An entry with the timestamp of `ms` milliseconds after START_MS."""
    return Entry(entry.key, entry.key_class, entry.value, entry.value_class, entry.deleted, START_MS + ms << 16)


def put(key: str, value: object) -> Entry:
    """A put of the map."""
    return Entry(*registry.encode_key(key), *registry.encode_value(value), False, 0)


def main() -> None:
    """Write the files into this folder; a second time is refused."""
    if (HERE / segment_name(1)).exists():
        raise SystemExit("The golden files are there, and are never made again.")
    shared, large = ClaimFile(SHARED), ClaimFile(LARGE)
    report = shared.claim(b"all is well\n", codec="", of="job 1")
    log, gone, last = large.claim(bytes(range(256)) * 4), shared.claim(b"gone"), shared.claim(b"new")
    item = Entry(
        key_of(0, (START_MS + 1 << 16) - 1), item_class(queue_structure("todo")), *registry.encode_value("a"), False, 0
    )
    appender = Appender(OS_DISK, Clock(), HERE, HEADER, Settings(), [])
    appender.append([encode_entries([at(put("state", "begun"), 0)])], 1, sync=True)
    appender.append([encode_entries([at(item, 1)])], 1, sync=True, format=WITH_QUEUES)
    for ms, together in enumerate(
        (
            [put_entry(FILES, b"report", report)],
            [put_entry(FILES, b"log/1", log), put_entry(FILES, b"gone", gone)],
            [put_entry(FILES, "log/é".encode(), log)],
            [delete_entry(FILES, b"gone"), put("state", "done")],
        ),
        start=2,
    ):
        entries = [at(entry, ms) for entry in together]
        appender.append([encode_entries(entries)], len(entries), sync=True, format=WITH_CONTENT)
    appender.rotate()
    checkpoint(OS_DISK, Clock(), HERE, appender.sealed, entry_decoder())
    appender.append([encode_entries([at(put_entry(FILES, b"new", last), 6)])], 1, sync=True, format=WITH_CONTENT)
    appender.close(seal=True)
    shared.write()
    large.write()
    names = {path.name for path in HERE.iterdir() if path.suffix in (".wal", ".snapshot")}
    assert names == {segment_name(1), segment_name(2), segment_name(3), snapshot_name(8), segment_name(9)}, names


if __name__ == "__main__":
    main()
