"""The example that everything began with: put K 1, put K 2, delete K, put K 3, put K 4."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kvwal
from kvwal.history.reads.tail_reader import read_local
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place

VALUES = [4, 3, None, 2, 1]
"""Newest first; None is the delete."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    with kvwal.open(root) as store:
        example = store.map("example")
        example["K"] = 1
        example["K"] = 2
        del example["K"]
        example["K"] = 3
        example["K"] = 4
    return root


def values(entries: list[kvwal.DataEntry]) -> list[int | None]:
    return [
        None if entry.deleted else kvwal.codecs.registry.decode(entry.value, entry.value_class) for entry in entries
    ]


def test_five_entries_in_the_log_and_it_reads_4(root: Path) -> None:
    local = read_local(OS_DISK, root, Place("default", "local", "example", "local"))
    assert values([entry.public() for entry in reversed(local.tail.entries)]) == VALUES
    with kvwal.open(root) as store:
        assert store.map("example")["K"] == 4


def test_from_a_snapshot(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        store.map("example")
        store.checkpoint()
    assert [path.name for path in root.rglob("*.snapshot")] == [f"{5:020}.snapshot"]
    with kvwal.open(root, archive=None) as store:
        assert dict(store.map("example")) == {"K": 4}


def test_from_the_archive_with_its_history(root: Path) -> None:
    with kvwal.open(root) as store:
        store.archive()
        store.checkpoint()
        assert not [path for path in root.rglob("*.wal") if path.name == f"{1:020}.wal"]
        assert values(store.map("example").history("K")) == VALUES


@pytest.mark.parametrize("take_over", [False, True])
def test_from_a_restore(root: Path, tmp_path: Path, take_over: bool) -> None:
    with kvwal.open(root) as store:
        store.archive()
    kvwal.restore(root / "_archive", tmp_path / "second", take_over=take_over)
    with kvwal.open(tmp_path / "second") as store:
        assert dict(store.map("example")) == {"K": 4}


def test_merged_over_nodes(root: Path) -> None:
    with kvwal.open(root, node="other") as store:
        store.map("example")["K"] = 5
    with kvwal.open(root, read_only=True) as store:
        assert dict(store.map("example")) == {"K": 5}
        store.map("example").history("K")
    with kvwal.open(root, node="local", read_only=True) as store:
        assert dict(store.map("example")) == {"K": 4}


def test_as_it_was_after_each_change(root: Path) -> None:
    with kvwal.open(root) as store:
        example = store.map("example")
        moments = [entry.timestamp for entry in example.history("K")]
        seen: list[Callable[[], object] | object] = [example.at(moment).get("K") for moment in moments]
    assert seen == VALUES
