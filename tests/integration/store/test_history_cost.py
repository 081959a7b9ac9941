"""What a question for the past of one key costs: objects and logs of its own map, however many maps there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast
from tests.support.log.store import open_with_archiver
from tests.support.sweep.tracing import needs_strace, opened_paths

pytestmark = [needs_strace, pytest.mark.long]
MAPS = 200
ASKED = "map-77"
SELDOM = kvwal.Settings(archive_seconds=3600, checkpoint_seconds=3600)
"""No timer opens a file while it is looked at what a question opens."""
NODE = "[log]\narchive_seconds = 3600\ncheckpoint_seconds = 3600\n"


def names() -> list[str]:
    return [f"map-{number}" for number in range(MAPS)]


@contextmanager
def only_of_its_map(pids: list[int], roots: list[Path], archive: Path, name: str) -> Iterator[None]:
    """The processes open the log of `ASKED` and objects of it in the block, and files of no other map."""
    with opened_paths(*pids) as opened:
        yield
    folders = [folder / "default" / name for folder in (archive, *roots)]
    inside = [path.relative_to(folder) for folder in folders for path in opened if path.is_relative_to(folder)]
    assert {path.parts[0] for path in inside if path.parts} == {ASKED}
    assert any(path.suffix == ".parquet" for path in inside)
    assert any(path.suffix == ".wal" for path in inside)


def test_the_past_of_a_key_opens_files_of_its_map_only(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with open_with_archiver(root, archive, settings=SELDOM) as store:
        for name in names():
            store.map(name)["key"] = "archived"
        store.archive()
        before = datetime.now(UTC)
        for name in names():
            store.map(name)["key"] = "in the log"
        asked = store.map(ASKED)
        with only_of_its_map([os.getpid()], [root], archive, "local"):
            assert [change.value for change in asked.history("key")] == [b"in the log", b"archived"]
        with only_of_its_map([os.getpid()], [root], archive, "local"):
            assert asked.at(before)["key"] == "archived"


@needs_hazelcast
def test_the_past_of_a_key_of_a_cluster_opens_files_of_its_map_only(tmp_path: Path) -> None:
    with cluster(tmp_path, 2, config=NODE) as both:
        with both.client() as client:
            for name in names():
                client.get_map(name).blocking().put("key", "archived")
        for node in both.nodes:
            node.stop()
        both.start()
        pids, roots = [node.pid for node in both.nodes], [node.root for node in both.nodes]
        with kvwal.connect(both.addresses, cluster=CLUSTER) as store:
            before = datetime.now(UTC)
            for name in names():
                store.map(name)["key"] = "in the log"
            asked = store.map(ASKED)
            with only_of_its_map(pids, roots, both.archive, CLUSTER):
                assert [change.value for change in asked.history("key")] == [b"in the log", b"archived"]
            with only_of_its_map(pids, roots, both.archive, CLUSTER):
                assert asked.at(before)["key"] == "archived"
