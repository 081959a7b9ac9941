"""Reading a part of a log costs a part of it: one key of a snapshot, one key's past, what only the log still holds."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import pytest

import kvwal
from kvwal.config import Settings
from kvwal.entry import DataEntry, Entry
from kvwal.errors import CorruptLog
from kvwal.history.reads.tail_reader import find_entry, read_local, read_log
from kvwal.log import reader
from kvwal.log.files.format import SnapshotHeader, find_blocks
from kvwal.log.files.snapshot import in_blocks, write_snapshot
from kvwal.log.files.snapshot_reader import SnapshotFile
from kvwal.log.reader import entry_decoder
from kvwal.log.unlocked.sinks import OfIdentity
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place
from tests.support.disk.faults import FakeDisk, open_store

PLACE = Place("default", "local", "jobs", "local")
HEADER = SnapshotHeader(
    log_id="x", namespace="default", cluster="local", business="jobs", node="local", epoch=0, first_sequence=1,
    previous_crc=0, salt=0, created_ms=0, last_sequence=1 << 40, last_crc=0, last_timestamp=1,
)  # fmt: skip


class CountingDisk(FakeDisk):
    """A disk that says what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.whole: list[str] = []
        self.parts = 0

    def read(self, path: Path) -> bytes:
        self.whole.append(path.name)
        return super().read(path)

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        found = super().read_part(path, offset, size)
        self.parts += len(found)
        return found


def snapshot(folder: Path, entries: list[Entry]) -> Path:
    ordered = sorted(entries, key=lambda entry: (entry.key_class, entry.key))
    blocks = in_blocks(ordered, lambda entry: len(entry.key) + len(entry.value))
    return write_snapshot(OS_DISK, SYSTEM, folder, HEADER, blocks)


def public(entry: Entry | None) -> DataEntry | None:
    return None if entry is None else entry.public()


@pytest.mark.parametrize("value_bytes", [20, 40_000])
def test_one_key_of_a_snapshot_is_searched_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value_bytes: int
) -> None:
    monkeypatch.setattr(reader, "_PART_BYTES", 32 << 10)
    chance = random.Random(1)
    count = 100_000 if value_bytes < 1000 else 300
    entries = {}
    for _ in range(count):
        key, name = b"%d" % chance.randrange(10 * count), chance.choice(["bytes", "int", "str"])
        entries[name, key] = Entry(key, name, chance.randbytes(chance.randrange(value_bytes)), "bytes", False, 1)
    path, disk = snapshot(tmp_path, list(entries.values())), CountingDisk()
    asked = [*chance.sample(sorted(entries), 30), min(entries), max(entries)]
    for identity in [*asked, ("a", b""), ("str", b"~"), ("int", b"5x"), ("z", b"")]:
        assert public(SnapshotFile(disk, path).find(entry_decoder(), identity)) == public(entries.get(identity))
    assert value_bytes > 1000 or disk.parts / (len(asked) + 4) < path.stat().st_size * 0.4
    assert not disk.whole
    read = [entry for part in SnapshotFile(disk, path).whole(entry_decoder()) for entry in part]
    assert list(map(public, read)) == [public(entries[identity]) for identity in sorted(entries)]


def test_damage_where_a_key_stands_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PART_BYTES", 32 << 10)
    entries = [Entry(b"%06d" % number, "str", b"v" * 50, "bytes", False, 1) for number in range(20_000)]
    path = snapshot(tmp_path, entries)
    data = bytearray(path.read_bytes())
    salt = SnapshotFile(OS_DISK, path).header.salt
    (block,) = (block for block in find_blocks(bytes(data), 0, salt) if b"010000" in block.payload)
    data[block.end - 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptLog, match="does not verify"):
        SnapshotFile(OS_DISK, path).find(entry_decoder(), ("str", b"010000"))
    assert public(SnapshotFile(OS_DISK, path).find(entry_decoder(), ("str", b"000001"))) == entries[1].public()


def test_one_key_is_the_same_as_all_keys_say(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        jobs.put_many([(f"k{number}", number) for number in range(2000)])
        store.checkpoint()
        jobs.put_many([(f"k{number}", -number) for number in range(0, 2000, 3)])
        jobs.delete("k1")
        for key in ("k0", "k1", "k2", "k1999", "k9999"):
            found = find_entry(OS_DISK, tmp_path, PLACE, ("str", key.encode()))
            assert (found is None or found.deleted) == (key not in jobs)
            assert found is None or found.deleted or found.public() == jobs.entry(key)


def test_a_past_reads_what_the_archive_does_not_hold(tmp_path: Path) -> None:
    disk = CountingDisk()
    with open_store(tmp_path, disk, archive=tmp_path / "archive") as store:
        jobs = store.map("jobs")
        for number in range(4):
            jobs["a"] = number
            store.archive()
        moment = jobs.put("a", 4)
        disk.whole.clear()
        assert [entry.value for entry in jobs.history("a")] == [b"\x81%c" % number for number in (4, 3, 2, 1, 0)]
        assert dict(jobs.at(moment)) == {"a": 4}
        assert len([name for name in disk.whole if name.endswith(".wal")]) <= 2


def test_a_past_decodes_no_block_without_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        for number in range(50):
            jobs.put_many({f"{number}-{other}": number for other in range(100)})
        jobs["the key"] = 1  # of one byte it would be found by chance, in a timestamp
    decode, decoded = entry_decoder(), 0

    def counted(payload: bytes) -> list[Entry]:
        nonlocal decoded
        entries = decode(payload)
        decoded += len(entries)
        return entries

    monkeypatch.setattr("kvwal.history.reads.tail_reader.entry_decoder", lambda: counted)
    assert len(read_log(OS_DISK, tmp_path, PLACE, lambda: OfIdentity(("str", b"the key"))).sink.rows) == 1
    assert decoded < 1000, "of 5,001"


def test_a_past_takes_memory_for_one_segment_at_a_time(tmp_path: Path) -> None:
    settings = Settings(segment_bytes=1 << 20, checkpoint_seconds=1e6, reserve_bytes=0)
    with kvwal.open(tmp_path, archive=None, flush="os", settings=settings) as store:
        jobs = store.map("jobs")
        value = "v" * 1000
        for number in range(40):
            jobs.put_many([(f"{number}-{other}", value) for other in range(500)])
            jobs["a"] = number
        held = len(read_local(OS_DISK, tmp_path, PLACE).tail.entries)
        assert held > 20_000
        tracemalloc.start()
        try:
            assert len(jobs.history("a")) == 40
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 8 << 20, "twenty megabytes of log were held at once"
