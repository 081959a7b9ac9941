"""Entries of wanted keys, read from the files of several nodes: the same that a reader of all entries finds."""

from __future__ import annotations

import random
import re
from pathlib import Path

import kvwal
from kvwal.history.tail_reader import merged_entries
from kvwal.history.wanted import wanted_entries
from kvwal.log.files.names import find_places
from kvwal.ports.disk import OS_DISK


def write(root: Path, node: str, chance: random.Random) -> None:
    """Puts, deletes and entries that expire, on both sides of checkpoints."""
    with kvwal.open(root, node=node, archive=None) as store:
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
        places = find_places(OS_DISK, root, "default", "local", "spark")
        every = merged_entries(OS_DISK, root, places).values()
        for now_ms in (0, 1 << 60):
            expected = sorted(
                (e.key, e.value, e.timestamp)
                for e in every
                if e.key_class == "str" and b"/job/" in e.key and not e.deleted and not 0 < e.expires <= now_ms
            )
            found = wanted_entries(OS_DISK, root, places, re.compile(rb"/job/").search, now_ms)
            assert [(entry.key, entry.value, entry.timestamp) for entry in found] == expected
            assert expected
