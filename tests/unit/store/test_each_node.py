"""Work on each node of a root: one archiver process for all of them, and a new one if it died; and nodes that are merged."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ArchiveError
from kvwal.ports.clock import SYSTEM
from kvwal.ports.processes import Child
from kvwal.store.options import Options
from kvwal.store.root_nodes.each_node import NodeOutcome, work_on_each
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal.store.sync import Store
from kvwal_archive.layout import Place
from tests.support.disk.faults import make_options
from tests.support.disk.lock_watch import LockWatchDisk

NODES = ("a", "b", "c")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for node in NODES:
        with kvwal.open(tmp_path, node=node, archive=None) as store:
            store.map("b")["key"] = node
    return tmp_path


def children() -> set[int]:
    """The child processes of this process."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended has none
            found.update(map(int, (task / "children").read_text().split()))
    return found


def worked(root: Path, work: Callable[[Store], None]) -> list[NodeOutcome]:
    """Each node, worked on."""

    def options(node: str, start_archiver: Callable[[], Child]) -> Options:
        return make_options(root, node=node, archive=None, start_archiver=start_archiver)

    return work_on_each(NODES, options, work, lambda done, total, what: None)


def test_a_merged_log_is_not_locked_any_more_when_its_lock_file_is_deleted(root: Path) -> None:
    """Another new log may get the number of the deleted file's inode, by which a lock is known."""
    disk = LockWatchDisk()
    ports = MergePorts(disk, SYSTEM)
    merged = merge_nodes(ports, root, Place("default", "local", "b", "a"), NODES[1:], lambda done, total, what: None)
    assert (merged.nodes, merged.left) == (["b", "c"], {})
    assert disk.held == [False, False]


@pytest.mark.usefixtures("started_archivers")
def test_all_nodes_share_one_archiver_process_which_ends_with_the_last(root: Path) -> None:
    before, seen = children(), []

    def work(store: Store) -> None:
        store.checkpoint()
        seen.append(children() - before)

    outcomes = worked(root, work)
    assert [outcome.error for outcome in outcomes] == [None, None, None]
    assert [list(outcome.stats["businesses"]) for outcome in outcomes] == [["b"], ["b"], ["b"]]
    assert len(seen[0]) == 1
    assert seen == [seen[0]] * 3
    assert children() == before


@pytest.mark.usefixtures("started_archivers")
def test_an_archiver_that_died_fails_one_node_and_is_replaced_for_the_next(root: Path) -> None:
    before = children()

    def work(store: Store) -> None:
        if store.node == "b":
            (pid,) = children() - before
            os.kill(pid, signal.SIGKILL)
        store.checkpoint()

    outcomes = worked(root, work)
    assert [type(outcome.error) for outcome in outcomes] == [type(None), ArchiveError, type(None)]
    assert children() == before
