"""Compressed blocks of a snapshot: smaller where that is worth it, the same when read, and never larger than a block may be."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.log.files.compression import compress, decompress
from kvwal.log.files.format import (
    COMPRESSED,
    MAX_PAYLOAD,
    Block,
    BlockKind,
    SnapshotHeader,
    find_blocks,
    pack_block,
    unpack_block,
    unpack_snapshot_header,
)
from kvwal.log.files.names import log_folder, snapshot_name
from kvwal.log.files.snapshot import write_snapshot
from kvwal.log.files.snapshot_reader import SnapshotFile
from kvwal.log.reader import SnapshotReader, entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place
from tests.support.disk.faults import START_MS, FakeClock, open_store
from tests.support.log.logs import header

GOLDEN = Path(__file__).resolve().parent.parent.parent / "golden" / "log-3"
PLACE = Place("spark", "local", "jobs", "node-1")
ALIKE = [
    Entry(b"%06d" % n, "str", b'{"state":"SUCCEEDED","stages":%d}' % (n % 7), "json", False, n + 1) for n in range(5000)
]


def snapshot(folder: Path, blocks: list[list[Entry]]) -> Path:
    fields = msgspec.structs.asdict(header()) | {"last_sequence": 9, "last_crc": 0, "last_timestamp": 9}
    return write_snapshot(OS_DISK, SYSTEM, folder, SnapshotHeader(**fields), blocks)


def stored(path: Path) -> tuple[bytes, list[Block]]:
    """The bytes of a snapshot, and its blocks of entries."""
    data = path.read_bytes()
    unpacked = unpack_snapshot_header(data)
    assert unpacked is not None
    found = list(find_blocks(data, unpacked[1], unpacked[0].salt))
    return data, [block for block in found if block.kind is BlockKind.ENTRIES]


@given(st.binary(min_size=1, max_size=200), st.integers(1, 500))
def test_what_comes_back_is_what_was_compressed(content: bytes, times: int) -> None:
    payload = content * times
    frame = compress(payload)
    if frame is not None:
        assert len(frame) <= len(payload) - len(payload) // 8
        assert decompress(frame, len(payload)) == payload
        assert decompress(frame, len(payload) - 1) is None
        assert decompress(frame[:-1], MAX_PAYLOAD) is None


def test_a_frame_takes_no_more_memory_than_a_block_may() -> None:
    bomb = zstandard.ZstdCompressor().compress(bytes(MAX_PAYLOAD + 1))
    assert len(bomb) < 4096
    assert decompress(bomb, MAX_PAYLOAD) is None
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(100))
    assert decompress(silent, MAX_PAYLOAD) is None
    assert decompress(b"", MAX_PAYLOAD) is None
    assert decompress(b"no frame at all", MAX_PAYLOAD) is None


def test_a_frame_is_all_there_is_and_has_the_size_that_it_says() -> None:
    frame = compress(bytes(5_000))
    assert frame is not None
    assert decompress(frame, MAX_PAYLOAD) == bytes(5_000)
    assert decompress(frame + b"more", MAX_PAYLOAD) is None
    assert decompress(frame + frame, MAX_PAYLOAD) is None
    size = (5_000 - 256).to_bytes(2, "little")  # as RFC 8878 has it
    assert frame.count(size) == 1
    assert decompress(frame.replace(size, (4_000 - 256).to_bytes(2, "little")), MAX_PAYLOAD) is None


def test_what_no_block_may_hold_is_refused_before_it_is_compressed(tmp_path: Path) -> None:
    """Its frame would be small, and no reader would take what is in it."""
    entries = [Entry(b"%02d" % n, "str", bytes(1 << 20), "bytes", False, 1) for n in range(17)]
    with pytest.raises(ValueError, match="above the format's"):
        snapshot(tmp_path, [entries])
    assert not list(tmp_path.glob("*.snapshot"))


def test_a_snapshot_of_values_that_are_alike_is_small(tmp_path: Path) -> None:
    path = snapshot(tmp_path, [ALIKE[:2500], ALIKE[2500:]])
    data, blocks = stored(path)
    assert [block.flags for block in blocks] == [COMPRESSED, COMPRESSED]
    assert len(data) < len(encode_entries(ALIKE)) / 4
    found = [entry.public() for entries in SnapshotReader(path, data).whole(entry_decoder()) for entry in entries]
    assert found == [entry.public() for entry in ALIKE]


def test_one_key_is_found_between_compressed_blocks(tmp_path: Path) -> None:
    path = snapshot(tmp_path, [ALIKE[first : first + 100] for first in range(0, 5000, 100)])
    for entry in ALIKE[::333]:
        found = SnapshotFile(OS_DISK, path).find(entry_decoder(), (entry.key_class, entry.key))
        assert found is not None
        assert found.public() == entry.public()
    assert SnapshotFile(OS_DISK, path).find(entry_decoder(), ("str", b"no")) is None


def test_a_frame_that_verifies_and_is_damaged_is_damage(tmp_path: Path) -> None:
    path = snapshot(tmp_path, [ALIKE])
    data, (block,) = stored(path)
    unpacked = unpack_snapshot_header(data)
    assert unpacked is not None
    length = int.from_bytes(data[block.offset : block.offset + 4], "little")
    parts, _ = pack_block(
        BlockKind.ENTRIES, bytes(length), salt=unpacked[0].salt, offset=block.offset, flags=COMPRESSED
    )
    path.write_bytes(data[: block.offset] + b"".join(parts) + data[block.end :])
    assert unpack_block(path.read_bytes(), block.offset, unpacked[0].salt) is None
    with pytest.raises(CorruptLog, match="a block does not verify") as caught:
        list(SnapshotReader(path, path.read_bytes()).whole(entry_decoder()))
    assert caught.value.offset == block.offset


def test_the_golden_log_with_compressed_blocks_is_still_read(tmp_path: Path) -> None:
    _, blocks = stored(GOLDEN / snapshot_name(105))
    assert [block.flags for block in blocks] == [COMPRESSED, 0]
    found = log_folder(tmp_path, PLACE)
    shutil.copytree(GOLDEN, found, ignore=lambda folder, names: [name for name in names if "0" not in name])
    with open_store(tmp_path, clock=FakeClock(START_MS + 999), namespace="spark") as store:
        jobs = store.map("jobs")
        assert len(jobs) == 105
        assert jobs["alike-08"] == {"state": "RUNNING", "tries": 8}
        assert (jobs["alike-07"], jobs["random-3"], len(jobs["random-4"])) == ("newest", "newest", 1000)
        store.checkpoint()
        assert len(jobs) == 105
