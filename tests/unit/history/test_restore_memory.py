"""A restore needs neither the memory nor the temporary folder for what it brings back."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kvwal
from kvwal.history.reads import sort_by_time
from kvwal_archive import view
from kvwal_archive.objects import RemoteObjects

URL = "memory://restored-archive"
VALUE_BYTES = 20_000
KEYS = 1500
ROUNDS = 3


@pytest.fixture
def archived(tmp_path: Path) -> dict[str, bytes]:
    """What a bucket holds: values that cannot be compressed, each key changed several times."""
    chance = random.Random(1)
    found = {}
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive", flush="os") as store:
        jobs = store.map("jobs")
        for _ in range(ROUNDS):
            keys = [f"{number:06}" for number in range(KEYS)]
            chance.shuffle(keys)
            for start in range(0, KEYS, 100):
                part = {key: chance.randbytes(VALUE_BYTES) for key in keys[start : start + 100]}
                found |= part
                jobs.put_many(part)
            store.archive()
    bucket = RemoteObjects(URL, {})
    for path in (tmp_path / "archive").rglob("*"):
        if path.is_file():
            bucket.put_if_absent(path.relative_to(tmp_path / "archive").as_posix(), path.read_bytes())
    return found


def refuse(*_: Any) -> None:
    raise AssertionError("a copy of an object, or a temporary file, was made")


def test_what_is_larger_than_memory_and_temporary_folder_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archived: dict[str, bytes]
) -> None:
    monkeypatch.setattr(RemoteObjects, "fetch", refuse)
    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    monkeypatch.setattr(view, "HELD_BYTES", 1 << 20)
    monkeypatch.setattr("kvwal_archive.merge.BUDGET_BYTES", 4 << 20)
    monkeypatch.setattr(sort_by_time, "RUN_BYTES", 2 << 20)
    monkeypatch.setattr(sort_by_time, "READ_BYTES", 2 << 20)
    counted = pa.proxy_memory_pool(pa.system_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(counted)
    try:
        report = kvwal.restore(URL, tmp_path / "again")
    finally:
        pa.set_memory_pool(before)
    assert report.entries == {"jobs": KEYS}
    assert counted.max_memory() < KEYS * VALUE_BYTES * 0.8, "a third of the archive was held at once"
    with kvwal.open(tmp_path / "again", archive=None) as store:
        assert dict(store.map("jobs")) == archived
    assert not [path.name for path in (tmp_path / "again").rglob("*.partial")]
    with kvwal.open(tmp_path / "again", archive=None, read_only=True) as store:
        stamps = [entry.timestamp for entry in store.map("jobs").entries()]
    assert len(set(stamps)) == KEYS // 100
