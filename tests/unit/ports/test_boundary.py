"""No callback, task or thread can stop the store by what it raises: everybody who waits is answered."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import CommitUnknown, KvwalError, StoreClosed
from kvwal.ports import boundary
from kvwal.ports.tasks import LoopEnded, LoopThread, ThreadWorkers
from kvwal.structures.transaction import submission_of


class Gone(BaseException):
    """As no handler of `Exception` expects it."""


LEAVING = [SystemExit, KeyboardInterrupt, Gone, StopIteration, asyncio.CancelledError, ValueError]


@pytest.mark.parametrize("kind", LEAVING)
def test_a_callback_of_submit_cannot_stop_the_store(tmp_path: Path, kind: type[BaseException]) -> None:
    """It is added before the write is done, so that it runs on the thread that writes; the callback after it runs too."""
    heard: list[int] = []

    def leave(_: Future[int]) -> None:
        raise kind("a callback")

    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        future = boundary.CommitFuture[int]()
        future.add_done_callback(leave)
        future.add_done_callback(lambda done: heard.append(done.result()))
        business = jobs._business
        business.submit(submission_of(business, jobs._changes.put("a", 1, None), future))
        assert future.result() > 0
        jobs["b"] = 2
        assert dict(jobs) == {"a": 1, "b": 2}
    assert heard == [future.result()]


def test_a_callback_of_a_future_that_is_done_raises_where_it_is_added(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        future = store.map("jobs").submit("a", 1)
        future.result()
        with pytest.raises(SystemExit):
            future.add_done_callback(lambda _: sys.exit(3))


def test_what_a_callback_raised_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    future = boundary.CommitFuture[int]()
    future.add_done_callback(lambda _: sys.exit("said by a callback"))
    boundary.start_thread("test", lambda: boundary.settle(future, lambda: 1), boundary.raised_to_awaiter).join()
    (record,) = caplog.records
    assert record.name.startswith("kvwal")
    assert record.levelno == logging.ERROR
    assert "said by a callback" in caplog.text


@pytest.mark.parametrize("kind", LEAVING)
def test_a_waiter_gets_the_error_of_a_call_on_another_thread(kind: type[BaseException]) -> None:
    """A StopIteration, which no future of asyncio takes, as a RuntimeError."""

    def call() -> None:
        raise kind("a call")

    thread = LoopThread("test", lambda error: None)
    workers = ThreadWorkers("test", 1)
    with pytest.raises((kind, RuntimeError, LoopEnded)):
        thread.run(workers.run(call))
    assert thread.run(workers.run(lambda: 7)) == 7
    workers.close()
    thread.close()


@pytest.mark.parametrize("kind", [SystemExit, StopIteration, ValueError])
def test_what_the_callback_of_progress_raises_is_raised_by_map(tmp_path: Path, kind: type[BaseException]) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1

    def progress(done: int, total: int, what: str) -> None:
        raise kind("progress")

    with kvwal.open(tmp_path, archive=None, progress=progress) as store:
        with pytest.raises((kind, RuntimeError)):
            store.map("jobs")
        store.map("others")["b"] = 2


def test_a_loop_that_cannot_go_on_leaves_nobody_waiting(tmp_path: Path) -> None:
    """As when a program closes all file descriptors: writes are refused, and so is the one that was on its way."""
    store = kvwal.open(tmp_path, archive=None)
    jobs = store.map("jobs")
    jobs["a"] = 1
    thread = store._thread  # type: ignore[attr-defined]
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), thread._loop._selector.fileno(), inheritable=False)
    thread._loop.call_soon_threadsafe(int)
    thread._thread.join()
    with pytest.raises((CommitUnknown, KvwalError)):
        jobs["b"] = 2
    assert jobs["a"] == 1
    with pytest.raises(StoreClosed):
        store.map("others")
    store.close()
    with kvwal.open(tmp_path, archive=None) as again:
        assert dict(again.map("jobs")) == {"a": 1}


def test_one_that_fails_costs_the_others_nothing() -> None:
    done: list[str] = []
    told: list[BaseException] = []

    def fail() -> None:
        raise Gone

    def owner(error: BaseException) -> None:
        told.append(error)
        raise SystemExit("the owner fails too")

    thread = boundary.start_thread(
        "test", lambda: boundary.contain_each([fail, lambda: done.append("b"), sys.exit, lambda: done.append("d")], owner),
        owner,
    )  # fmt: skip
    thread.join()
    assert done == ["b", "d"]
    assert [type(error) for error in told] == [Gone, SystemExit]


def test_an_exit_on_the_main_thread_is_the_programs() -> None:
    told: list[BaseException] = []
    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(SystemExit):
        boundary.contain(sys.exit, told.append)
    with pytest.raises(KeyboardInterrupt):
        boundary.contain(_interrupt, told.append)
    boundary.contain(lambda: [][0], told.append)
    assert [type(error) for error in told] == [SystemExit, KeyboardInterrupt, IndexError]


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_a_task_tells_its_owner_and_a_cancelled_one_has_not_failed() -> None:
    told: list[BaseException] = []

    async def fail() -> None:
        raise Gone("a task")

    async def main() -> None:
        failing = boundary.start_task(fail(), told.append)
        waiting = boundary.start_task(asyncio.sleep(3600), told.append)
        await asyncio.wait([failing])
        waiting.cancel()
        await asyncio.wait([waiting])

    asyncio.run(main())
    assert [str(error) for error in told] == ["a task"]
