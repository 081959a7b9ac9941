"""What opening a log gives its queues back: the same items in the same order from every mix of snapshot and segments, and nothing
of a block that was not committed. docs/decisions/0100 sets it beside the replays of Flume and NiFi.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.log.files.names import log_folder
from kvwal.log.reader import SegmentReader, SnapshotReader, entry_decoder
from kvwal.structures.queue.queue import QueuedItem
from kvwal_archive.layout import Place
from tests.support.log.store import open_with_archiver
from tests.support.queue.blocks import rolled_back

PLACE = Place("default", "local", "work", "local")


def opened(root: Path) -> dict[str, list[QueuedItem]]:
    """The items of each queue after an open, with positions and timestamps."""
    with kvwal.open(root, archive=None) as store:
        work = store.business("work")
        return {name: list(work.queue(name).items()) for name in ("todo", "done")}


def values(items: list[QueuedItem]) -> list[object]:
    return [item.value for item in items]


def entries_in(root: Path) -> Iterator[int]:
    """The number of entries of each file of the log."""
    folder = log_folder(root, PLACE)
    for path in sorted(folder.glob("*.[ws]*")):
        reader_of = SnapshotReader if path.suffix == ".snapshot" else SegmentReader
        yield sum(map(len, reader_of(path, path.read_bytes()).entries(entry_decoder())))


@pytest.mark.parametrize("commits", [True, False])
def test_a_checkpoint_in_the_middle_of_a_block_holds_nothing_of_it(tmp_path: Path, commits: bool) -> None:
    """Flume writes in-flight puts and takes beside its checkpoint. Here they are in no file until the commit."""
    root, killed = tmp_path / "root", tmp_path / "killed"
    with open_with_archiver(root, tmp_path / "archive") as store:
        work = store.business("work")
        work.queue("todo").put_many(["a", "b", "c", "d"])
        transaction = work.transaction() if commits else rolled_back(work.transaction())
        with transaction as t:
            taken = t.queue("todo").take_many(2)
            t.queue("done").put_many(taken)
            store.checkpoint()
            store.archive()
            shutil.copytree(root, killed)
            work.queue("todo").put("e")
            assert work.queue("todo").take() == "c"
        shutil.copytree(root, tmp_path / "after")
    found = opened(killed)
    assert (values(found["todo"]), values(found["done"])) == (["a", "b", "c", "d"], [])
    found = opened(tmp_path / "after")
    expected = (["d", "e"], ["a", "b"]) if commits else (["a", "b", "d", "e"], [])
    assert (values(found["todo"]), values(found["done"])) == expected
    kvwal.restore(tmp_path / "archive", tmp_path / "restored", node="local", take_over=True)
    found = opened(tmp_path / "restored")
    assert (values(found["todo"]), values(found["done"])) == expected, "the close archived the rest"


def test_a_replay_from_the_beginning_gives_what_a_checkpoint_gives(tmp_path: Path) -> None:
    """Flume's fast replay, and its replay from the beginning: here they are one, and positions are those of before."""
    root = tmp_path / "root"
    with open_with_archiver(root, tmp_path / "archive") as store:
        work = store.business("work")
        for number in range(20):
            work.queue("todo").put_many([number, str(number)], priority=number % 3 - 1)
            if number % 4 == 0:
                work.queue("todo").move("done", 3)
        store.checkpoint()
        work.queue("todo").put("last")
        work.queue("done").take_many(2)
        expected = {name: list(work.queue(name).items()) for name in ("todo", "done")}
        for name in ("snapshot", "damaged", "segments"):  # the archive has nothing yet, so every segment is there
            shutil.copytree(root, tmp_path / name)
    (damaged,) = log_folder(tmp_path / "damaged", PLACE).glob("*.snapshot")
    damaged.write_bytes(damaged.read_bytes()[:-30])
    for snapshot in log_folder(tmp_path / "segments", PLACE).glob("*.snapshot"):
        snapshot.unlink()
    for name in ("snapshot", "damaged", "segments"):
        assert opened(tmp_path / name) == expected, name


def test_opening_costs_what_is_queued_and_not_what_ever_passed(tmp_path: Path) -> None:
    with open_with_archiver(tmp_path, None) as store:
        todo = store.business("work").queue("todo")
        for number in range(200):
            todo.put_many(range(number, number + 20))
            todo.take_many(20)
            if number % 20 == 0:
                store.checkpoint()
        todo.put_many(range(5))
        store.checkpoint()
    assert sum(entries_in(tmp_path)) <= 8
    assert values(opened(tmp_path)["todo"]) == list(range(5))


def test_an_item_of_a_queue_that_nobody_opens_is_kept(tmp_path: Path) -> None:
    """NiFi may drop a record whose queue is not in the flow any more. Here a queue is where its items are."""
    with open_with_archiver(tmp_path, None) as store:
        store.business("work").queue("orphaned").put("a")
        store.checkpoint()
    with open_with_archiver(tmp_path, None) as store:
        store.business("work").queue("todo").put("b")
        store.checkpoint()
    with kvwal.open(tmp_path, read_only=True) as store:
        assert list(store.business("work").queue("orphaned").browse()) == ["a"]
