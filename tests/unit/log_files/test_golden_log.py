"""A log of format 1 stays readable for ever, with deltas or without, and each field of it that is not what was written has its
own error.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.entry import Entry
from kvwal.errors import ConfigError, CorruptLog, KvwalError, NewerVersion
from kvwal.history.feeds.segment_cursor import SegmentCursor
from kvwal.history.reads.tail_reader import read_local
from kvwal.log.files.format import DURABLE, HEAD_BYTES, Header, checksum, pack_block, unpack_block, unpack_header
from kvwal.log.files.names import log_folder, segment_name, snapshot_name
from kvwal.log.reader import entry_decoder
from kvwal.log.recovery import Recovered, RecoveryTarget, recover
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.inspect import dump
from kvwal.scrub.salvage import salvage
from kvwal_archive.layout import Place
from tests.support.disk.faults import START_MS, FakeClock, open_store

GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden" / "log-1"
DELTAS = GOLDEN.parent / "log-2"
OVERFLOW = GOLDEN.parent / "log-4"
PLACE = Place("spark", "local", "jobs", "node-1")
FIRST, SECOND, SNAPSHOT = segment_name(1), segment_name(6), snapshot_name(5)
# Where the blocks of the first segment begin, as docs/format/segment.md shows them.
BLOCK, NEXT_BLOCK, SEAL = 192, 280, 352
LATEST = {
    "K": "text", "ß": -1, 7: 2.5, -2.5: True, False: None, None: b"\x00\xff",
    b"\x00": {"state": "RUNNING", "tries": [1, 2]},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the golden log, as the log of PLACE under tmp_path."""
    found = log_folder(tmp_path, PLACE)
    found.mkdir(parents=True)
    for name in (FIRST, SECOND, SNAPSHOT):
        shutil.copy(GOLDEN / name, found / name)
    return found


def read(folder: Path) -> tuple[Recovered, list[Entry]]:
    entries: list[Entry] = []
    return recover(OS_DISK, folder, RecoveryTarget(entries.extend, entries.clear), entry_decoder()), entries


def patch(path: Path, offset: int, data: bytes) -> None:
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(data)] = data
    path.write_bytes(whole)


def reseal(path: Path, offset: int, head: bytes) -> None:
    """Give the block at `offset` another bytes 8–11 of its head, and the crc that fits them."""
    data = path.read_bytes()
    unpacked = unpack_header(data)
    assert unpacked is not None
    length = int.from_bytes(data[offset : offset + 4], "little")
    payload = data[offset + HEAD_BYTES : offset + HEAD_BYTES + length]
    crc = checksum(unpacked[0].salt, offset, data[offset : offset + 8] + head, payload)
    patch(path, offset + 4, crc.to_bytes(4, "little") + head)


def rewrite_payload(path: Path, offset: int, change: dict[str, Any]) -> None:
    """Give the map in the block at `offset` other values, and the crc that fits them. What follows stays in place."""
    data = path.read_bytes()
    unpacked = unpack_header(data)
    assert unpacked is not None
    salt = unpacked[0].salt if offset else 0
    block = unpack_block(data, offset, salt)
    assert block is not None
    fields = msgspec.msgpack.decode(block.payload) | change
    parts, _ = pack_block(block.kind, msgspec.msgpack.encode(fields), salt=salt, offset=offset, flags=block.flags)
    path.write_bytes(data[:offset] + b"".join(parts) + data[block.end :])


@pytest.mark.parametrize("gone", [[], [SNAPSHOT], [FIRST]], ids=["all", "segments", "snapshot"])
def test_the_golden_log_is_still_read(folder: Path, tmp_path: Path, gone: list[str]) -> None:
    for name in gone:
        (folder / name).unlink()
    clock = FakeClock(START_MS + 999)
    with open_store(tmp_path, clock=clock, namespace="spark") as store:
        jobs = store.map("jobs")
        assert jobs["gone"] == 1
        clock.ms += 1
        assert dict(jobs) == LATEST
        assert [type(key) for key in jobs] == [bool, bytes, float, int, type(None), str, str]
        assert store.stats()["businesses"]["jobs"]["last_sequence"] == 14


def test_the_golden_log_with_an_overflow_file_is_still_read(tmp_path: Path) -> None:
    found = log_folder(tmp_path, PLACE)
    shutil.copytree(OVERFLOW, found, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    with open_store(tmp_path, clock=FakeClock(START_MS + 999), namespace="spark") as store:
        jobs = store.map("jobs")
        large = {f"large-{number:02d}": {"state": "DONE", "tries": number} for number in range(40)}
        assert dict(jobs) == large | {"a": "large", "b": "new"}
        assert [entry.timestamp for entry in jobs.history("a")] == [START_MS + 1 << 16, START_MS << 16]
        assert store.stats()["businesses"]["jobs"]["last_sequence"] == 44


def test_the_golden_log_with_deltas_is_still_read(tmp_path: Path) -> None:
    found = log_folder(tmp_path, PLACE)
    shutil.copytree(DELTAS, found, ignore=lambda folder, names: [name for name in names if "0" not in name])
    assert len(list(found.iterdir())) == 4
    clock = FakeClock(START_MS + 999)
    with open_store(tmp_path, clock=clock, namespace="spark") as store:
        jobs = store.map("jobs")
        assert dict(jobs) == {"a": "newest", "b": "tail", "d": "delta", 1: "newest"}
        clock.ms += 1
        assert "d" not in jobs
        assert store.stats()["businesses"]["jobs"]["last_sequence"] == 10
        store.checkpoint()
        assert [path.name for path in found.glob("*.snapshot")] == [snapshot_name(10)]
        assert dict(jobs) == {"a": "newest", "b": "tail", 1: "newest"}


def test_the_golden_log_says_every_change(folder: Path) -> None:
    (folder / SNAPSHOT).unlink()
    recovered, entries = read(folder)
    assert recovered.header is not None
    assert (recovered.header.log_id, recovered.epoch, recovered.next_sequence) == (
        "6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d",
        2,
        15,
    )
    assert [(e.value, e.deleted, (e.timestamp >> 16) - START_MS) for e in entries[:5]] == [
        (b"\x81\x01", False, 0), (b"\x81\x02", False, 1), (b"", True, 2), (b"\x81\x03", False, 3), (b"\x81\x04", False, 4),
    ]  # fmt: skip
    assert [e.expires for e in entries[11:]] == [0, START_MS + 1000, 0]


@pytest.mark.parametrize("name", [FIRST, SECOND, SNAPSHOT])
def test_a_flipped_byte_in_any_field_of_a_header_is_damage(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    if name == SNAPSHOT:
        (folder / FIRST).unlink()
    payload_end = HEAD_BYTES + int.from_bytes(whole[:4], "little")
    for offset in (0, 3, *range(4, 12), *range(12, payload_end, 5)):
        patch(folder / name, offset, bytes([whole[offset] ^ 0x20]))
        with pytest.raises(CorruptLog, match="header does not verify") as caught:
            read(folder)
        assert (caught.value.path, caught.value.offset) == (folder / name, 0)
        (folder / name).write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "field", "value", "error", "says"),
    [
        (SECOND, "format", 5, NewerVersion, "the file has format 5, and this kvwal reads formats 1 to 4"),
        (SECOND, "format", 0, NewerVersion, "format 0"),
        (SNAPSHOT, "format", 5, NewerVersion, "format 5"),
        (SECOND, "first_sequence", 7, CorruptLog, "6 is missing"),
        (SECOND, "previous_crc", 1, CorruptLog, "chain of seals is broken"),
        (SECOND, "salt", "salt", CorruptLog, "checksum is right, but it is no header"),
        (SNAPSHOT, "first_sequence", 2, CorruptLog, "its header says that it holds sequences 2 to 5"),
        (SNAPSHOT, "last_sequence", 6, CorruptLog, "its header says that it holds sequences 1 to 6"),
        (SNAPSHOT, "last_crc", 1, CorruptLog, "chain of seals is broken"),
        (SECOND, "namespace", "other", ConfigError, "written as other/local/jobs/node-1"),
        (SECOND, "cluster", "other", ConfigError, "written as spark/other/jobs/node-1"),
        (SECOND, "business", "other", ConfigError, "written as spark/local/other/node-1"),
        (SECOND, "node", "other", ConfigError, "written as spark/local/jobs/other"),
    ],
)
def test_a_header_that_says_something_else_is_refused(
    folder: Path, tmp_path: Path, name: str, field: str, value: Any, error: type[KvwalError], says: str
) -> None:
    """The block verifies: its writer meant it, so the crc does not find it."""
    if name == SNAPSHOT and field in ("first_sequence", "last_sequence"):
        (folder / FIRST).unlink()
    header_only(folder / name, field, value)
    before = (folder / name).read_bytes()
    with (
        open_store(tmp_path, clock=FakeClock(), namespace="spark", node="node-1") as store,
        pytest.raises(error, match=says) as found,
    ):
        store.map("jobs")
    assert str(folder) in str(found.value)
    assert (folder / name).read_bytes() == before


def header_only(path: Path, field: str, value: Any) -> None:
    """Another header in front of blocks that are where their crc wants them."""
    data = path.read_bytes()
    block = unpack_block(data, 0, 0)
    assert block is not None
    fields = msgspec.msgpack.decode(block.payload) | {field: value}
    payload = msgspec.msgpack.encode(fields)
    assert HEAD_BYTES + len(payload) <= block.end, "the blocks after it would move"
    parts, _ = pack_block(block.kind, payload, salt=0, offset=0)
    path.write_bytes(b"".join(parts).ljust(block.end, b"\x00")[: block.end] + data[block.end :])


@pytest.mark.parametrize("offset", [BLOCK, NEXT_BLOCK, SEAL])
@pytest.mark.parametrize("field", [0, 1, 3, 4, 7, 8, 9, 10, 11, 12, 20], ids=lambda at: f"byte{at}")
def test_a_flipped_byte_in_any_field_of_a_block_is_damage(folder: Path, offset: int, field: int) -> None:
    (folder / SNAPSHOT).unlink()
    whole = (folder / FIRST).read_bytes()
    patch(folder / FIRST, offset + field, bytes([whole[offset + field] ^ 0x40]))
    with pytest.raises(CorruptLog) as caught:
        read(folder)
    assert (caught.value.path, caught.value.offset) == (folder / FIRST, offset)
    assert caught.value.sequence == {BLOCK: 1, NEXT_BLOCK: 4, SEAL: 6}[offset]


@pytest.mark.parametrize(
    ("head", "error", "says"),
    [
        (bytes([5, 1, 0, 0]), NewerVersion, "kind 5"),
        (bytes([2, 2, 0, 0]), NewerVersion, "flags 2"),
        (bytes([2, 1, 1, 0]), NewerVersion, "reserved 1"),
        (bytes([3, 4, 0, 0]), NewerVersion, "kind 3, flags 4"),
        (bytes([3, 1, 0, 0]), CorruptLog, "names no overflow file"),
        (bytes([1, 1, 0, 0]), CorruptLog, "kind HEADER does not belong here"),
        (bytes([4, 1, 0, 0]), CorruptLog, "holds no seal"),
        (bytes([0, 1, 0, 0]), CorruptLog, "does not verify"),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else None,
)
def test_a_block_that_verifies_but_is_not_known_is_of_a_newer_version(
    folder: Path, head: bytes, error: type[KvwalError], says: str
) -> None:
    (folder / SNAPSHOT).unlink()
    reseal(folder / FIRST, BLOCK, head)
    with pytest.raises(error, match=says) as found:
        read(folder)
    assert str(folder / FIRST) in str(found.value)


@pytest.mark.parametrize(("field", "value"), [("last_sequence", 6), ("entries", 4), ("bytes", 8)])
def test_a_seal_that_does_not_fit_what_is_before_it_is_damage(folder: Path, field: str, value: int) -> None:
    (folder / SNAPSHOT).unlink()
    rewrite_payload(folder / FIRST, SEAL, {field: value})
    with pytest.raises(CorruptLog, match="the seal counts") as caught:
        read(folder)
    assert caught.value.offset == SEAL


def follow(root: Path) -> None:
    cursor = SegmentCursor(OS_DISK, root, PLACE, 0, acknowledged_only=False)
    while cursor.read():
        pass


WALKS: dict[str, Callable[[Path], object]] = {
    "a reader without the lock": lambda root: read_local(OS_DISK, root, PLACE),
    "a change feed": follow,
    "log dump": lambda root: list(dump(OS_DISK, root, PLACE)),
}


@pytest.mark.parametrize("walk", WALKS)
def test_every_walk_checks_the_seal(folder: Path, tmp_path: Path, walk: str) -> None:
    (folder / SNAPSHOT).unlink()
    rewrite_payload(folder / FIRST, SEAL, {"entries": 4})
    with pytest.raises(CorruptLog, match="the seal counts 4 entries up to 5, and the file has 5") as caught:
        WALKS[walk](tmp_path)
    assert (caught.value.path, caught.value.offset) == (folder / FIRST, SEAL)


@pytest.mark.parametrize("walk", WALKS)
def test_every_walk_names_an_overflow_file_that_is_missing(tmp_path: Path, walk: str) -> None:
    found = log_folder(tmp_path, PLACE)
    shutil.copytree(OVERFLOW, found, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    WALKS[walk](tmp_path)
    (path,) = (found / "overflow").iterdir()
    path.unlink()
    with pytest.raises(CorruptLog, match="names this overflow file, and it is missing") as caught:
        WALKS[walk](tmp_path)
    assert caught.value.path == path
    saved = salvage(OS_DISK, found, entry_decoder())
    assert [entry.key for _, entry in saved.entries] == [b"a", b"b", b"b"]
    assert [(lost.first, lost.last, lost.entries) for lost in saved.lost] == [(3, 43, 41)]


def test_entries_of_another_shape_are_damage(folder: Path) -> None:
    (folder / SNAPSHOT).unlink()
    data = (folder / FIRST).read_bytes()
    header, start = unpack_header(data) or (Header, 0)
    assert start == BLOCK
    parts, _ = pack_block(2, msgspec.msgpack.encode([["K"]]), salt=header.salt, offset=BLOCK, flags=DURABLE)  # type: ignore[arg-type]
    patch(folder / FIRST, BLOCK, b"".join(parts))
    with pytest.raises(CorruptLog, match="holds no entries") as caught:
        read(folder)
    assert caught.value.offset == BLOCK


@pytest.mark.parametrize(
    "content", [b"", b"text\n", b"\x00" * 4096, b"PAR1" * 100], ids=["empty", "text", "zeros", "parquet"]
)
@pytest.mark.parametrize("name", [SECOND, SNAPSHOT])
def test_a_file_of_another_format_is_named(folder: Path, tmp_path: Path, name: str, content: bytes) -> None:
    (folder / FIRST).unlink()
    (folder / name).write_bytes(content)
    with kvwal.open(tmp_path, namespace="spark", archive=None) as store, pytest.raises(CorruptLog) as found:
        store.map("jobs")
    assert found.value.path == folder / name
    assert (folder / name).read_bytes() == content
