"""A disk slower than its writers: they wait for room in the ring, by slots and by bytes, and hear of it when they waited long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.errors import Overloaded, StoreClosed
from tests.integration.concurrency.test_load import Background
from tests.support.disk.faults import FakeDisk, open_aio, open_store

SIZE = 1000
PRODUCERS = 12


def value_of(name: int) -> bytes:
    return bytes([name % 256]) * SIZE


def ring(stats: dict[str, Any]) -> tuple[int, int]:
    jobs = stats["businesses"]["jobs"]
    return jobs["ring_slots"], jobs["ring_bytes"]


def content(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, archive=None) as store:
        return dict(store.map("jobs"))


class Handing(Background):
    """Threads of which each puts one value; `wait_until` returns when so many of them wait for room or for the answer."""

    def __init__(self, store: kvwal.Store) -> None:
        super().__init__()
        self._store = store
        self.jobs = store.map("jobs")
        self.refused: list[int] = []
        self.written: list[int] = []

    def put(self, name: int) -> None:
        def work() -> None:
            try:
                self.jobs.put(name, value_of(name))
            except Overloaded:
                self.refused.append(name)
            else:
                self.written.append(name)

        self.start(work)

    def wait_until(self, reached: Callable[[tuple[int, int]], bool]) -> None:
        seen = threading.Event()
        while not reached(ring(self._store.stats())):
            seen.wait(0.001)


BOUNDS = [
    (kvwal.Settings(ring_slots=4), 4, 4 * (SIZE + 100)),
    (kvwal.Settings(ring_bytes=5 * SIZE), 5, 6 * (SIZE + 100)),
]


@pytest.mark.parametrize(("settings", "slots", "most"), BOUNDS, ids=["slots", "bytes"])
def test_threads_wait_for_room(tmp_path: Path, settings: kvwal.Settings, slots: int, most: int) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk, settings=settings) as store:
        handing = Handing(store)
        disk.hold("datasync")
        handing.put(0)
        disk.wait_for("held datasync", 1)
        for name in range(1, PRODUCERS):
            handing.put(name)
        handing.wait_until(lambda now: now[0] >= slots)
        assert ring(store.stats())[0] == slots
        assert ring(store.stats())[1] <= most
        assert handing.written == []
        disk.go_on()
        handing.join()
        assert ring(store.stats()) == (0, 0)
    assert content(tmp_path) == {name: value_of(name) for name in range(PRODUCERS)}


@pytest.mark.parametrize(("settings", "slots", "most"), BOUNDS, ids=["slots", "bytes"])
def test_threads_that_waited_long_are_told_and_nothing_of_theirs_is_written(
    tmp_path: Path, settings: kvwal.Settings, slots: int, most: int
) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk, settings=msgspec.structs.replace(settings, ring_seconds=0.05)) as store:
        handing = Handing(store)
        disk.hold("datasync")
        handing.put(0)
        disk.wait_for("held datasync", 1)
        for name in range(1, slots + 1):
            handing.put(name)
        handing.wait_until(lambda now: now[0] >= slots)
        with pytest.raises(
            Overloaded, match=r"the log writer is behind: \d+ batches of writes with [\d,]+ bytes wait"
        ) as told:
            handing.jobs.put("late", value_of(1))
        assert "for 0.05 s there was no room" in str(told.value)
        assert "nothing was written" in str(told.value)
        assert told.value.kind is kvwal.errors.Kind.RETRY
        disk.go_on()
        handing.join()
        handing.jobs.put("again", b"")
    assert content(tmp_path) == {name: value_of(name) for name in range(slots + 1)} | {"again": b""}


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_tick_of_a_thousand_tasks_does_not_outgrow_the_ring(tmp_path: Path) -> None:
    """All that one round of the loop hands over is one slot; that slot must not be as large as they please."""
    size = 100 << 10

    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk, flush="os", settings=kvwal.Settings(ring_bytes=1 << 20)) as store:
            jobs = store.map("jobs")
            await jobs.put("first", 1)
            disk.hold("write_at")
            tasks = [asyncio.ensure_future(jobs.put(name, b"x" * size)) for name in range(200)]
            await asyncio.to_thread(disk.wait_for, "held write_at", 1)
            await settle()
            assert 1 << 20 <= ring(store.stats())[1] <= (2 << 20) + 2 * size
            disk.go_on()
            assert len(set(await asyncio.gather(*tasks))) == 200
            assert ring(store.stats()) == (0, 0)

    async def hands_over_in_one_tick() -> None:
        """As above, before the writer could take anything."""
        async with open_aio(tmp_path / "tick", flush="os", settings=kvwal.Settings(ring_bytes=1 << 20)) as store:
            jobs = store.map("jobs")
            await jobs.put("first", 1)
            seen = []
            tasks = [asyncio.ensure_future(jobs.put(name, b"x" * size)) for name in range(200)]
            while not all(task.done() for task in tasks):
                seen.append(ring(store.stats())[1])
                await asyncio.sleep(0)
            assert 0 < max(seen) <= (2 << 20) + 2 * size

    asyncio.run(main())
    asyncio.run(hands_over_in_one_tick())


@pytest.mark.parametrize(("settings", "slots", "most"), BOUNDS, ids=["slots", "bytes"])
def test_tasks_that_waited_long_are_told_and_nothing_of_theirs_is_written(
    tmp_path: Path, settings: kvwal.Settings, slots: int, most: int
) -> None:
    async def main() -> None:
        disk = FakeDisk()
        given = msgspec.structs.replace(settings, ring_seconds=0.05)
        async with open_aio(tmp_path, disk, settings=given) as store:
            jobs = store.map("jobs")
            await jobs.put("first", 1)
            disk.hold("datasync")
            tasks = []
            for name in range(30):
                tasks.append(asyncio.create_task(jobs.put(name, value_of(name))))  # type: ignore[arg-type]
                await settle()
            told = await asyncio.gather(*tasks[slots + 2 :], return_exceptions=True)
            assert all(isinstance(error, Overloaded) for error in told)
            assert ring(store.stats())[1] <= most + SIZE
            disk.go_on()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            written.extend(name for name, answer in enumerate(answers) if isinstance(answer, int))
            assert await jobs.put("again", b"")
            assert ring(store.stats()) == (0, 0)

    written: list[int] = []
    asyncio.run(main())
    assert slots <= len(written) <= slots + 2
    assert content(tmp_path) == {"first": 1, "again": b""} | {name: value_of(name) for name in written}


def checkpoint_unless_closed(store: kvwal.Store) -> None:
    with suppress(StoreClosed):
        store.checkpoint()


def test_orders_wait_for_room_too_and_close_gets_through(tmp_path: Path) -> None:
    """A checkpoint and a close stand in line behind a full ring; nobody in it is lost."""
    disk = FakeDisk()
    store = open_store(tmp_path, disk, settings=kvwal.Settings(ring_slots=2))
    handing = Handing(store)
    others = Background()
    disk.hold("datasync")
    handing.put(0)
    disk.wait_for("held datasync", 1)
    for name in range(1, 3):
        handing.put(name)
    handing.wait_until(lambda now: now[0] >= 2)
    others.start(lambda: checkpoint_unless_closed(store))
    others.start(store.close)
    disk.go_on()
    handing.join()
    store.close()
    assert content(tmp_path) == {name: value_of(name) for name in range(3)}
