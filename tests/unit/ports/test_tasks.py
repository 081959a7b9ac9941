"""The port to threads: a call outlives the task that waits for it."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any
from weakref import ref

import pytest

from kvwal.ports.tasks import ThreadWorkers


def test_a_call_that_fails_when_nobody_waits_any_more_says_nothing() -> None:
    """It ends before its task does: what it used may be let go of then."""
    began, go = threading.Event(), threading.Event()
    ended: list[str] = []

    def call() -> None:
        began.set()
        go.wait()
        ended.append("call")
        raise OSError("nobody hears of it")

    async def main() -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        complaints: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        workers = ThreadWorkers("test", 1)
        waiting = loop.create_task(workers.run(call))
        await loop.run_in_executor(None, began.wait)
        waiting.cancel()
        loop.call_soon(go.set)
        await asyncio.wait([waiting])
        assert waiting.cancelled()
        assert ended == ["call"]
        del waiting
        gc.collect()
        workers.close()
        return complaints

    assert asyncio.run(main()) == []


def test_a_task_gets_the_result_of_its_call_and_the_error_that_it_raised() -> None:
    error = OSError("no disk")

    def fail() -> None:
        raise error

    async def main() -> None:
        workers = ThreadWorkers("test", 1)
        assert await workers.run(lambda: 7) == 7
        assert await workers.run(lambda: None) is None
        with pytest.raises(OSError, match="no disk") as raised:
            await workers.run(fail)
        assert raised.value is error
        workers.close()

    asyncio.run(main())


def test_an_error_of_a_call_is_let_go_of_without_the_garbage_collector() -> None:
    """A full disk makes one for each group."""

    class Full(OSError):
        pass

    def fail() -> None:
        raise Full

    async def main() -> ref[Full]:
        workers = ThreadWorkers("test", 1)
        try:
            await workers.run(fail)
        except Full as error:
            return ref(error)
        finally:
            workers.close()
        raise AssertionError("the call failed, and its caller did not")

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


def test_a_call_that_outlives_its_loop_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    began, go = threading.Event(), threading.Event()

    def call() -> None:
        began.set()
        go.wait()

    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # the task is destroyed although it waits
    workers = ThreadWorkers("test", 1)
    waiting = loop.create_task(workers.run(call))
    loop.run_until_complete(loop.run_in_executor(None, began.wait))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    go.set()
    workers.close()
    assert not waiting.done()
    waiting.get_coro().close()
    assert not caplog.records


def test_a_pool_that_gets_no_more_threads_has_its_calls_made_by_those_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has a limit on threads: no call is refused and made all the same, and none is left."""
    go, made = threading.Event(), list[str]()

    async def main() -> None:
        workers = ThreadWorkers("test", 4)
        first = asyncio.ensure_future(workers.run(go.wait))
        await asyncio.sleep(0)
        with monkeypatch.context() as crowded:
            crowded.setattr(threading.Thread, "start", refuse)
            second = asyncio.ensure_future(workers.run(lambda: made.append("second")))
            await asyncio.sleep(0)
        go.set()
        await asyncio.gather(first, second)
        workers.close()

    asyncio.run(main())
    assert made == ["second"]


def test_a_call_that_gets_no_thread_at_all_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    async def main() -> None:
        workers = ThreadWorkers("test", 4)
        with monkeypatch.context() as crowded:
            crowded.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await workers.run(lambda: made.append("refused"))
        await workers.run(lambda: made.append("later"))
        workers.close()

    asyncio.run(main())
    assert made == ["later"]


def refuse(thread: threading.Thread) -> None:
    """As a system that has no more threads."""
    raise RuntimeError("can't start new thread")
