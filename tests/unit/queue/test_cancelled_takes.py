"""A task that is cancelled at any step of its take has taken nothing: the items are at their places, for the next taker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwal
from kvwal.aio import Queue
from kvwal.errors import CommitUnknown, StorageFull, StoreClosed
from tests.support.chance import examples
from tests.support.disk.faults import FakeDisk, open_aio
from tests.support.queue.blocks import rolled_back_here
from tests.support.queue.faces import content
from tests.support.queue.steps import StepWorkers, cancelled_after, steps

ITEMS = ["a", "b", "c"]
Take = Callable[[Queue], Coroutine[Any, Any, list[Any]]]


async def one(q: Queue) -> list[Any]:
    return [await q.take()]


async def several(q: Queue) -> list[Any]:
    return await q.take_many(2, timeout=None)


async def each(q: Queue) -> list[Any]:
    async for item in q:
        return [item]
    return []


async def rolled_back(q: Queue) -> list[Any]:
    async with rolled_back_here(q.transaction()) as t:
        await t.take()
        await t.take_many(1)
    return []


@pytest.fixture
def stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.store.engine.ThreadWorkers", StepWorkers)


def run(root: Path, test: Callable[[Queue], Coroutine[Any, Any, None]], disk: FakeDisk | None = None) -> None:
    async def main() -> None:
        async with open_aio(root, disk, flush="os" if disk is None else "sync") as store:
            await test(store.queue("work"))

    asyncio.run(main())


def on_disk(root: Path) -> list[Any]:
    with kvwal.open(root, archive=None) as store:
        return list(store.queue("work").browse())


@pytest.mark.usefixtures("stepping")
@pytest.mark.parametrize("take", [one, several, each, rolled_back])
@pytest.mark.parametrize("again", [(), (0,), (1,), (2, 3)], ids=str)
def test_cancelled_at_each_step(tmp_path: Path, take: Take, again: tuple[int, ...]) -> None:
    async def test(q: Queue) -> None:
        await q.put_many(ITEMS)
        for number in count():
            task = asyncio.create_task(take(q))
            if not await cancelled_after(task, number, *again):
                break
            assert task.cancelled()
            assert (await content(q), await q.in_flight()) == (ITEMS, 0)
        assert number > 4
        assert task.result() + await content(q) == ITEMS

    run(tmp_path, test)
    assert on_disk(tmp_path) == ITEMS[{one: 1, each: 1, several: 2, rolled_back: 0}[take] :]


@pytest.mark.usefixtures("stepping")
@pytest.mark.parametrize("take", [one, several, rolled_back])
@pytest.mark.parametrize("before", range(0, 14, 3))
@pytest.mark.parametrize("items", ["a", "ab"])
def test_the_next_taker_is_woken_in_place_of_a_cancelled_one(
    tmp_path: Path, take: Take, before: int, items: str
) -> None:
    """Both wait for the items, which come so many steps after them. A taker that was not woken would wait for ever."""

    async def test(q: Queue) -> None:
        for number in count():
            first, second = asyncio.create_task(take(q)), asyncio.create_task(one(q))
            await steps(before)
            putting = asyncio.create_task(q.put_many(items))
            cancelled = await cancelled_after(first, number)
            await putting
            if not cancelled:
                await q.put("c")
            got = [] if cancelled else first.result()
            assert sorted(got + await second + await content(q)) == list(items) + ["c"] * (not cancelled)
            await q.purge()
            if not cancelled:
                break
        assert number > 4

    run(tmp_path, test)


@pytest.mark.usefixtures("stepping")
def test_a_commit_that_is_cancelled_is_whole_and_its_timestamp_says_which(tmp_path: Path) -> None:
    async def change(t: Any) -> None:
        async with t:
            t.put(await t.take())

    async def test(q: Queue) -> None:
        await q.put_many(ITEMS)
        whole = set()
        for number in count():
            before = await content(q)
            t = q.transaction()
            task = asyncio.create_task(change(t))
            if not await cancelled_after(task, number, 1):
                break
            assert task.cancelled()
            whole.add(t.timestamp > 0)
            assert await content(q) == (before[1:] + before[:1] if t.timestamp else before)
            assert await q.in_flight() == 0
        assert whole == {False, True}

    run(tmp_path, test)


def test_a_time_limit_around_a_take_loses_nothing(tmp_path: Path) -> None:
    """The limit passes while the take is being written. Its items are put back in more than one transaction."""
    disk = FakeDisk()
    items = [bytes([number]) * (2 << 20) for number in range(3)]

    async def test(q: Queue) -> None:
        for item in items:
            await q.put(item)
        disk.hold("datasync")
        taking = asyncio.create_task(limited(q))
        await asyncio.to_thread(disk.wait_for, "held datasync", 1)
        limits[0].reschedule(asyncio.get_running_loop().time())
        await steps(5)
        disk.go_on()
        with pytest.raises(TimeoutError):
            await taking
        assert await content(q) == items

    async def limited(q: Queue) -> None:
        async with asyncio.timeout(None) as limit:
            limits.append(limit)
            await q.take_many(3)

    limits: list[asyncio.Timeout] = []
    run(tmp_path, test, disk)
    assert on_disk(tmp_path) == items


def test_a_cancelled_take_of_a_store_that_is_being_closed(tmp_path: Path) -> None:
    """Its items are put back if it was cancelled before the close; else the error says where they are."""
    disk = FakeDisk()

    async def main() -> None:
        async with open_aio(tmp_path, disk) as store:
            q = store.queue("work")
            await q.put_many(ITEMS)
            disk.hold("datasync")
            task = asyncio.create_task(q.take())
            await asyncio.to_thread(disk.wait_for, "held datasync", 1)
            task.cancel()
            disk.go_on()
        assert task.cancelled()

    asyncio.run(main())
    assert on_disk(tmp_path) == ITEMS


def test_a_take_that_is_cancelled_during_a_close_says_what_it_took(tmp_path: Path) -> None:
    disk = FakeDisk()

    async def test(q: Queue) -> None:
        await q.put_many(ITEMS)
        [first, *_] = [item async for item in q.items()]
        disk.hold("datasync")
        task = asyncio.create_task(q.take())
        await asyncio.to_thread(disk.wait_for, "held datasync", 1)
        closing = asyncio.create_task(q._store.close())  # type: ignore[attr-defined]
        business = (await q._reading())._business
        while not business.refuses_writes:
            await asyncio.sleep(0)
        task.cancel()
        disk.go_on()
        with pytest.raises(StoreClosed) as raised:
            await task
        assert "a take of 1 item was cancelled, and could not be undone" in raised.value.__notes__[0]
        assert f" 0/{first.position}." in raised.value.__notes__[0]
        await closing

    run(tmp_path, test, disk)
    assert on_disk(tmp_path) == ITEMS[1:]


@pytest.mark.parametrize("cancels", [False, True])
def test_a_take_that_fails_leaves_its_items(tmp_path: Path, cancels: bool) -> None:
    disk = FakeDisk()

    async def test(q: Queue) -> None:
        await q.put_many(ITEMS)
        disk.hold("datasync")
        disk.fail("datasync")
        task = asyncio.create_task(q.take())
        await asyncio.to_thread(disk.wait_for, "held datasync", 1)
        if cancels:
            task.cancel()
        disk.go_on()
        with pytest.raises(asyncio.CancelledError if cancels else CommitUnknown):
            await task
        assert (await content(q), await q.in_flight()) == (ITEMS, 0)

    run(tmp_path, test, disk)


@pytest.mark.usefixtures("stepping")
def test_a_take_of_a_block_that_is_refused_leaves_its_items_though_the_block_goes_on(tmp_path: Path) -> None:
    disk = FakeDisk()

    async def test(q: Queue) -> None:
        await q.put_many(ITEMS)
        async with q.transaction() as t:
            disk.full = True
            refused = await asyncio.gather(t.take(), q.put_many([bytes(200 << 10)] * 20), return_exceptions=True)
            assert [type(error) for error in refused] == [StorageFull] * 2
            disk.full = False
            assert await content(q) == ITEMS
            assert await t.take() == "a"
        assert (await content(q), await q.in_flight()) == (ITEMS[1:], 0)

    run(tmp_path, test, disk)


@pytest.mark.usefixtures("stepping")
@settings(max_examples=examples(60), deadline=None)
@given(
    script=st.lists(st.tuples(st.sampled_from("tmbpxx"), st.integers(0, 6)), max_size=40),
    deliveries=st.sampled_from([None, 1, 2]),
)
def test_any_takes_and_cancellations_lose_and_repeat_nothing(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int]], deliveries: int | None
) -> None:
    """Letters: take, take many, a block, put, cancel; after each as many steps as its number says. Items that were given back so
    often are dead letters.
    """
    got: list[int] = []
    dead: list[int] = []
    tasks: list[asyncio.Task[None]] = []

    async def receive(q: Queue, letter: str, number: int) -> None:
        if letter == "b":
            await block(q, number)
        else:
            got.extend(await one(q) if letter == "t" else await q.take_many(number + 1))

    async def block(q: Queue, number: int) -> None:
        t, taken = q.transaction(), []
        try:
            async with t:
                taken = [await t.take(), *await t.take_many(1)]
                if number % 2:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            assert not t.timestamp
        finally:
            got.extend(taken if t.timestamp else [])

    async def test(q: Queue) -> None:
        numbers = count()
        if deliveries is not None:
            await q.set_options(max_deliveries=deliveries, dead_letters="dead")
        for letter, number in script:
            if letter == "p":
                await q.put_many([next(numbers) for _ in range(number)])
            elif letter != "x":
                tasks.append(asyncio.create_task(receive(q, letter, number)))
            elif tasks:
                tasks[-1 - number % len(tasks)].cancel()
            await steps(number)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left = await content(q)
        assert left == sorted(left)
        dead.extend(await content(Queue(q._store, "work", "dead")))  # type: ignore[attr-defined]
        assert sorted(got + left + dead) == list(range(next(numbers)))
        assert await q.in_flight() == 0

    root = tmp_path_factory.mktemp("any")
    run(root, test)
    assert sorted(got + dead + on_disk(root)) == list(range(sum(number for letter, number in script if letter == "p")))
