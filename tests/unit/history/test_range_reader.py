"""A range of keys is read from logs and snapshots without the rest of them, and is the same as in the whole map."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvwal
from kvwal.codecs import registry
from kvwal.entry import DataEntry, Entry
from kvwal.history.reads import range_reader
from kvwal.history.reads.range_reader import live_entries
from kvwal.log import reader
from kvwal.log.files.snapshot_reader import SnapshotFile
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.store.sync import ReadOnlyStore, WritableStore
from tests.support.disk.faults import FakeClock, make_options
from tests.unit.history.test_tail_reader import PLACE, CountingDisk, public, snapshot

PREFIXES = ["a", "k", "key-1", "key-99", "z", "ÿ"]


def under(root: Path, prefix: str) -> list[DataEntry]:
    with kvwal.open(root, read_only=True) as store:
        assert isinstance(store, ReadOnlyStore)
        return list(store.read_business("jobs").entries(prefix))


def in_the_map(root: Path, prefix: str) -> list[DataEntry]:
    with kvwal.open(root, read_only=True) as store:
        return list(store.map("jobs").entries(prefix))


def write(root: Path, seed: int, node: str) -> None:
    """A log with a snapshot, deltas, and entries after them."""
    chance = random.Random(seed)
    with kvwal.open(root, node=node, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        for _ in range(3):
            jobs.put_many({f"key-{chance.randrange(200)}": chance.randrange(1_000) for _ in range(80)})
            jobs.put_many({chance.randrange(100): "an int", b"key-1": "bytes", "ÿ": "the last"})
            for _ in range(20):
                jobs.delete(f"key-{chance.randrange(200)}")
            store.checkpoint()
        jobs.put_many({f"key-{chance.randrange(200)}": "after the snapshot" for _ in range(20)})
        jobs.delete("key-1")
        jobs.put("key-11", "gone soon", ttl=0.001)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_prefix_of_the_files_is_that_of_the_map(tmp_path: Path, nodes: int) -> None:
    for number in range(nodes):
        write(tmp_path, number, f"n{number}")
    for prefix in PREFIXES:
        assert under(tmp_path, prefix) == in_the_map(tmp_path, prefix), prefix
    assert under(tmp_path, "key-1")
    assert not under(tmp_path, "a")


def test_only_the_blocks_of_the_range_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PART_BYTES", 256 << 10)
    chance = random.Random(1)  # values that are alike would make a small file
    entries = [Entry(b"%06d" % number, "str", chance.randbytes(200), "bytes", False, 1) for number in range(50_000)]
    path = snapshot(tmp_path, entries)
    for first in (0, 1, 24_999, 49_990, 50_000):
        disk = CountingDisk()
        low, high = ("str", b"%06d" % first), ("str", b"%06d" % (first + 2_000))
        found = list(SnapshotFile(disk, path).between(entry_decoder(), low, high))
        assert list(map(public, found)) == list(map(public, entries[first : first + 2_000]))
        assert disk.parts < path.stat().st_size / 2
    assert not list(SnapshotFile(disk, path).between(entry_decoder(), ("a", b""), ("b", b"")))


def test_a_range_shows_one_moment_though_a_checkpoint_replaces_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the entries ahead of the reader, some are put again, some expire, and the snapshot that has them goes."""
    monkeypatch.setattr(reader, "_PART_BYTES", 1 << 10)
    clock = FakeClock()
    options = make_options(tmp_path, clock=clock)
    with WritableStore(options) as store:
        jobs = store.map("jobs")
        jobs.put_many({f"key-{number:04d}": number for number in range(3_000)})
        for number in range(2_500, 2_600):
            jobs.put(f"key-{number:04d}", number, ttl=10)
        store.checkpoint()
        entries = ReadOnlyStore(options).read_business("jobs").entries("key-")
        found = [next(entries) for _ in range(1_500)]
        before = set((tmp_path / "default/local/jobs/local").glob("*.snapshot"))
        clock.ms += 20_000
        chance = random.Random(1)  # so large that the checkpoint merges all parts
        jobs.put_many({f"key-{number:04d}": chance.randbytes(100) for number in range(3_000)})
        store.checkpoint()
        assert not before & set((tmp_path / "default/local/jobs/local").glob("*.snapshot"))
        found += entries
    assert [(entry.key, entry.value) for entry in found] == [
        (b"key-%04d" % number, registry.encode_value(number)[0]) for number in range(3_000)
    ]


def test_files_that_stay_away_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1, "local")

    def gone(*_: object) -> None:
        raise FileNotFoundError("the snapshot")

    monkeypatch.setattr(type(OS_DISK), "view", gone)
    with pytest.raises(FileNotFoundError):
        under(tmp_path, "key-")


@given(st.lists(st.dictionaries(st.integers(0, 30), st.integers(1, 6)), min_size=1, max_size=4), st.integers(1, 5))
def test_blocks_of_several_logs_are_merged_as_single_entries_are(logs: list[dict[int, int]], size: int) -> None:
    """Also where two logs have a key at the same timestamp: the last log's entry is the latest."""
    entries = [
        [Entry(b"%02d" % key, "str", b"%d" % number, "", False, timestamp) for key, timestamp in sorted(log.items())]
        for number, log in enumerate(logs)
    ]
    blocks = [[log[at : at + size] for at in range(0, len(log), size)] for log in entries]
    merged = list(range_reader._latest([iter(of_log) for of_log in blocks]))
    one_by_one = range_reader._merged((str(number), iter(of_log)) for number, of_log in enumerate(blocks))
    assert [entry for block in merged for entry in block] == [entry for _, entry in one_by_one]
    assert all(merged)


def test_a_thousand_logs_are_merged() -> None:
    logs = [
        [[Entry(b"%04d" % number, "str", b"", "", False, 1)], [Entry(b"x", "str", b"%d" % number, "", False, 1)]]
        for number in range(2_000)
    ]
    merged = [entry for block in range_reader._latest([iter(log) for log in logs]) for entry in block]
    assert [entry.key for entry in merged] == [*(b"%04d" % number for number in range(2_000)), b"x"]
    assert merged[-1].value == b"1999"


def test_no_log_has_no_range() -> None:
    assert not list(live_entries(CountingDisk(), Path("/nowhere"), [PLACE], ("str", b""), ("str", b"z"), 0))
