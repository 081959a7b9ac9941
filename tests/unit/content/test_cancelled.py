"""A task that is cancelled while it writes a content leaves it whole or absent, and no file that the cleaner must leave alone."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kvwal import aio
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import CommitUnknown
from tests.support.content.faces import names
from tests.support.disk.faults import FakeDisk, open_aio

LARGE = bytes(SHARED_BYTES + 1)
Put = Callable[[Any], Awaitable[object]]


async def created(business: Any, data: bytes) -> None:
    async with business.content().create("a") as out:
        await out.write(data)


async def in_transaction(business: Any, data: bytes) -> None:
    async with business.transaction() as t:
        await t.content().put("a", data)
        t.map()["a"] = 1


PUTS: dict[str, Put] = {
    "small": lambda business: created(business, b"small"),
    "large": lambda business: created(business, LARGE),
    "small, in a transaction": lambda business: in_transaction(business, b"small"),
    "large, in a transaction": lambda business: in_transaction(business, LARGE),
}


async def unsettled(business: aio.Business) -> list[str]:
    files = (await business._open_business()).content_files()
    files.shared.seal()
    return list(files._unsettled)


async def cancelled_at(disk: FakeDisk, call: str, task: asyncio.Task[object], times: int) -> None:
    """Cancel a task some times while a call on the disk is held for it, then let the call go on."""
    await asyncio.to_thread(disk.wait_for, f"held {call}", disk.calls[f"held {call}"] or 1)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    disk.go_on()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("call", ["allocate", "write_at", "datasync"])
@pytest.mark.parametrize("put", PUTS)
def test_a_put_that_is_cancelled_while_its_bytes_are_written_is_not_there(
    tmp_path: Path, put: str, call: str, times: int
) -> None:
    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk, flush="os") as store:
            business = store.business("work")
            await business.map().put("before", 1)
            await business.content().put("a", b"old")
            (await business._open_business()).content_files().seal()
            disk.hold(call)
            task = asyncio.ensure_future(PUTS[put](business))
            await cancelled_at(disk, call, task, times)
            assert await business.content().get("a") == b"old"
            assert not await business.map().contains("a")
            assert await unsettled(business) == []
            await PUTS[put](business)
            assert await business.content().get("a") != b"old"
            assert await unsettled(business) == []

    asyncio.run(main())


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("put", PUTS)
def test_a_put_that_is_cancelled_while_its_name_is_logged_is_there(tmp_path: Path, put: str, times: int) -> None:
    """The log writer has it: the task waits for the outcome."""

    async def main() -> None:
        disk = FakeDisk()
        async with open_aio(tmp_path, disk) as store:
            business = store.business("work")
            await business.content().put("before", LARGE)
            contents = await business.content()._writing()
            disk.calls.clear()
            held = "write_at"

            def hold_then_submit(*given: Any, **named: Any) -> Any:
                disk.hold(held)
                return submit(*given, **named)

            opened = contents._business
            submit = opened.offer
            opened.offer = hold_then_submit  # type: ignore[method-assign]
            task = asyncio.ensure_future(PUTS[put](business))
            await asyncio.to_thread(disk.wait_for, "held write_at", 1)
            opened.offer = submit  # type: ignore[method-assign]
            await cancelled_at(disk, held, task, times)
            assert await names(business.content()) == ["a", "before"]
            assert await unsettled(business) == []

    asyncio.run(main())


class FailingLog(FakeDisk):
    """A disk on which the next fdatasync of a log fails, once it is armed: when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.begun, self.may_fail = threading.Event(), threading.Event()

    def enter(self, call: str, path: Path) -> None:
        if self.armed and call == "datasync" and path.name == "next.partial":  # a segment, by its first name
            self.begun.set()
            assert self.may_fail.wait(60)
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().enter(call, path)


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["awaited", "cancelled"])
@pytest.mark.parametrize("put", PUTS)
def test_a_file_whose_name_may_be_in_the_log_is_left_alone(tmp_path: Path, put: str, is_cancelled: bool) -> None:
    """The fdatasync of the log fails: after the next opening the content is there, or not."""

    async def main() -> None:
        disk = FailingLog()
        async with open_aio(tmp_path, disk) as store:
            business = store.business("work")
            await business.content().put("before", b"before")
            assert await unsettled(business) == []
            disk.armed = True
            task = asyncio.ensure_future(PUTS[put](business))
            await asyncio.to_thread(disk.begun.wait, 60)
            if is_cancelled:
                task.cancel()
                await asyncio.sleep(0)
            disk.may_fail.set()
            with pytest.raises(asyncio.CancelledError if is_cancelled else CommitUnknown):
                await task
            assert len(await unsettled(business)) == 1
        async with open_aio(tmp_path) as store:
            c = store.content("work")
            for name in await names(c):
                await c.check(name)
            assert await names(c) in (["a", "before"], ["before"])

    asyncio.run(main())


def test_a_change_of_a_name_that_is_cancelled_before_the_log_has_it_is_not_done(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_aio(tmp_path, flush="os") as store:
            c = store.content("work")
            await c.put("a", b"a", {"v": "1"})
            changes: list[Awaitable[int]] = [
                c.delete("a"),
                c.copy("a", "b"),
                c.set_attributes("a", {"v": "2"}),
                c.put("a", b""),
            ]
            for change in changes:
                task = asyncio.ensure_future(change)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert (await names(c), (await c.stat("a")).attributes) == (["a"], {"v": "1"})
            assert await unsettled(store.business("work")) == []

    asyncio.run(main())


def test_a_block_that_is_cancelled_is_discarded(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_aio(tmp_path, flush="os") as store:
            c = store.content("work")
            begun, never = asyncio.Event(), asyncio.Event()

            async def write() -> None:
                async with c.create("a") as out:
                    await out.write(LARGE)
                    begun.set()
                    await never.wait()

            task = asyncio.ensure_future(write())
            await begun.wait()
            assert len(list(tmp_path.rglob("content/*/*"))) == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not list(tmp_path.rglob("content/*/*"))
            assert await unsettled(store.business("work")) == []

    asyncio.run(main())


def test_many_tasks_put_and_read_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_aio(tmp_path, flush="os") as store:
            c = store.content("work")
            await asyncio.gather(*(c.put(f"{number:03}", b"%d" % number * number) for number in range(200)))
            read = await asyncio.gather(*(c.get(f"{number:03}") for number in range(200)))
            assert read == [b"%d" % number * number for number in range(200)]
            assert await c.count() == 200
            assert await unsettled(store.business("work")) == []

    asyncio.run(main())


def test_changes_are_watched(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_aio(tmp_path, flush="os") as store:
            c = store.content("work")
            await c.put("before", b"")
            watch = c.watch()
            first = asyncio.ensure_future(anext(watch))
            while not first.done():  # it begins with what is put after its first step on a thread
                await c.put("a", b"a")
                await store.map("work").put("other", 1)
            assert (await first).key == b"a"
            await c.delete("a")
            while not (change := await anext(watch)).deleted:
                assert change.key == b"a"

    asyncio.run(main())
