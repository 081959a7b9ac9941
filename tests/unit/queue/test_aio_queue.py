"""What the asynchronous queues and businesses have of their own: their loop, `async for`, watches, and maps with a name."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.aio import Business, Queue, Store
from kvwal.config import Settings
from kvwal.errors import ConfigError, InvalidName, StoreClosed, WrongLoop, WrongType
from kvwal.store.aio.waiting import TaskSignal
from kvwal.structures.queue.changes import QueueChanges
from tests.support.disk.faults import FakeClock, FakeDisk, open_aio
from tests.support.queue.faces import content, waits
from tests.support.queue.steps import steps

TASKS = 64


def run(root: Path, test: Callable[[Store, Business], Coroutine[Any, Any, None]], **given: Any) -> None:
    async def main() -> None:
        async with open_aio(root, **({"flush": "os"} | given)) as store:
            await test(store, store.business("work"))

    asyncio.run(main())


def test_each_item_of_many_tasks_is_taken_once(tmp_path: Path) -> None:
    """Over a ring that is full most of the time: puts and takes wait for room."""

    async def test(store: Store, business: Business) -> None:
        q = business.queue()
        got: list[list[list[int]]] = [[] for _ in range(TASKS)]

        async def produce(producer: int) -> None:
            for number in range(0, 20, 2):
                await q.put([producer, number])
                async with business.transaction() as t:
                    t.queue().put([producer, number + 1])
                    t.map("state")[producer] = number

        async def take(mine: list[list[int]]) -> None:
            async for item in q:
                if item[0] < 0:
                    return
                mine.append(item)

        takers = [asyncio.create_task(take(mine)) for mine in got]
        await asyncio.gather(*(produce(number) for number in range(TASKS)))
        await q.put_many([[-1, 0]] * TASKS, priority=1)
        await asyncio.gather(*takers)
        assert sorted(item for mine in got for item in mine) == [[p, n] for p in range(TASKS) for n in range(20)]
        for numbers in ([n for p, n in mine if p == producer] for mine in got for producer in range(TASKS)):
            assert numbers == sorted(numbers)
        assert (await q.count(), await q.in_flight()) == (0, 0)
        assert dict([item async for item in business.map("state").scan()]) == dict.fromkeys(range(TASKS), 18)

    run(tmp_path, test, settings=Settings(ring_slots=2, ring_bytes=2000))


def test_one_item_wakes_one_of_many_takers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay asleep: they ask the log for nothing."""
    asked: list[int] = []
    monkeypatch.setattr(QueueChanges, "take", asking(QueueChanges.take, asked))

    async def test(store: Store, business: Business) -> None:
        q = business.queue()
        takers = [asyncio.create_task(store.queue("work").take()) for _ in range(TASKS)]
        await waits(q, TASKS)
        assert len(asked) == TASKS
        for number in range(TASKS):
            await q.put(number)
            await waits(q, TASKS - 1 - number)
        assert sorted(await asyncio.gather(*takers)) == list(range(TASKS))
        assert len(asked) == 2 * TASKS

    run(tmp_path, test)


def asking(take: Callable[..., Any], asked: list[int]) -> Callable[..., Any]:
    def counted(self: QueueChanges, most: int, *given: Any, **named: Any) -> Any:
        asked.append(most)
        return take(self, most, *given, **named)

    return counted


def test_a_queue_belongs_to_its_loop(tmp_path: Path) -> None:
    async def test(store: Store, business: Business) -> None:
        q = business.queue()
        await q.put("a")

        async def block() -> None:
            async with q.transaction() as t:
                await t.take()

        async def put_in_block() -> None:
            async with business.transaction() as t:
                t.queue().put("b")

        for call in (q.take, lambda: q.put("b"), lambda: q.take_many(1, None), q.purge, block, put_in_block):
            with pytest.raises(WrongLoop):
                await asyncio.to_thread(asyncio.run, call())
        assert (await content(q), await q.in_flight()) == (["a"], 0)

    run(tmp_path, test)


def test_a_store_that_was_not_entered_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        business = kvwal.aio.open(tmp_path, archive=None).business("work")
        for call in (business.queue().take, business.map("state").count, business.queue("a").peek):
            with pytest.raises(StoreClosed, match="async with"):
                await call()
        with pytest.raises(StoreClosed):
            await business.transaction().__aenter__()

    asyncio.run(main())


def test_names_are_those_of_the_synchronous_side(tmp_path: Path) -> None:
    async def test(store: Store, business: Business) -> None:
        assert [business.name, store.queue("work").name, business.queue("a").name] == [
            "work", "work/queue", "work/queue/a",
        ]  # fmt: skip
        texts = [repr(thing) for thing in (business, business.queue("a"), business.map("a"), business.map())]
        assert [text.split(" of ")[0] for text in texts] == [
            "<Business 'work'", "<Queue 'work/queue/a'", "<Map 'work/map/a'", "<Map 'work'",
        ]  # fmt: skip
        with pytest.raises(InvalidName):
            await store.queue("../work").take()
        with pytest.raises(WrongType):
            business.queue().__reduce_ex__(2)
        await store.queue("work").put("x")
        with pytest.raises(ConfigError, match="flush"):
            await store.queue("work", flush="sync").peek()

    run(tmp_path, test)


def test_watches_show_the_changes_of_one_structure(tmp_path: Path) -> None:
    async def test(store: Store, business: Business) -> None:
        q, state = business.queue("todo"), business.map("state")
        start = await q.put("x")
        await business.queue().put("y")
        await business.map().put("own", "one")
        await state.put("key", "two")
        await q.take()
        shown = {}
        for thing, changes in ((q, 2), (state, 1), (business.map(), 1)):
            watch = thing.watch(after=start - 1)
            shown[repr(thing).split("'")[1]] = [await anext(watch) for _ in range(changes)]
        assert [(change.value, change.deleted) for change in shown["work/queue/todo"]] == [(b"x", False), (b"", True)]
        assert [change.value for name in ("work/map/state", "work") for change in shown[name]] == [b"two", b"one"]

    run(tmp_path, test)


def test_a_map_with_a_name_is_a_map(tmp_path: Path) -> None:
    clock = FakeClock()

    async def test(store: Store, business: Business) -> None:
        state = business.map("state")
        await business.map().put("a", "own")
        before = await state.put("a", 1, ttl=5)
        assert await state.ttl("a") == 5
        assert await state.touch("a", None)
        assert await state.ttl("a") is None
        assert await state.replace("a", 1, 2)
        assert await state.commit_if({"a": 2}, {"b": [1]})
        assert not await state.put_if_absent("b", 1)
        assert [item async for item in state.scan()] == [("a", 2), ("b", [1])]
        assert [item async for item in state.range("b")] == [("b", [1])]
        async with state.transaction() as t:
            t["c"] = 3
            del t["a"]
            assert await t.get("a", "gone") == "gone"
        assert (await state.pop("b"), await state.contains("a"), await state.count()) == ([1], False, 1)
        assert [entry.deleted for entry in await state.history("a")] == [True, False, False, False]
        assert dict(await state.at(before)) == {"a": 1}
        assert await business.map().get("a") == "own"

    run(tmp_path, test, clock=clock)


def test_sync_is_a_datasync_before_the_answer(tmp_path: Path) -> None:
    disk = FakeDisk()

    async def test(store: Store, business: Business) -> None:
        q = business.queue()
        await q.put("a")
        disk.log.clear()
        await q.put("b", sync=True)
        await q.put_many(["c"], sync=True)
        assert disk.log == ["write_at", "datasync"] * 2

    run(tmp_path, test, disk=disk)


def test_a_signal_is_set_by_any_thread_and_by_one_that_outlives_the_loop(tmp_path: Path) -> None:
    signals: list[TaskSignal] = []

    async def main() -> None:
        signals.append(signal := TaskSignal())
        assert not await signal.wait(0.001)
        thread = threading.Thread(target=signal.set)
        thread.start()
        assert await signal.wait(None)
        thread.join()
        signal.set()
        assert await signal.wait(0)

    asyncio.run(main())
    thread = threading.Thread(target=signals[0].set)
    thread.start()
    thread.join()


def test_a_taker_keeps_no_queue_alive_that_nobody_uses(tmp_path: Path) -> None:
    async def test(store: Store, business: Business) -> None:
        for number in range(100):
            await business.queue().put(number)
        assert [await business.queue().take() for _ in range(100)] == list(range(100))
        listeners = store._engine_now().businesses["work"].log.writer.listeners
        assert len(listeners._calls) < 10

    run(tmp_path, test)


def test_a_queue_is_its_own_iterator(tmp_path: Path) -> None:
    async def test(store: Store, business: Business) -> None:
        q = business.queue()
        await q.put_many([1, 2, 3])
        assert isinstance(q, Queue)
        assert [await anext(aiter(q)), await anext(q)] == [1, 2]
        assert [item.value async for item in q.items()] == [3]

    run(tmp_path, test)


@pytest.mark.parametrize("number", range(8))
def test_a_loop_that_ends_with_takes_under_way_ends(tmp_path: Path, number: int) -> None:
    """`asyncio.run` cancels the takes and the log writer: none waits for the other, and the lock is free."""

    async def main() -> None:
        await store.__aenter__()
        q = store.queue("work")
        await q.put_many(range(10))
        taking.extend(asyncio.create_task(take) for take in (q.take(), q.take_many(2), block(q), q.purge(), q.take()))
        await steps(number)

    async def block(q: Queue) -> None:
        async with q.transaction() as t:
            t.put(await t.take())

    store = open_aio(tmp_path)
    taking: list[asyncio.Task[Any]] = []
    asyncio.run(main())
    assert all(task.done() for task in taking)
    with kvwal.open(tmp_path, archive=None) as again:
        left = list(again.queue("work").browse())
        assert len(set(left)) == len(left)
