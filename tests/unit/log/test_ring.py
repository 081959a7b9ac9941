"""The ring is bounded by slots and by bytes; threads and tasks wait for room, and a close refuses who waits."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from kvwal.entry import Entry
from kvwal.errors import StoreClosed
from kvwal.log.bounded_queue import BoundedQueue, Slot
from kvwal.log.ring import Ring
from kvwal.log.submission import Submission, size_of
from kvwal.ports.clock import SYSTEM

MOST = 1 << 30


def submission(name: str, size: int = 100, future: Any = None) -> Submission:
    entry = Entry(name.encode(), "str", b"", "bytes", False, 0)
    return Submission([entry], size, Future() if future is None else future)


def names(taken: list[Submission]) -> list[str]:
    return [one.entries[0].key.decode() for one in taken]


async def thread_puts(ring: Ring, name: str, size: int = 100) -> tuple[threading.Thread, Submission]:
    """A thread that puts, once it has begun."""
    begun = threading.Event()
    mine = submission(name, size)

    def put() -> None:
        begun.set()
        try:
            ring.put(mine)
        except StoreClosed as error:
            mine.fail(error)

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    await asyncio.get_running_loop().run_in_executor(None, begun.wait)
    return thread, mine


async def settle() -> None:
    """Let every task that can run, run."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_waits_is_taken_together_and_in_order() -> None:
    async def main() -> None:
        ring = Ring(10, 10_000, 60, SYSTEM.elapsed)
        for name in "abc":
            ring.offer(submission(name))
            await settle()
        assert (ring.slots, ring.bytes) == (3, 300)
        taken, command = await ring.take(MOST)
        assert (names(taken), command) == (["a", "b", "c"], None)
        assert (ring.slots, ring.bytes) == (0, 0)

    asyncio.run(main())


def test_one_tick_of_the_loop_is_one_slot() -> None:
    async def main() -> None:
        ring = Ring(10, 10_000, 60, SYSTEM.elapsed)
        assert all(ring.offer(submission(name)) for name in "abcde")
        await settle()
        assert (ring.slots, ring.bytes) == (1, 500)
        assert names((await ring.take(MOST))[0]) == list("abcde")

    asyncio.run(main())


def test_a_take_ends_at_about_its_bytes_and_at_a_command() -> None:
    async def main() -> None:
        ring = Ring(10, 10_000, 60, SYSTEM.elapsed)

        async def action() -> str:
            return "done"

        for name in "abc":
            ring.offer(submission(name))
            await settle()
        commanded = asyncio.ensure_future(ring.command(action))
        await settle()
        ring.offer(submission("d"))
        await settle()
        assert names((await ring.take(150))[0]) == ["a", "b"]
        taken, command = await ring.take(MOST)
        assert names(taken) == ["c"]
        assert command is not None
        command.future.set_result(await command.action())
        assert await commanded == "done"
        assert names((await ring.take(MOST))[0]) == ["d"]

    asyncio.run(main())


@pytest.mark.parametrize("slots", [1, 10])
def test_a_command_stands_after_what_was_offered_before_it(slots: int) -> None:
    """Also in the same tick of the loop, and while the ring has no room for that tick."""

    async def main() -> None:
        ring = Ring(slots, 10_000, 60, SYSTEM.elapsed)

        async def action() -> None:
            """Nothing."""

        async def offer_and_command() -> None:
            ring.offer(submission("b"))
            await ring.command(action)

        ring.offer(submission("a"))
        await settle()
        commanded = asyncio.ensure_future(offer_and_command())
        seen = []
        command = None
        while command is None:
            taken, command = await ring.take(1)
            seen += names(taken)
        assert seen == ["a", "b"]
        command.future.set_result(None)
        await commanded

    asyncio.run(main())


@pytest.mark.parametrize(("slots", "limit"), [(2, 10_000), (10, 150)], ids=["slots", "bytes"])
def test_a_thread_waits_while_the_ring_is_full_and_goes_on(slots: int, limit: int) -> None:
    async def main() -> None:
        ring = Ring(slots, limit, 60, SYSTEM.elapsed)
        for name in "ab":
            ring.offer(submission(name))
            await settle()
        thread, _ = await thread_puts(ring, "c")
        assert thread.is_alive()
        assert ring.slots == 2
        assert names((await ring.take(1))[0]) == ["a"]
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        assert names((await ring.take(MOST))[0]) == ["b", "c"]

    asyncio.run(main())


@pytest.mark.parametrize(("slots", "limit"), [(2, 10_000), (10, 150)], ids=["slots", "bytes"])
def test_a_task_waits_while_the_ring_is_full_and_goes_on(slots: int, limit: int) -> None:
    async def main() -> None:
        ring = Ring(slots, limit, 60, SYSTEM.elapsed)
        for name in "abc":
            ring.offer(submission(name))
            await settle()
        assert ring.slots == 2
        assert not ring.offer(submission("d")), "c waits for room, and d must stay behind it"
        waiting = asyncio.ensure_future(ring.put_soon(submission("d")))
        await settle()
        assert not waiting.done()
        assert names((await ring.take(1))[0]) == ["a"]
        await asyncio.wait_for(waiting, 60)
        await settle()
        found: list[str] = []
        while len(found) < 3:
            found += names((await ring.take(MOST))[0])
        assert found == ["b", "c", "d"]

    asyncio.run(main())


@pytest.mark.parametrize(("slots", "limit"), [(2, 10_000), (10, 150)], ids=["slots", "bytes"])
def test_a_command_does_not_wait_for_space_that_threads_would_take_first(slots: int, limit: int) -> None:
    async def main() -> None:
        ring = Ring(slots, limit, 60, SYSTEM.elapsed)

        async def action() -> None:
            """Nothing."""

        for name in "ab":
            ring.offer(submission(name))
            await settle()
        thread, _ = await thread_puts(ring, "c")
        commanded = asyncio.ensure_future(ring.command(action))
        await settle()
        taken, command = await ring.take(MOST)
        assert names(taken) == ["a", "b"]
        assert command is not None
        command.future.set_result(None)
        await commanded
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        assert names((await ring.take(MOST))[0]) == ["c"]

    asyncio.run(main())


def test_one_transaction_above_the_bytes_still_gets_through() -> None:
    async def main() -> None:
        ring = Ring(10, 150, 60, SYSTEM.elapsed)
        ring.offer(submission("large", 10_000))
        await settle()
        assert names((await ring.take(MOST))[0]) == ["large"]

    asyncio.run(main())


def test_a_close_refuses_what_waits_and_what_comes() -> None:
    async def main() -> None:
        ring = Ring(1, 10_000, 60, SYSTEM.elapsed)
        inside, behind = submission("a"), submission("b")
        ring.offer(inside)
        await settle()
        ring.offer(behind)
        await settle()
        thread, outside = await thread_puts(ring, "c")
        await ring.close()
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        await settle()
        for waited in (inside, behind, outside):
            with pytest.raises(StoreClosed):
                waited.future.result()
        with pytest.raises(StoreClosed):
            ring.offer(submission("d"))
        with pytest.raises(StoreClosed):
            await ring.put_soon(submission("e"))
        with pytest.raises(StoreClosed):
            await ring.command(settle)
        with pytest.raises(StoreClosed):
            await asyncio.get_running_loop().run_in_executor(None, ring.put, submission("f"))

    asyncio.run(main())


def answered_by_a_thread(ring: Ring) -> Submission:
    """A submission without a waiting thread, whose result a thread owes to the loop."""
    written = submission("a")
    thread = threading.Thread(target=ring.answer, args=([written],))
    thread.start()
    thread.join()
    return written


def test_results_that_wait_for_the_loop_are_given_before_the_rest_is_refused() -> None:
    """A loop that cannot go on never makes the calls that wait there."""

    async def main() -> None:
        ring = Ring(10, 10_000, 60, SYSTEM.elapsed)
        written = answered_by_a_thread(ring)
        assert not written.future.done(), "it is given on the loop's thread"
        ring.refuse(lambda: StoreClosed("it is gone.", hint=""))
        assert written.future.done()

    asyncio.run(main())


def test_results_are_given_after_the_loop_has_broken() -> None:
    async def make() -> Ring:
        return Ring(10, 10_000, 60, SYSTEM.elapsed)

    loop = asyncio.new_event_loop()
    ring = loop.run_until_complete(make())
    ring.refuse(lambda: StoreClosed("it is gone.", hint=""))
    assert answered_by_a_thread(ring).future.done()
    loop.close()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later Pythons collect garbage between any two steps")
def test_no_garbage_is_collected_under_the_lock_of_the_queue() -> None:
    """A finalizer that writes would wait for its own thread."""
    queue = BoundedQueue(100, 600, SYSTEM.elapsed)
    locked: list[bool] = []

    def collected(phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            locked.append(queue._sync_mutex.locked())

    slot: Slot = [submission("a")]
    before = gc.get_threshold()
    gc.freeze()  # what other tests left is not looked at each time
    gc.callbacks.append(collected)
    try:
        for spare in range(12):  # after six of them the queue is full
            for call in (partial(queue.put_now, slot), partial(queue.heads, 8)):
                gc.collect()  # drops the spare objects of the interpreter, so that each object that is made counts
                gc.set_threshold(1)
                kept = [[] for _ in range(spare % 3)]  # type: ignore[var-annotated]
                call()
                gc.set_threshold(*before)
                del kept
        assert queue.slots == 6
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)
        gc.unfreeze()
    assert locked
    assert not any(locked)


def test_a_future_that_was_cancelled_before_the_writer_took_it_is_not_written() -> None:
    waiting: Future[int] = Future()
    waiting.cancel()
    assert not submission("a", future=waiting).begin()
    assert submission("b").begin()


def test_the_size_of_a_transaction_counts_keys_values_and_a_little_for_each() -> None:
    entry = Entry(b"key", "str", b"value", "bytes", False, 0)
    assert size_of([entry]) * 3 == size_of([entry] * 3) > 3 * 8
