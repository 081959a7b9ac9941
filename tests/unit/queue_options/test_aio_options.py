"""Tasks and the options of a queue: a put that is cancelled while it waits puts nothing, a cancelled give-back is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kvwal.aio import Queue
from tests.support.disk.faults import open_aio
from tests.support.queue.blocks import rolled_back_here
from tests.support.queue.faces import content, putters, waits
from tests.support.queue.steps import StepWorkers, cancelled_after, steps

TASKS = 32


@pytest.fixture
def stepping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.store.engine.ThreadWorkers", StepWorkers)


def run(root: Path, test: Callable[[Queue], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with open_aio(root, flush="os") as store:
            await test(store.queue("work"))

    asyncio.run(main())


def test_no_number_of_tasks_overruns_the_capacity(tmp_path: Path) -> None:
    async def test(q: Queue) -> None:
        await q.set_options(capacity=5)
        got: list[list[int]] = []
        most: list[int] = []

        async def produce(producer: int) -> None:
            for number in range(0, 20, 2):
                await q.put([producer, number])
                most.append((await q._reading())._state.room.items)
                await q.put_many([[producer, number + 1]])

        async def take() -> None:
            while len(got) < TASKS * 20:
                got.extend(await q.take_many(3, timeout=None))

        takers = [asyncio.create_task(take()) for _ in range(4)]
        await asyncio.gather(*(produce(number) for number in range(TASKS)))
        while len(got) < TASKS * 20:
            await asyncio.sleep(0)
        for taker in takers:
            taker.cancel()
        await asyncio.gather(*takers, return_exceptions=True)
        assert sorted(got) == [[p, n] for p in range(TASKS) for n in range(20)]
        assert max(most) <= 5

    run(tmp_path, test)


@pytest.mark.usefixtures("stepping")
def test_a_waiting_task_is_woken_when_an_item_is_due(tmp_path: Path) -> None:
    async def test(q: Queue) -> None:
        await q.put("later", delay=3600)
        taker = asyncio.create_task(q.take())
        await waits(q, 1)
        await q.put("soon", delay=0.02)
        assert await taker == "soon"

    run(tmp_path, test)


def test_a_put_that_is_cancelled_while_it_waits_puts_nothing_and_wakes_the_next(tmp_path: Path) -> None:
    """The room comes some steps after the puts wait. A putter that was not woken would wait for ever."""

    async def test(q: Queue) -> None:
        await q.set_options(capacity=1)
        await q.put("a")
        first = asyncio.create_task(q.put("never"))
        await putters(q, 1)
        first.cancel()
        await asyncio.wait([first])
        assert (first.cancelled(), await content(q), (await q._reading())._state.waiters.putters) == (
            True,
            ["a"],
            0,
        )
        for number in count():
            first, second = asyncio.create_task(q.put("first")), asyncio.create_task(q.put("second"))
            await putters(q, 2)
            taking = asyncio.create_task(q.take())
            cancelled = await cancelled_after(first, number)
            await taking
            while not second.done():
                if await content(q) == ["first"]:  # the log had it when it was cancelled, or it was not cancelled
                    await q.take()
                await asyncio.sleep(0)
            await second
            assert await content(q) == ["second"]
            if not cancelled:
                break
        assert number > 4

    run(tmp_path, test)


@pytest.mark.usefixtures("stepping")
@pytest.mark.parametrize("again", [(), (0,), (2, 3)], ids=str)
def test_a_give_back_that_is_cancelled_counts_or_does_not(tmp_path: Path, again: tuple[int, ...]) -> None:
    async def fail(q: Queue) -> None:
        async with rolled_back_here(q.transaction()) as t:
            await t.take_many(2)

    async def test(q: Queue) -> None:
        await q.set_options(max_deliveries=1000, dead_letters="dead")
        await q.put_many(["a", "b", "c"])
        seen = set()
        before = 0
        for number in count():
            task = asyncio.create_task(fail(q))
            cancelled = await cancelled_after(task, number, *again)
            await steps(30)
            items = [item async for item in q.items()]
            assert [item.value for item in items] == ["a", "b", "c"]
            assert await q.in_flight() == 0
            deliveries = [item.deliveries for item in items]
            assert deliveries[0] == deliveries[1]
            assert deliveries[0] - before in (0, 1)
            seen.add((cancelled, deliveries[0] - before))
            before = deliveries[0]
            if not cancelled:
                break
        assert seen == {(True, 0), (True, 1), (False, 1)}

    run(tmp_path, test)
