"""What a question for the past of one key costs: objects and logs of its own map, however many maps there are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, Node, cluster, needs_hazelcast
from tests.support.log.store import open_with_archiver
from tests.support.polling import until
from tests.support.sweep.tracing import needs_strace, opened_paths

pytestmark = [needs_strace, pytest.mark.long]
MAPS = 200
ASKED = "map-77"
NAMES = [f"map-{number}" for number in range(MAPS)]
DATA = (".wal", ".snapshot", ".parquet")
"""Not the segments that writes make ahead of their need, which a busy machine may do late."""
SELDOM = kvwal.Settings(archive_seconds=3600, checkpoint_seconds=3600)


@contextmanager
def only_of_its_map(pids: list[int], roots: list[Path], archive: Path, cluster: str, *kinds: str) -> Iterator[None]:
    """In the block the processes open logs and objects of `ASKED`, at least one of each of these kinds, and of no other map."""
    with opened_paths(*pids) as opened:
        yield
    folders = [folder / "default" / cluster for folder in (archive, *roots)]
    inside = [path.relative_to(folder) for folder in folders for path in opened if path.is_relative_to(folder)]
    read = [path for path in inside if path.suffix in DATA]
    assert not [str(path) for path in read if path.parts[0] != ASKED]
    assert {path.suffix for path in read} >= set(kinds)


def test_the_past_of_a_key_opens_files_of_its_map_only(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with open_with_archiver(root, archive, settings=SELDOM) as store:
        for name in NAMES:
            store.map(name)["key"] = "archived"
        store.archive()
        before = datetime.now(UTC)
        for name in NAMES:
            store.map(name)["key"] = "in the log"
        asked = store.map(ASKED)
        with only_of_its_map([os.getpid()], [root], archive, "local", ".wal", ".parquet"):
            assert [change.value for change in asked.history("key")] == [b"in the log", b"archived"]
        with only_of_its_map([os.getpid()], [root], archive, "local", ".wal", ".parquet"):
            assert asked.at(before)["key"] == "archived"


@needs_hazelcast
def test_the_past_of_a_key_of_a_cluster_opens_files_of_its_map_only(tmp_path: Path) -> None:
    """The other maps are archived, and at rest: their segments are there, and no work of their own opens a file."""
    with cluster(tmp_path, 2, config="[log]\narchive_seconds = 1\ncheckpoint_seconds = 3600\n") as both:
        pids, roots = [node.pid for node in both.nodes], [node.root for node in both.nodes]
        with kvwal.connect(both.addresses, cluster=CLUSTER) as store:
            for name in NAMES:
                store.map(name)["key"] = "archived"
            until(lambda: None if any(map(archive_lag, both.nodes)) else True)
            before = datetime.now(UTC)
            asked = store.map(ASKED)
            asked["key"] = "later"
            with only_of_its_map(pids, roots, both.archive, CLUSTER, ".parquet"):
                assert [change.value for change in asked.history("key")] == [b"later", b"archived"]
            with only_of_its_map(pids, roots, both.archive, CLUSTER, ".parquet"):
                assert asked.at(before)["key"] == "archived"


def archive_lag(node: Node) -> float:
    """Entries that the archive does not hold yet, of all maps."""
    return sum(value for name, value in node.figures().items() if name.startswith("kvwal_archive_lag_entries{"))
