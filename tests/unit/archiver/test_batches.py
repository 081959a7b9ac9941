"""Small jobs of archiving that wait together cross the pipe together; each gets its own answer."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kvwal.archiver.jobs import (
    Archive,
    Archived,
    ArchiveTarget,
    Failed,
    SegmentRef,
    Several,
    SeveralAnswers,
    decode_job,
    encode,
)
from kvwal.archiver.remote import AT_ONCE, SMALL_BYTES, Archiver
from kvwal.archiver.work import answer
from kvwal.entry import Entry
from kvwal.errors import ArchiveError, ConfigError
from kvwal.log.submission import Submission
from kvwal.ports.tasks import ThreadWorkers, side_by_side
from kvwal.store.engine import Engine
from kvwal_archive.layout import Place
from tests.support.disk.faults import make_options, open_store


def job(name: str, size: int = 100) -> Archive:
    target = ArchiveTarget("/nowhere", Place("n", "c", name, "l"), "0" * 32)
    return Archive(target, "/nowhere", [SegmentRef("/nowhere", 1, 2, 0, 0, size)], 2, 0, 1 << 30)


class Slow:
    """Stands for the process: the first line waits until the test says so; a log called `bad` fails."""

    def __init__(self, broken: bool = False) -> None:
        self.asked: list[list[str]] = []
        self.go = threading.Event()
        self._broken = broken

    def ask(self, line: bytes) -> bytes:
        wanted = decode_job(line)
        jobs = wanted.jobs if isinstance(wanted, Several) else [wanted]
        self.asked.append([each.target.place[2] for each in jobs if isinstance(each, Archive)])
        self.go.wait()
        if self._broken:
            raise EOFError("it ended")
        found = [
            Failed("ConfigError", "bad", "") if name == "bad" else Archived(len(name), 0, [])
            for name in self.asked[-1]
        ]  # fmt: skip
        return encode(SeveralAnswers(found) if isinstance(wanted, Several) else found[0])

    def close(self) -> None:
        """Nothing to end."""


async def begun(archiver: Archiver, child: Slow, jobs: list[Archive]) -> list[asyncio.Task[Archived]]:
    tasks = [asyncio.get_running_loop().create_task(archiver.do(each, Archived)) for each in jobs]
    while not child.asked:
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


def test_small_jobs_that_wait_go_together_and_large_ones_alone() -> None:
    async def main() -> None:
        child = Slow()
        archiver = Archiver(ThreadWorkers("test", 1), lambda: child)  # type: ignore[arg-type, return-value]
        jobs = [job("a"), job("bb"), job("large", SMALL_BYTES + 1), job("bad"), job("cccc")]
        tasks = await begun(archiver, child, jobs)
        child.go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each.last_sequence for each in found if isinstance(each, Archived)] == [1, 2, 5, 4]
        assert isinstance(found[3], ConfigError)
        assert child.asked == [["a"], ["bb", "bad", "cccc"], ["large"]]

    asyncio.run(main())


def test_a_cancelled_task_cancels_no_other() -> None:
    async def main() -> None:
        child = Slow()
        archiver = Archiver(ThreadWorkers("test", 1), lambda: child)  # type: ignore[arg-type, return-value]
        tasks = await begun(archiver, child, [job("first")])
        more = [asyncio.get_running_loop().create_task(archiver.do(job("x" * n), Archived)) for n in range(1, AT_ONCE)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        more[3].cancel()
        child.go.set()
        found = await asyncio.gather(*tasks, *more, return_exceptions=True)
        done = [each.last_sequence for each in found if isinstance(each, Archived)]
        assert done == [n for n in range(1, AT_ONCE) if n != 4]

    asyncio.run(main())


def test_a_process_that_dies_over_several_is_told_to_each() -> None:
    async def main() -> None:
        child = Slow(broken=True)
        archiver = Archiver(ThreadWorkers("test", 1), lambda: child)  # type: ignore[arg-type, return-value]
        tasks = await begun(archiver, child, [job("a"), job("b"), job("c")])
        child.go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, ArchiveError) and "died" in str(each) for each in found)

    asyncio.run(main())


def test_several_logs_are_archived_side_by_side(tmp_path: Path) -> None:
    meet = threading.Barrier(2)
    assert side_by_side([meet.wait, meet.wait], threads=2) in ([0, 1], [1, 0])
    with pytest.raises(ZeroDivisionError):
        side_by_side([lambda: 1, lambda: 1 // 0], threads=2)
    with open_store(tmp_path / "root", archive=tmp_path / "archive") as store:
        for number in range(20):
            store.map(f"map-{number}")["a"] = number
        store.close(archive=True)
    with open_store(tmp_path / "root", archive=tmp_path / "archive") as store:
        for number in range(20):
            store.map(f"map-{number}")
        store.archive()
        lags = {each["archive_lag_entries"] for each in store.stats()["businesses"].values()}
        assert lags == {0}


def test_a_failure_is_the_answer_of_its_own_job(tmp_path: Path) -> None:
    found = answer(Several([job("a"), job("b")]))
    assert isinstance(found, SeveralAnswers)
    assert [type(each).__name__ for each in found.answers] == ["Failed", "Failed"]


def test_a_close_without_time_left_archives_nothing_and_ends_every_log(tmp_path: Path) -> None:
    async def main() -> list[range]:
        engine = Engine(make_options(tmp_path / "root", archive=tmp_path / "archive"), own_loop=True)
        found = [await engine.business(f"map-{number}") for number in range(5)]
        for business in found:
            future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            business.offer(Submission([Entry(b"a", "str", b"1", "int", False, 0)], 70, future))
            await future
        await engine.close(archive=True, within=0.0)
        return [business.unarchived for business in found]

    assert asyncio.run(main()) == [range(1, 2)] * 5
    with open_store(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("map-3")
        assert store.stats()["businesses"]["map-3"]["last_sequence"] == 1
        store.archive()
        assert store.stats()["businesses"]["map-3"]["archive_lag_entries"] == 0
