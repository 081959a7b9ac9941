"""The asynchronous store and its event loop: used from another one, closed in another one, or outlived by it."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self

import pytest

import kvwal
from kvwal.errors import StoreClosed, StoreLocked, WrongLoop
from tests.support.disk.faults import FakeDisk, open_aio, open_store
from tests.support.polling import until


def content(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, archive=None) as store:
        return dict(store.map("jobs"))


class OtherLoop:
    """An event loop that runs on a thread, until the block ends."""

    def __enter__(self) -> Self:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def run(self, call: Callable[[], Awaitable[Any]]) -> Any:
        async def on_it() -> Any:
            return await call()

        return asyncio.run_coroutine_threadsafe(on_it(), self.loop).result(60)


def test_a_store_of_another_loop_is_refused(tmp_path: Path) -> None:
    """Every call that would wait for the other loop says so at once; reading memory needs no loop."""
    with OtherLoop() as home, OtherLoop() as away:
        store = kvwal.aio.open(tmp_path, archive=None)
        home.run(store.__aenter__)

        async def make_map() -> kvwal.aio.Map:
            return store.map("jobs")

        async def transact() -> None:
            async with jobs.transaction() as t:
                t["b"] = 1

        jobs = home.run(make_map)
        home.run(lambda: jobs.put("a", 1))
        theirs = away.run(make_map)
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: jobs.put("b", 1), lambda: jobs.put_many({"b": 1}), lambda: jobs.delete("a"), lambda: jobs.pop("a"),
            lambda: jobs.put_if_absent("b", 1), lambda: jobs.replace("a", 1, 2), lambda: jobs.remove("a", 1), transact,
            lambda: theirs.put("b", 1), lambda: theirs.get("a"), store.checkpoint, store.archive, store.close,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(WrongLoop, match="opened on another event loop"):
                away.run(call)
        assert away.run(lambda: jobs.get("a")) == 1
        home.run(lambda: jobs.put("c", 1))
        home.run(store.close)
        away.run(store.close)
        with pytest.raises(StoreClosed):
            away.run(lambda: jobs.put("d", 1))
    assert content(tmp_path) == {"a": 1, "c": 1}


def test_each_loop_with_a_node_of_its_own(tmp_path: Path) -> None:
    async def main(node: str) -> None:
        async with kvwal.aio.open(tmp_path, node=node, archive=None) as store:
            for number in range(20):
                await store.map("jobs").put(f"{node}-{number}", number)

    threads = [threading.Thread(target=lambda node=node: asyncio.run(main(node))) for node in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with kvwal.open(tmp_path, read_only=True) as store:
        assert len(store.map("jobs")) == 60


def opened_and_left(root: Path, run: Callable[[Any], Any]) -> kvwal.aio.Store:
    """A store that was opened and written to on a loop, and not closed on it."""
    store = kvwal.aio.open(root, archive=None)

    async def main() -> None:
        await store.__aenter__()
        jobs = store.map("jobs")
        await jobs.put("a", 1)
        await store.map("more").put("b", 1)
        jobs.submitted = asyncio.ensure_future(jobs.put("c", 1))  # type: ignore[attr-defined]

    run(main())
    return store


def in_a_plain_loop(main: Any) -> None:
    """As `asyncio.run` does not: the loop is closed, and nothing on it is cancelled."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main)
    loop.close()


def test_a_loop_that_ends_with_the_store_open_lets_go_of_it(tmp_path: Path) -> None:
    """`asyncio.run` cancels the log's tasks: the lock is free, and every acknowledged write is there."""
    store = opened_and_left(tmp_path, asyncio.run)
    assert set(content(tmp_path)) >= {"a"}
    asyncio.run(store.close())
    assert set(content(tmp_path)) >= {"a"}


def no_threads() -> bool | None:
    """None while a thread of a store lives: those of an executor end a moment after it was collected."""
    gc.collect()
    return None if any(thread.name.startswith("kvwal") for thread in threading.enumerate()) else True


@pytest.mark.parametrize("run", [asyncio.run, in_a_plain_loop])
def test_a_close_on_another_loop_after_its_own_was_closed(tmp_path: Path, run: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = opened_and_left(tmp_path, run)
        if run is in_a_plain_loop:
            with kvwal.open(tmp_path, archive=None) as other, pytest.raises(StoreLocked):
                other.map("jobs")

        async def late() -> None:
            with pytest.raises(StoreClosed):
                await store.map("jobs").put("d", 1)
            with pytest.raises(StoreClosed):
                await store.checkpoint()
            await store.close()
            await store.close()

        asyncio.run(late())
        assert set(content(tmp_path)) - {"c"} == {"a"}
    until(no_threads)


def test_a_store_that_was_left_in_a_closed_loop_and_dropped_lets_go_of_its_lock(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opened_and_left(tmp_path, in_a_plain_loop)
        gc.collect()
    assert set(content(tmp_path)) - {"c"} == {"a"}
    until(no_threads)


def test_a_loop_that_goes_down_in_the_middle_of_a_write(tmp_path: Path) -> None:
    """The thread that writes ends what it does before the lock is let go of, and callers that still wait get an error."""
    disk = FakeDisk()
    free_while_writing: list[bool] = []

    def look() -> None:
        disk.wait_for("held datasync", 1)
        with open_store(tmp_path) as other:
            try:
                other.map("jobs")
            except StoreLocked:
                free_while_writing.append(False)
            else:
                free_while_writing.append(True)
        disk.go_on()

    async def writes() -> None:
        async with open_aio(tmp_path, disk) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
            disk.hold("datasync")
            begun.set()
            await jobs.put_many({"b": 1, "c": 1})

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(writes())
        await begun.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        thread.start()

    begun = asyncio.Event()
    task: asyncio.Task[None] | None = None
    thread = threading.Thread(target=look)
    asyncio.run(main())
    thread.join()
    assert free_while_writing == [False]
    assert task is not None
    assert task.cancelled()
    assert content(tmp_path) in ({"a": 1}, {"a": 1, "b": 1, "c": 1})


def test_a_second_store_in_the_same_loop_does_not_wait(tmp_path: Path) -> None:
    async def main() -> None:
        async with kvwal.aio.open(tmp_path, archive=None) as first:
            await first.map("jobs").put("a", 1)
            async with kvwal.aio.open(tmp_path, archive=None) as second:
                with pytest.raises(StoreLocked):
                    await second.map("jobs").put("b", 1)
                await second.map("runs").put("b", 1)
                with pytest.raises(StoreLocked):
                    await first.map("runs").count()
            await first.map("jobs").put("c", 1)
            assert await first.map("runs").count() == 1

    asyncio.run(main())
    assert content(tmp_path) == {"a": 1, "c": 1}
