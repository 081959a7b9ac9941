"""A store that is closed while others use it: every write is acknowledged and there, or raised; and nobody waits for ever."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import Overloaded, StoreClosed, StoreLocked, WrongLoop
from kvwal.structures.map.map import Map
from tests.integration.concurrency.test_load import SMALL, Background
from tests.support.disk.faults import FakeDisk, open_aio, open_store

THREADS = 8
ROUNDS = 8


def content(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, archive=None) as store:
        return dict(store.map("jobs"))


def until_closed(call: Callable[[int], Any], done: list[int]) -> None:
    """Call it with 0, 1, 2 … until the store is closed; what returned is in `done`."""
    number = 0
    while True:
        try:
            call(number)
        except StoreClosed:
            return
        done.append(number)
        number += 1


def write(jobs: Map, name: int) -> Callable[[int], Any]:
    """A way of writing for each thread."""
    ways: list[Callable[[int], Any]] = [
        lambda n: jobs.put((key := f"{name}-{n}"), key),
        lambda n: jobs.put_many({f"{name}-{n}": 1, f"{name}-{n}-too": 1}),
        lambda n: jobs.put_if_absent(f"{name}-{n}", 1),
        lambda n: jobs.submit(f"{name}-{n}", 1).result(),
    ]
    return ways[name % len(ways)]


@pytest.mark.long
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_each_write_during_a_close_is_there_or_raised(tmp_path: Path, round_: int) -> None:
    """A few more writes each round before the close, and two threads that close at once."""
    store = kvwal.open(tmp_path, archive=None, settings=SMALL)
    jobs = store.map("jobs")
    done: list[list[int]] = [[] for _ in range(THREADS)]
    others = Background()
    for name in range(THREADS):
        others.start(lambda name=name: until_closed(write(jobs, name), done[name]))  # type: ignore[misc]
    others.start(lambda: until_closed(lambda _: store.checkpoint(), []))
    others.start(lambda: until_closed(lambda n: store.map(f"other-{n % 3}"), []))
    while len(done[0]) < round_ * 3:
        jobs.put("more", 1)
    others.start(store.close)
    store.close()
    others.join()
    found = content(tmp_path)
    for name, numbers in enumerate(done):
        assert {f"{name}-{number}" for number in numbers} <= set(found)
    for key in found:
        assert not key.endswith("-too") or key.removesuffix("-too") in found
        assert not key.startswith("1-") or key.endswith("-too") or f"{key}-too" in found


@pytest.mark.long
def test_an_archive_under_way_when_the_store_is_closed_ends_or_says_so(tmp_path: Path) -> None:
    store = kvwal.open(tmp_path / "root", archive=tmp_path / "archive", settings=SMALL)
    jobs = store.map("jobs")
    others = Background()
    done: list[int] = []
    others.start(lambda: until_closed(lambda n: jobs.put(n, n), done))
    archived: list[int] = []
    others.start(lambda: until_closed(lambda _: store.archive(), archived))
    others.start(lambda: until_closed(lambda _: store.checkpoint(), []))
    while len(archived) < 2:
        jobs.put("more", 1)
    store.close()
    others.join()
    assert set(content(tmp_path / "root")) == {*done, "more"}
    kvwal.restore(tmp_path / "archive", tmp_path / "second")
    assert set(content(tmp_path / "second")) == {*done, "more"}


def test_tasks_during_a_close(tmp_path: Path) -> None:
    async def until(call: Callable[[int], Any], done: list[int]) -> None:
        number = 0
        while True:
            try:
                await call(number)
            except StoreClosed:
                return
            done.append(number)
            number += 1

    async def main() -> None:
        done: list[list[int]] = [[] for _ in range(50)]
        store = kvwal.aio.open(tmp_path, archive=None, settings=SMALL)
        async with store:
            jobs = store.map("jobs")
            await jobs.put("more", 1)
            tasks = [
                asyncio.create_task(until(lambda n, name=name: jobs.put(f"{name}-{n}", 1), numbers))  # type: ignore[misc]
                for name, numbers in enumerate(done)
            ]
            tasks.append(asyncio.create_task(until(lambda _: store.checkpoint(), [])))
            while len(done[0]) < 20:
                await jobs.put("more", 1)
            await asyncio.gather(store.close(), store.close())
            await asyncio.gather(*tasks)
        found = await asyncio.to_thread(content, tmp_path)
        assert set(found) == {"more"} | {f"{name}-{number}" for name, numbers in enumerate(done) for number in numbers}

    asyncio.run(main())


def test_a_second_close_waits_for_the_first(tmp_path: Path) -> None:
    """A caller whose `close` returned can open the store again, also if somebody else began to close it."""
    disk = FakeDisk()
    store = open_store(tmp_path, disk)
    jobs = store.map("jobs")
    disk.hold("datasync")
    first = jobs.submit("a", 1)
    disk.wait_for("held datasync", 1)
    ended = threading.Semaphore(0)
    closers = Background()
    for _ in range(3):
        closers.start(lambda: (store.close(), ended.release()))
    assert not ended.acquire(timeout=0.05)
    disk.go_on()
    closers.join()
    assert first.result()
    assert content(tmp_path) == {"a": 1}
    store.close()


def test_a_callback_may_submit_and_may_not_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A callback of a future runs on the thread that writes. What would wait for that thread is refused, and nothing hangs."""
    refused: list[str] = []
    chained: Future[Future[int]] = Future()

    def callback(_: Future[int]) -> None:
        calls: list[Callable[[], Any]] = [
            store.close, store.checkpoint, lambda: store.map("new"), lambda: jobs.put("b", 1), lambda: jobs.update(b=1),
            lambda: jobs.put_if_absent("b", 1), lambda: jobs.pop("a"), jobs.clear, lambda: jobs.__delitem__("a"),
        ]  # fmt: skip
        for call in calls:
            try:
                call()
            except WrongLoop as error:
                refused.append(str(error))
        chained.set_result(jobs.submit("c", 1))

    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        jobs.submit("a", 1).add_done_callback(callback)
        assert chained.result(60).result(60)
        assert dict(jobs) == {"a": 1, "c": 1}
    assert len(refused) == 9
    assert all("this is the thread that writes" in error for error in refused)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert content(tmp_path) == {"a": 1, "c": 1}


def test_a_callback_that_finds_no_room_does_not_wait_for_it(tmp_path: Path) -> None:
    answers: list[Any] = []
    called = threading.Event()

    def callback(_: Future[int]) -> None:
        for number in range(10):
            try:
                answers.append(jobs.submit(number, b"x" * 600))
            except Overloaded as error:
                answers.append(error)
        called.set()

    with kvwal.open(tmp_path, archive=None, settings=kvwal.Settings(ring_slots=4)) as store:
        jobs = store.map("jobs")
        jobs.submit("a", 1).add_done_callback(callback)
        assert called.wait(60)
        written = [answer.result(60) for answer in answers if isinstance(answer, Future)]
        assert len(written) == len(jobs) - 1 == 4


def test_a_close_that_was_interrupted_goes_on_at_the_next(tmp_path: Path) -> None:
    """Ctrl-C during a close: the lock is held until the close that was begun has ended."""
    disk = FakeDisk()
    store = open_store(tmp_path, disk)
    jobs = store.map("jobs")
    disk.hold("datasync")
    write = jobs.submit("a", 1)
    disk.wait_for("held datasync", 1)

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._thread, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.close()
    with open_store(tmp_path) as other, pytest.raises(StoreLocked):
        other.map("jobs")
    disk.go_on()
    store.close()
    assert write.result()
    assert content(tmp_path) == {"a": 1}


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("kvwal")}


def test_a_store_that_nobody_holds_any_more_is_closed_with_a_warning(tmp_path: Path) -> None:
    """As of a file: `ResourceWarning`, and what it held is let go of; what was submitted is written first."""
    store = open_store(tmp_path, FakeDisk())
    jobs = store.map("jobs")
    last = jobs.submit("a", 1)
    threads_of = store._thread._thread
    gc.collect()  # what other tests have left may warn, too
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        del store, jobs
        gc.collect()
    assert [str(warning.message) for warning in warned] == [f"unclosed store {tmp_path}: close it, or use `with`"]
    assert warned[0].category is ResourceWarning
    assert last.result(60)
    threads_of.join(60)
    assert not threads()
    assert content(tmp_path) == {"a": 1}


def test_a_map_keeps_its_store_open(tmp_path: Path) -> None:
    def jobs_of(root: Path) -> Map:
        return kvwal.open(root, archive=None).map("jobs")

    jobs = jobs_of(tmp_path)
    gc.collect()
    jobs["a"] = 1
    store: Any = jobs._store
    assert isinstance(store, kvwal.Store)
    store.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del jobs, store
        gc.collect()
    assert not threads()
    assert content(tmp_path) == {"a": 1}


def test_a_close_that_fails_answers_all_callers_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seal of the last segment fails: what stands after the close in the ring is refused, not forgotten."""

    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)
            disk.hold("datasync")
            write = asyncio.create_task(jobs.put("b", 1))  # type: ignore[arg-type]
            await asyncio.to_thread(disk.wait_for, "held datasync", 1)
            log = store._engine_now().businesses["jobs"].log
            begun, close = asyncio.Event(), log.close

            async def closed() -> None:
                begun.set()
                await close()

            monkeypatch.setattr(log, "close", closed)
            closing = asyncio.create_task(store.close())
            await begun.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            behind = asyncio.create_task(log.flush())
            await asyncio.sleep(0)
            disk.fail("datasync", 2)
            disk.go_on()
            assert await write
            with pytest.raises(kvwal.LogFailed):
                await closing
            with pytest.raises(StoreClosed):
                await behind

    asyncio.run(main())
    assert content(tmp_path) == {"a": 1, "b": 1}


def test_a_close_begins_while_the_ring_is_never_empty(tmp_path: Path) -> None:
    """Each result of a group submits the next one, so the writer always finds a slot, as it does beside threads on one CPU."""
    store = kvwal.open(tmp_path, archive=None)
    jobs = store.map("jobs")
    written: list[int] = []
    many, ended = threading.Event(), threading.Event()

    def again(future: Future[int]) -> None:
        try:
            written.append(future.result())
            if len(written) == 100:
                many.set()
            jobs.submit("a", len(written)).add_done_callback(again)
        except StoreClosed:
            ended.set()

    jobs.submit("a", 0).add_done_callback(again)
    many.wait()
    store.close()
    ended.wait()
    assert content(tmp_path) == {"a": len(written) - 1}
