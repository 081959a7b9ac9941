"""Entries of wanted keys, read from the files of several nodes: the same that a reader of all entries finds."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.history.reads.key_scan import open_wanted
from kvwal.history.reads.tail_reader import merged_entries
from kvwal.log import reader
from kvwal.log.files.names import find_places
from kvwal.ports.disk import OS_DISK


def write(root: Path, node: str, chance: random.Random) -> None:
    """Puts, deletes and entries that expire, on both sides of checkpoints."""
    with kvwal.open(root, node=node, archive=None, flush="os") as store:
        records = store.map("spark")
        for _ in range(4):
            for _ in range(60):
                key = f"a/{chance.choice(['job', 'stage'])}/{chance.randrange(30):03d}"
                if chance.random() < 0.3:
                    records.delete(key)
                else:
                    records.put(key, chance.random(), ttl=chance.choice([None, None, 3600]))
            records[chance.randrange(30)] = "an int is no wanted key"
            records[b"a/job/000"] = "nor are bytes"
            if chance.random() < 0.6:
                store.checkpoint()


def test_the_wanted_entries_are_the_latest_of_all_nodes(tmp_path: Path) -> None:
    for seed in range(5):
        root = tmp_path / str(seed)
        chance = random.Random(seed)
        for node in ("n1", "n2", "n3")[: 1 + seed % 3]:
            write(root, node, chance)
        find = partial(find_places, OS_DISK, root, "default", "local", "spark")
        every = merged_entries(OS_DISK, root, find()).values()
        for now_ms in (0, 1 << 60):
            expected = sorted(
                (e.key, e.value, e.timestamp)
                for e in every
                if e.key_class == "str" and b"/job/" in e.key and not e.deleted and not 0 < e.expires <= now_ms
            )
            spans = [(b"a/job/003", b"a/job/003\0"), (b"a/job/007", b"a/job/02"), (b"a/job/029", b"b")]
            within = [row for row in expected if any(low <= row[0] < high for low, high in spans)]
            with open_wanted(OS_DISK, root, find, re.compile(rb"/job/").search, now_ms) as pieces:
                for _ in range(2):
                    found = [
                        (entry.key, entry.value, entry.timestamp) for piece in pieces.within(spans) for entry in piece
                    ]
                    assert found == within
                    found = [(entry.key, entry.value, entry.timestamp) for piece in pieces for entry in piece]
                    assert found == expected
            assert within != expected


def test_a_log_shows_the_moment_at_which_it_was_opened(tmp_path: Path) -> None:
    find = partial(find_places, OS_DISK, tmp_path, "default", "local", "spark")
    with kvwal.open(tmp_path, archive=None) as store:
        records = store.map("spark")
        for turn in range(3):
            records.put_many({f"a/job/{number}": {"turn": turn} for number in range(turn, 3000, turn + 1)})
            store.checkpoint()
        records["a/job/1"] = {"behind": "the snapshot"}
        before = [(key, msgspec.json.encode(value)) for key, value in sorted(records.items())]
        with open_wanted(OS_DISK, tmp_path, find, re.compile(rb"/job/").search, 0) as pieces:
            for change in ("nothing", "a put", "a checkpoint"):
                if change != "nothing":
                    records["a/job/1"] = {"change": change}
                if change == "a checkpoint":
                    records.put_many({f"a/job/{number}": {} for number in range(5000)})
                    store.checkpoint()
                assert [(entry.key.decode(), entry.value) for piece in pieces for entry in piece] == before


def test_of_a_snapshot_only_the_blocks_of_the_spans_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        for first in range(0, 60_000, 6_000):
            store.map("spark").put_many({f"a/job/{number:010d}": number for number in range(first, first + 6_000)})
        store.checkpoint()
    decoded: list[int] = []
    decode = reader.SnapshotReader.decoded

    def counted(self: reader.SnapshotReader, *arguments: Any) -> Any:
        entries = decode(self, *arguments)
        decoded.append(len(entries))
        return entries

    monkeypatch.setattr(reader.SnapshotReader, "decoded", counted)
    monkeypatch.setattr(reader, "_PART_BYTES", 4 << 10)
    find = partial(find_places, OS_DISK, tmp_path, "default", "local", "spark")
    with open_wanted(OS_DISK, tmp_path, find, re.compile(rb"/job/").search, 0) as pieces:
        for low, high in ((123, 128), (30_000, 31_500), (59_999, 70_000)):
            decoded.clear()
            spans = [(f"a/job/{low:010d}".encode(), f"a/job/{high:010d}".encode())]
            assert [int(e.key[-10:]) for piece in pieces.within(spans) for e in piece] == [
                *range(low, min(high, 60_000))
            ]
            assert sum(decoded) <= 9_000
        decoded.clear()
        assert sum(map(len, pieces)) == sum(decoded) == 60_000
