"""A process that forks while a store is open: the child is refused at once, can do no harm, and holds nothing up."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import StoreLocked
from kvwal.structures.map.map import Map
from tests.integration.concurrency.test_load import Background
from tests.support.disk.faults import FakeDisk, open_aio, open_store

FORKS = 40


def in_a_child(call: Callable[[], Any]) -> str:
    """What `call` returns or raises in a forked child that ends like any program: through exit handlers and finalizers."""
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(60)
        try:
            said = f"answered {call()!r}"
        except (kvwal.KvwalError, OSError, RuntimeError) as error:
            said = f"{type(error).__name__}: {error}"
        os.write(there, said.encode())
        os._exit(0)
    os.close(there)
    said = b""
    while part := os.read(here, 1 << 16):
        said += part
    os.close(here)
    assert os.waitpid(child, 0)[1] == 0, f"the child was ended by a signal, after it said {said!r}"
    return said.decode()


@contextmanager
def lingering_child() -> Iterator[None]:
    """A forked child that is there, and does nothing, until the block has ended."""
    here, there = os.pipe()
    if (child := os.fork()) == 0:
        os.close(there)
        os.read(here, 1)
        os._exit(0)
    os.close(here)
    try:
        yield
    finally:
        os.close(there)
        os.waitpid(child, 0)


def calls_of(store: kvwal.Store, jobs: Map) -> list[Callable[[], Any]]:
    return [
        lambda: jobs.put("b", 1), lambda: jobs.delete("a"), lambda: jobs.update(b=1), lambda: jobs.submit("b", 1),
        lambda: jobs.put_if_absent("b", 1), lambda: jobs.replace("a", 1, 2), lambda: jobs.pop("a"), jobs.clear,
        lambda: store.map("jobs"), lambda: store.map("new"), store.checkpoint, store.archive,
    ]  # fmt: skip


def test_a_child_that_writes_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        store.archive()
        for call in calls_of(store, jobs):
            said = in_a_child(call)
            assert said.startswith("StoreClosed: ")
            assert "opened in another process" in said
        assert in_a_child(store.close) == "answered None"
        assert in_a_child(lambda: dict(jobs)) == "answered {'a': 1}"
        assert in_a_child(lambda: jobs.history("a")[0].timestamp).startswith("answered ")
        jobs["c"] = 1
        store.archive()
    with kvwal.open(tmp_path / "root", archive=None) as again:
        assert again.map("jobs") == {"a": 1, "c": 1}


def test_a_child_may_open_a_store_of_its_own(tmp_path: Path) -> None:
    def own() -> dict[Any, Any]:
        with kvwal.open(tmp_path, node="child", archive=None) as mine:
            mine.map("jobs")["b"] = 2
            return dict(mine.map("jobs"))

    def same() -> Any:
        with kvwal.open(tmp_path, node="parent", archive=None) as mine:
            return mine.map("jobs")

    def read() -> dict[Any, Any]:
        with kvwal.open(tmp_path, archive=None, read_only=True) as mine:
            return dict(mine.map("jobs"))

    with kvwal.open(tmp_path, node="parent", archive=None) as store:
        store.map("jobs")["a"] = 1
        assert in_a_child(own) == "answered {'b': 2}"
        said = in_a_child(same)
        assert said.startswith("StoreLocked: ")
        assert f"held by pid {os.getpid()} " in said
        assert in_a_child(read) == "answered {'a': 1, 'b': 2}"


@pytest.mark.long
def test_forks_in_the_middle_of_writes_and_scans(tmp_path: Path) -> None:
    """With any lock held by another thread at that moment, the child finds memory whole and free, and the parent goes on."""
    stop = threading.Event()
    others = Background()

    def put(jobs: Map, name: int) -> None:
        number = 0
        while not stop.is_set():
            jobs.put_many({f"{name}-{part}": number for part in range(50)})
            number += 1

    def scan(jobs: Map) -> None:
        while not stop.is_set():
            assert {key[0] for key in jobs} <= {"0", "1"}

    def look(jobs: Map) -> list[int]:
        found = dict(jobs.scan())
        assert len(jobs) == len(found)
        return [len({value for key, value in found.items() if key[0] == name}) for name in "01"]

    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        for name in range(2):
            others.start(lambda name=name: put(jobs, name))  # type: ignore[misc]
            others.start(lambda: scan(jobs))
        try:
            while len(jobs) < 100:
                jobs.get("0-0")
            for _ in range(FORKS):
                assert in_a_child(lambda: look(jobs)) == "answered [1, 1]"
        finally:
            stop.set()
        others.join()
    with kvwal.open(tmp_path, archive=None) as store:
        assert len(store.map("jobs")) == 100


def test_a_child_that_lives_on_does_not_hold_up_the_close_of_its_parent(tmp_path: Path) -> None:
    """The archiver's process sees the end of its input though a child has a copy of the pipe; and the lock ends with us."""
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("jobs")["a"] = 1
        store.archive()
        with lingering_child():
            store.close()
            with kvwal.open(tmp_path / "root", archive=None) as again:
                assert again.map("jobs") == {"a": 1}


def test_a_child_that_dies_leaves_the_archiver_of_its_parent_at_work(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        store.archive()
        child = os.fork()
        if child == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        jobs["b"] = 2
        store.archive()
        assert store.stats()["businesses"]["jobs"]["archived_sequence"] == 2


def refused(number: int) -> str:
    """What a worker process hears that writes to the store it inherited."""
    try:
        _inherited["b"] = number
    except kvwal.StoreClosed as error:
        return str(error)
    return "written"


_inherited: Any = {}


def test_workers_of_a_pool_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        monkeypatch.setattr(sys.modules[__name__], "_inherited", jobs)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert all("opened in another process" in said for said in pool.map(refused, range(4)))
        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as executor:
            assert all("opened in another process" in said for said in executor.map(refused, range(4)))
        jobs["a"] = 1
    with kvwal.open(tmp_path, archive=None) as again:
        assert again.map("jobs") == {"a": 1}


def test_a_child_of_an_asynchronous_store_is_refused_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_aio(tmp_path) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)

            async def put() -> None:
                await jobs.put("b", 1)

            async def open_another() -> None:
                await store.map("new").count()

            for call in (put, open_another, store.checkpoint):
                said = in_a_child(lambda call=call: asyncio.run(call()))  # type: ignore[misc]
                assert said.startswith("StoreClosed: ")
            assert in_a_child(lambda: asyncio.run(store.close())) == "answered None"
            await jobs.put("c", 1)
        with open_store(tmp_path) as other:
            assert dict(await asyncio.to_thread(other.map, "jobs")) == {"a": 1, "c": 1}

    asyncio.run(main())


def test_a_fork_while_the_disk_hangs_does_not_hang(tmp_path: Path) -> None:
    disk = FakeDisk()
    with open_store(tmp_path, disk) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        disk.hold("datasync")
        write = jobs.submit("b", 1)
        disk.wait_for("held datasync", 1)
        assert in_a_child(lambda: dict(jobs)) == "answered {'a': 1}"
        assert in_a_child(lambda: jobs.put("c", 1)).startswith("StoreClosed: ")
        with open_store(tmp_path) as other, pytest.raises(StoreLocked):
            other.map("jobs")
        disk.go_on()
        assert write.result()
