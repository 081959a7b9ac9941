"""Items that only the files have: they come back in order over restarts, damage and a disk that does not read."""

from __future__ import annotations

import errno
import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import LogFailed
from kvwal.log.files.names import log_folder
from kvwal.log.waiter import Waiter
from kvwal.structures.queue_items.reservation import Reservation
from kvwal_archive.layout import Place
from tests.support.disk.faults import FakeClock, FakeDisk, open_store
from tests.support.queue.blocks import rolled_back

SETTINGS = kvwal.Settings(
    segment_bytes=64 << 10, archive_seconds=1e9, checkpoint_seconds=1e9, queue_memory=20, overflow_bytes=20_000
)
MOST_HELD = 30
"""The setting, and what one read of the files adds."""


class DeafDisk(FakeDisk):
    """A disk of which nothing can be read while it is `deaf`."""

    deaf = False

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        if self.deaf:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().read_part(path, offset, size)


def opened(root: Path, **ports: Any) -> kvwal.Store:
    return open_store(root, settings=SETTINGS, **ports)


def held(queue: Any) -> int:
    return len(queue._state._ready.held)


def segments(root: Path) -> list[Path]:
    return sorted(log_folder(root, Place("default", "local", "todo", "local")).glob("*.wal"))


def taken_until_refused(queue: Any, most: int) -> tuple[list[Any], kvwal.KvwalError | None]:
    """What takes gave until one was refused, and the refusal."""
    taken: list[Any] = []
    try:
        while items := queue.take_many(most):
            taken += items
    except kvwal.KvwalError as error:
        return taken, error
    return taken, None


def test_a_short_queue_is_in_memory_and_a_long_one_is_not(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        for number in range(20):
            queue.put(number)
        assert held(queue) == 20
        for number in range(20, 3000):
            queue.put(number)
            assert held(queue) <= MOST_HELD
        assert len(queue) == 3000
        assert [queue.take() for _ in range(1500)] == list(range(1500))
        assert list(queue.browse()) == list(range(1500, 3000))
        assert held(queue) <= MOST_HELD


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_restart_finds_the_items_that_are_left(tmp_path: Path, checkpoint: bool) -> None:
    """Those that were taken are deletes in later files than their puts, and most of them are of items not in memory."""
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many(range(2000))
        if checkpoint:
            store.checkpoint()
        assert [queue.take() for _ in range(900)] == list(range(900))
        queue.put_many(range(2000, 2500))
    for _ in range(2):
        with opened(tmp_path) as store:
            queue = store.queue("todo")
            assert (len(queue), queue.peek()) == (1600, 900)
            assert held(queue) <= MOST_HELD
            assert list(queue.browse()) == list(range(900, 2500))
    with opened(tmp_path) as store:
        assert store.queue("todo").take_many(5000) == list(range(900, 2500))
        assert store.stats()["businesses"]["todo"]["queues"][""]["bytes"] == 0


def test_an_item_of_a_smaller_priority_comes_before_those_in_the_files(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many(range(300), priority=5)
        queue.put_many(range(300, 600))
        queue.put_many(range(600, 900), priority=-1)
        queue.put("first", priority=-2)
        assert held(queue) <= MOST_HELD
        assert queue.take_many(1000) == ["first", *range(600, 900), *range(300, 600), *range(300)]


def test_items_that_wait_or_expire_keep_their_places_among_those_in_the_files(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock) as store:
        queue = store.queue("todo")
        for number in range(200):
            if number == 100:
                queue.put("late", delay=5)
            if number == 150:
                queue.put("gone", ttl=5)
                queue.put("kept", ttl=500)
            queue.put(number)
        first = list(range(150))
        assert list(queue.browse()) == [*first, "gone", "kept", *range(150, 200)]
        clock.ms += 5_000
        clock.seconds += 5
        whole = [*first[:100], "late", *first[100:], "kept", *range(150, 200)]
        assert list(queue.browse()) == whole
        with rolled_back(queue.transaction()) as t:
            assert t.take_many(120) == whole[:120]
        assert queue.take_many(500) == whole


def test_a_transaction_above_a_block_is_read_from_its_own_file(tmp_path: Path) -> None:
    items = [f"{number:05}" * 20 for number in range(3000)]
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many(items)
        queue.put("last")
        assert held(queue) <= MOST_HELD
        assert [item for _ in range(30) for item in queue.take_many(100)] == items
        assert queue.take() == "last"


def test_delays_that_are_read_after_their_items_hold(tmp_path: Path) -> None:
    """A large transaction is read in parts: its items first, and their delays then."""
    items = [f"{number:0100}" for number in range(3000)]
    clock = FakeClock()
    with opened(tmp_path, clock=clock) as store:
        store.queue("todo").put_many(items, delay=60)
    with opened(tmp_path, clock=clock) as store:
        queue = store.queue("todo")
        assert (len(queue), queue.delayed) == (0, 3000)
        clock.ms += 60_000
        clock.seconds += 60
        assert queue.take_many(5000) == items


def test_a_browse_goes_on_over_a_checkpoint_and_takes(tmp_path: Path) -> None:
    """The files that it reads go meanwhile: the items are in several segments first, and in a snapshot then."""
    items = [f"{number:0100}" for number in range(3000)]
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        for begin in range(0, 3000, 50):
            queue.put_many(items[begin : begin + 50])
        assert len(segments(tmp_path)) > 4
        browsed = queue.browse()
        assert list(islice(browsed, 700)) == items[:700]
        store.checkpoint()
        assert len(segments(tmp_path)) == 1
        assert queue.take_many(1000) == items[:1000]
        store.checkpoint()
        rest = list(browsed)
        assert rest == sorted(set(rest))
        assert set(items[1000:]) <= set(rest) <= set(items[700:])


@pytest.mark.parametrize("lost", [False, True])
def test_damage_is_named_and_what_is_before_it_is_taken(tmp_path: Path, lost: bool) -> None:
    """Nothing behind it is taken instead: other segments follow."""
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        for number in range(4000):
            queue.put(f"item {number}")
        path = next(path for path in segments(tmp_path) if b"item 1200" in path.read_bytes())
        assert path not in segments(tmp_path)[-2:]
        whole = path.read_bytes()
        if lost:
            path.unlink()
        else:
            path.write_bytes(whole.replace(b"item 1200", b"ITEM 1200"))
        taken, error = taken_until_refused(queue, 100)
        assert isinstance(error, kvwal.CorruptLog)
        assert (error.path == path) != lost
        assert 0 < len(taken) <= 1200
        assert taken == [f"item {number}" for number in range(len(taken))]
        assert len(queue) == 4000 - len(taken)
        queue.put("after")
        with pytest.raises(kvwal.CorruptLog):
            queue.take()
        path.write_bytes(whole)
        assert queue.take_many(9000) == [*(f"item {number}" for number in range(len(taken), 4000)), "after"]


def test_an_item_that_a_cancelled_take_put_back_is_found_after_a_restart(tmp_path: Path) -> None:
    """Its delete and its first put are gone from the files, and it is older than what is around it."""
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many(range(300))
        changes, business = queue._changes, queue._business
        with rolled_back(queue.transaction()) as t:
            assert t.take_many(100) == list(range(100))
            held, waiter = Reservation(), Waiter()
            business.submit(changes.take(1, held, waiter), waits=True)
            waiter.result()
            store.checkpoint()
            for entries in changes.taken(held):
                waiter = Waiter()
                business.submit(changes.put_back(entries, waiter), waits=True)
                waiter.result()
        assert list(queue.browse()) == list(range(300))
    for _ in range(2):
        with opened(tmp_path) as store:
            assert list(store.queue("todo").browse()) == list(range(300))
    with opened(tmp_path) as store:
        assert store.queue("todo").take_many(400) == list(range(300))


def test_no_file_is_held_open_between_takes(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many([f"{number:0100}" for number in range(3000)])
        queue.put("last")
        queue.take_many(100)
        held_open = [os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert [name for name in held_open if "overflow" in name] == []
        assert "overflow" not in Path("/proc/self/maps").read_text()


def test_a_disk_that_does_not_read_refuses_takes_and_loses_nothing(tmp_path: Path) -> None:
    disk = DeafDisk()
    with opened(tmp_path, disk=disk) as store:
        queue = store.queue("todo")
        queue.put_many(range(500))
        disk.deaf = True
        taken, error = taken_until_refused(queue, 3)
        assert isinstance(error, LogFailed)
        assert "cannot be read" in str(error)
        assert 0 < len(taken) <= MOST_HELD
        store.map("other")["a"] = 1
        queue.put(500)
        disk.deaf = False
        assert queue.take_many(1000) == list(range(len(taken), 501))


def test_what_is_given_back_is_first_again_and_bounded_by_what_was_held(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        queue = store.queue("todo")
        queue.put_many(range(1000))
        with rolled_back(queue.transaction()) as t:
            assert t.take_many(400) == list(range(400))
            queue.put_many(range(1000, 1200))
        assert held(queue) <= 400 + MOST_HELD
        assert queue.take_many(2000) == list(range(1200))


def test_the_oldest_item_may_be_in_the_files(tmp_path: Path) -> None:
    clock = FakeClock()
    with opened(tmp_path, clock=clock) as store:
        queue = store.queue("todo")
        queue.put_many(range(200))
        clock.ms += 60_000
        queue.put_many(range(200, 400), priority=-1)
        queue.take_many(10)
        figures = store.stats()["businesses"]["todo"]["queues"][""]
        assert figures["oldest_seconds"] == 60
        assert figures["items"] == 390
