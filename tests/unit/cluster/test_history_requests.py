"""A question of the past is answered from the archive and from what only logs hold, without archiving anything for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from kvwal.aio import open as open_aio
from kvwal.cluster import requests as questions
from kvwal.cluster.requests import NOW, FailuresQuestion, LostTailsQuestion, Page, Question, decode_failures
from kvwal.entry import Entry
from kvwal.errors import ArchiveError, ClusterUnreachable, LogFailed
from kvwal.log.files.names import FileKind, parse_name
from kvwal.node.requests import history_service, peers
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.loop import RequestLoop
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import ThreadWorkers
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import note_lost_tail
from tests.support.cluster.members import LONG, NAMES, Members, run


def objects_of(members: Members) -> list[Path]:
    return sorted(members.archive.rglob("*.parquet"))


def values(entries: list[Entry]) -> list[bytes]:
    return [entry.value for entry in entries]


def test_the_past_has_what_is_archived_and_what_is_not_of_every_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        times = []
        for number, name in enumerate((*NAMES, *NAMES)):
            jobs = members.stores[name].map("jobs")
            members.clock.ms += 1
            times.append(await jobs.put("job-1", str(number)))
            await jobs.put(f"other of {name}", number)
            if number == 2:
                for other in NAMES:
                    await members.stores[other].archive()
        before = objects_of(members)
        assert values(await members.ask(Question("jobs", "str", b"job-1"))) == [b"5", b"4", b"3", b"2", b"1", b"0"]
        then = await members.ask(Question("jobs", timestamp=times[4]))
        assert {entry.key: entry.value for entry in then}[b"job-1"] == b"4"
        assert len(then) == 4
        assert objects_of(members) == before
        assert await members.ask(Question("never", "str", b"job-1")) == []

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_map_that_was_never_archived_has_a_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        await members.stores["node-2"].map("jobs").put("job-1", "1")
        assert values(await members.ask(Question("jobs", "str", b"job-1"))) == [b"1"]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_long_tail_is_archived_instead_of_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MOST_BYTES", 100_000)

    async def work(members: Members) -> None:
        jobs = members.stores["node-2"].map("jobs")
        last = 0
        for number in range(20):
            last = await jobs.put(f"job-{number}", b"x" * 10_000)
        assert len(await members.ask(Question("jobs", timestamp=last))) == 20
        assert len(objects_of(members)) == 1

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_member_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        await members.stores["node-3"].map("jobs").put("job-1", "1")
        members.silent.set()
        with pytest.raises(ArchiveError, match=r"node-3 did not say within 0.01 s .*/readyz"):
            await members.ask(Question("jobs", "str", b"job-1"), within=0.01)
        members.heard.set()
        members.gone.add("node-3")
        with pytest.raises(ClusterUnreachable, match="node-3 went"):
            await members.ask(Question("jobs", "str", b"job-1"))

    run(partial(Members, tmp_path, monkeypatch), work)


class Asked:
    """Stands for HistoryRequests.java with one question in it, which stays open until that has its answer."""

    def __init__(self) -> None:
        self.told: object = None
        self._given = False
        self._done = threading.Event()

    def take(self) -> Any:
        if self._given:
            self._done.wait()
            return None
        self._given = True
        return self

    def text(self) -> bytes:
        return b"question"

    def answer(self, found: object) -> None:
        self.told = self.told or found
        self._done.set()

    refuse = answer


async def raises(error: Exception, text: bytes) -> bytes:
    raise error


async def answers(text: bytes) -> bytes:
    return b"answer to " + text


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (answers, b"answer to question"),
        (partial(raises, ArchiveError("no archive.")), "ArchiveError: no archive."),
        (partial(raises, ZeroDivisionError()), "KvwalError: this node has a bug, and its log says which."),
    ],
)
def test_every_question_has_an_answer(answer: Callable[[bytes], Awaitable[bytes]], told: object) -> None:
    asked = Asked()
    asyncio.run(RequestLoop(asked, ThreadWorkers("takers", 1), answer).run())
    assert asked.told == told


def test_entries_come_in_pages_as_they_are_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of identity over all members, archived or not, the deleted left out and the expiring not."""

    async def work(members: Members) -> None:
        for number in range(12):
            members.clock.ms += 1
            jobs = members.stores[NAMES[number % 3]].map("jobs")
            await jobs.put(f"job-{number:02}", "value", ttl=LONG if number == 7 else None)
            await jobs.put(number, "number")
        await members.stores["node-1"].archive()
        members.clock.ms += 1
        await members.stores["node-2"].map("jobs").delete("job-04")
        [*whole] = await members.ask(Question("jobs", timestamp=NOW))
        keys = [(entry.key_class, entry.key) for entry in whole]
        assert keys == sorted(keys)
        assert len(keys) == 23
        page, pages = Page(), []
        with monkeypatch.context() as small:
            small.setattr(history_service, "PAGE_BYTES", 30)
            while entries := await members.ask(Question("jobs", timestamp=NOW, page=page)):
                pages.append(entries)
                page = Page(entries[-1].key_class, entries[-1].key)
        assert [entry.public() for entries in pages for entry in entries] == [entry.public() for entry in whole]
        assert max(map(len, pages)) == 4
        of_prefix = await members.ask(Question("jobs", timestamp=NOW, page=Page(prefix_class="str", prefix=b"job-1")))
        assert [entry.key for entry in of_prefix] == [b"job-10", b"job-11"]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_member_without_an_archive_whose_log_is_damaged_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        workers = ThreadWorkers("test", 2)
        async with open_aio(tmp_path / "root", node="node-1", archive=None) as store:
            await store.map("jobs").put("job-1", "x" * 100)
            await store.map("jobs").put("job-1", "after that")  # damage at the end of a log would be a torn tail
            (segment,) = (
                path for path in (tmp_path / "root").rglob("*") if parse_name(path.name).kind is FileKind.SEGMENT
            )
            with segment.open("r+b") as file:
                file.seek(segment.read_bytes().index(b"x" * 100))
                file.write(b"y")
            engine: Any = store._engine
            service = HistoryService(engine, lambda: pytest.fail("no archive"), cast("Peers", None), workers)
            with pytest.raises(LogFailed, match=r"node-1: its log of jobs could not be read \(.*`kvwal log verify`"):
                await service.answer(questions.encode(Question("jobs", "str", b"job-1")))
        workers.close()

    asyncio.run(work())


def test_a_member_tells_the_lost_tails_of_a_map_and_counts_them_for_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        service = HistoryService(members.engine("node-1"), members.objects, members.peer("node-1"), members.workers)

        async def told(name: str) -> list[LostTail]:
            return questions.decode_lost_tails(await service.answer(questions.encode(LostTailsQuestion(name))))

        jobs = members.stores["node-1"].map("jobs")
        await jobs.put("job-1", "1")
        assert await told("jobs") == []
        tails = [
            LostTail(Place("default", "local", "jobs", node), 0, 7, end) for node, end in (("lost", 9), ("x", None))
        ]
        for tail in tails:
            note_lost_tail(members.objects(), tail)
        assert await told("jobs") == tails
        assert await told("others") == []
        counted = decode_failures(await service.answer(questions.encode(FailuresQuestion())))
        assert counted.lost_tails == {}
        await members.stores["node-1"].archive()
        counted = decode_failures(await service.answer(questions.encode(FailuresQuestion())))
        assert (counted.count, counted.lost_tails) == (0, {"jobs": 2})

    run(partial(Members, tmp_path, monkeypatch), work)
