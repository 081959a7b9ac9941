"""16 threads and 1,000 tasks do everything at once, over rotation, checkpoints, archiving: nothing is lost, torn or doubled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.structures.map.map import Map
from tests.support.chance import new_seed
from tests.support.programs.mixed import Blocking, Tally, Worker, check, drive

THREADS = 16
TASKS = 1000
THREAD_STEPS = 60
TASK_STEPS = 3
PAST = 0.01
SMALL = kvwal.Settings(
    segment_bytes=64 << 10, archive_seconds=0.3, checkpoint_seconds=0.3, ring_slots=64, ring_bytes=64 << 10
)
"""Segments that fill all the time, and a ring that is often full."""


class Background:
    """Threads; what they raise is raised again by `join`."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._ended: list[Future[None]] = []

    def start(self, work: Callable[[], Any]) -> None:
        ended: Future[None] = Future()

        def run() -> None:
            try:
                work()
            except BaseException as error:
                ended.set_exception(error)
                raise
            ended.set_result(None)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        self._ended.append(ended)
        thread.start()

    def join(self) -> None:
        for thread, ended in zip(self._threads, self._ended, strict=True):
            ended.result()
            thread.join()


def maintain(store: kvwal.Store, stop: threading.Event) -> None:
    """Checkpoint and archive, one after the other, until it is told to stop; the last time after that."""
    last = False
    while not last:
        last = stop.is_set()
        store.checkpoint()
        store.archive()


async def submitting(jobs: Map, name: str) -> None:
    """A task that uses the synchronous store without blocking its loop."""
    for value in range(TASK_STEPS):
        await asyncio.wrap_future(jobs.submit(f"task-{name}", value))
        assert jobs[f"task-{name}"] == value


@pytest.mark.long
def test_threads_and_tasks_on_the_synchronous_store(tmp_path: Path) -> None:
    seed, tally, stop, others = new_seed(), Tally(), threading.Event(), Background()
    root, archive = tmp_path / "root", tmp_path / "archive"

    async def tasks() -> None:
        await asyncio.gather(*(submitting(jobs, str(number)) for number in range(TASKS)))

    with kvwal.open(root, archive=archive, settings=SMALL) as store:
        jobs = store.map("jobs")
        workers = [Worker(Blocking(jobs), str(number), seed, tally) for number in range(THREADS)]
        others.start(lambda: maintain(store, stop))
        mine = Background()
        for worker in workers:
            mine.start(lambda worker=worker: drive(worker.run(THREAD_STEPS, past=PAST)))  # type: ignore[misc]
        mine.start(lambda: asyncio.run(tasks()))
        mine.join()
        stop.set()
        others.join()
        stats = store.stats()["businesses"]["jobs"]
        check_end(dict(jobs), workers, stats, tally)
    with kvwal.open(root, archive=archive) as store:
        check(dict(store.map("jobs")), workers)
    kvwal.restore(archive, tmp_path / "second")
    with kvwal.open(tmp_path / "second") as store:
        check(dict(store.map("jobs")), workers)


def check_end(found: dict[Any, Any], workers: list[Worker], stats: dict[str, Any], tally: Tally) -> None:
    check(found, workers)
    assert {found[f"task-{number}"] for number in range(TASKS)} == {TASK_STEPS - 1}
    check_idle(stats, tally)


def check_idle(stats: dict[str, Any], tally: Tally) -> None:
    """The ring is empty, and there was something to disturb the workers."""
    assert (stats["ring_slots"], stats["ring_bytes"]) == (0, 0)
    assert stats["snapshot_sequence"] > 0
    assert stats["archived_sequence"] > 0
    assert tally.scans > 0
    assert tally.looks > 0


@pytest.mark.long
def test_tasks_and_threads_on_the_asynchronous_store(tmp_path: Path) -> None:
    seed, tally, threads = new_seed(), Tally(), Background()
    root, archive = tmp_path / "root", tmp_path / "archive"
    workers: list[Worker] = []

    async def keep_up(store: kvwal.aio.Store, ended: asyncio.Event) -> None:
        last = False
        while not last:
            last = ended.is_set()
            await store.checkpoint()
            await store.archive()

    async def main() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with kvwal.aio.open(root, archive=archive, settings=SMALL) as store:
            jobs = store.map("jobs")
            await jobs.count()
            workers.extend(Worker(jobs, str(number), seed, tally) for number in range(TASKS + THREADS))
            maintenance = asyncio.create_task(keep_up(store, ended))
            for worker in workers[:THREADS]:
                threads.start(
                    lambda worker=worker: asyncio.run_coroutine_threadsafe(  # type: ignore[misc]
                        worker.run(THREAD_STEPS, past=PAST), loop
                    ).result()
                )
            async with asyncio.TaskGroup() as group:
                for worker in workers[THREADS:]:
                    group.create_task(worker.run(TASK_STEPS))
            await asyncio.to_thread(threads.join)
            ended.set()
            await maintenance
            check({key: value async for key, value in jobs.scan()}, workers)
            check_idle(store.stats()["businesses"]["jobs"], tally)

    asyncio.run(main())
    with kvwal.open(root, archive=archive) as store:
        check(dict(store.map("jobs")), workers)
