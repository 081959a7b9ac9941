"""A question of the past is answered from the archive and from what only logs hold, without archiving anything for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from archive.objects import Objects, open_objects
from kvwal.cluster import requests as questions
from kvwal.cluster.requests import NOW, Page, Question
from kvwal.entry import Entry
from kvwal.errors import ArchiveError, ClusterUnreachable
from kvwal.log.reader import entry_decoder
from kvwal.node.adapters.membership import Peer
from kvwal.node.requests import history_service, peers
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.loop import RequestLoop
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.engine import Engine
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, open_aio

NAMES = ("node-1", "node-2", "node-3")
LONG = 60.0


class Members:
    """Three stores on one loop that stand for three nodes; what one asks another goes through no network."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.archive = folder / "archive"
        self.clock = FakeClock()
        self.stores = {
            name: open_aio(
                folder / name, clock=self.clock, node=name, archive=self.archive, start_archiver=lambda: InProcess("")
            )
            for name in NAMES
        }
        self.workers = ThreadWorkers("test", 8)
        self.silent = threading.Event()
        self.heard = threading.Event()
        self.gone: set[str] = set()
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(peers, "java", lambda name: SimpleNamespace(askPeer=self._ask))

    def peer(self, name: str) -> Peers:
        """One of them, as a member that asks and is asked."""
        peers = [Peer(other, other, "", "", "") for other in NAMES]
        membership: Any = SimpleNamespace(own=peers[NAMES.index(name)], living=lambda: peers)
        return Peers(None, membership, self.engine(name), self.workers, self.workers)

    def _ask(self, instance: object, member: str, text: bytes, millis: int) -> bytes | None:
        if member in self.gone:
            return None
        if member == "node-3" and self.silent.is_set():
            self.heard.wait()
        return asyncio.run_coroutine_threadsafe(self.peer(member).answer(text), self._loop).result()

    async def ask(self, question: Question, *, within: float = LONG) -> list[Entry]:
        """What node-1 answers."""

        def objects() -> Objects:
            return open_objects(str(self.archive))

        answering = HistoryService(self.engine("node-1"), objects, self.peer("node-1"), self.workers, within=within)
        said = await answering.answer(questions.encode(question))
        return list(entry_decoder()(said))

    def engine(self, name: str) -> Engine:
        """That of an open store."""
        return cast("Engine", self.stores[name]._engine)


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Members], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        members = Members(folder, monkeypatch)
        async with AsyncExitStack() as stack:
            for store in members.stores.values():
                await stack.enter_async_context(store)
            await work(members)
        members.workers.close()

    asyncio.run(all_of_it())


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

    run(tmp_path, monkeypatch, work)


def test_a_map_that_was_never_archived_has_a_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        await members.stores["node-2"].map("jobs").put("job-1", "1")
        assert values(await members.ask(Question("jobs", "str", b"job-1"))) == [b"1"]

    run(tmp_path, monkeypatch, work)


def test_a_long_tail_is_archived_instead_of_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MOST_BYTES", 100_000)

    async def work(members: Members) -> None:
        jobs = members.stores["node-2"].map("jobs")
        last = 0
        for number in range(20):
            last = await jobs.put(f"job-{number}", b"x" * 10_000)
        assert len(await members.ask(Question("jobs", timestamp=last))) == 20
        assert len(objects_of(members)) == 1

    run(tmp_path, monkeypatch, work)


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

    run(tmp_path, monkeypatch, work)


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

    run(tmp_path, monkeypatch, work)
