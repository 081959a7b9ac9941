"""Three stores on one loop that stand for three nodes: what members ask each other, without Hazelcast and without a network."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, Self, TypeVar, cast

import pytest

from kvwal.client.member_tasks import ClusterFeed, MapChanges
from kvwal.cluster import requests as questions
from kvwal.cluster.clock_bounds import BoundedClock, ClockBounds
from kvwal.cluster.requests import Question, StructureQuestion, WatchRead, WatchStart
from kvwal.entry import Entry
from kvwal.key_class import OWN_MAP
from kvwal.log.reader import entry_decoder
from kvwal.node.adapters.live_members import Peer
from kvwal.node.requests import peers
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.own_changes import OwnChanges
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import ThreadWorkers
from kvwal.store.aio.store import Store
from kvwal.store.engine import Engine
from kvwal.store.options import Options
from kvwal.structures.watch import Start, Watch, of_structure
from kvwal_archive.objects import Objects, open_objects
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, make_options

NAMES = ("node-1", "node-2", "node-3")
LONG = 60.0


class MemberStore(Store):
    """A store whose logs have clocks within the bounds of a member, as those of a node have."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.bounds = ClockBounds()

    async def __aenter__(self) -> Self:
        """See `Store`."""
        self._engine = Engine(self._options, own_loop=False, hybrid=lambda: BoundedClock(self.bounds))
        return self


class Members:
    """Three stores on one loop that stand for three nodes; what one asks another goes through no network."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.archive = folder / "archive"
        self.clock = FakeClock()
        self.stores = {
            name: MemberStore(
                make_options(
                    folder / name,
                    clock=self.clock,
                    node=name,
                    archive=self.archive,
                    start_archiver=lambda: InProcess(""),
                )
            )
            for name in NAMES
        }
        self.workers = ThreadWorkers("test", 8)
        self.silent = threading.Event()
        self.heard = threading.Event()
        self.gone: set[str] = set()
        self.living = list(NAMES)
        self._peers: dict[str, Peers] = {}
        self._services: dict[str, HistoryService] = {}
        self._loop = asyncio.get_running_loop()
        monkeypatch.setattr(peers, "java", lambda name: SimpleNamespace(askPeer=self._ask))

    def peer(self, name: str) -> Peers:
        """One of them, as a member that asks and is asked."""
        if name not in self._peers:
            every = {other: Peer(other, other, "", "", "") for other in NAMES}
            membership: Any = SimpleNamespace(own=every[name], living=lambda: [every[one] for one in self.living])
            engine = self.engine(name)
            own = OwnChanges(engine, self.stores[name].bounds, self.objects, self.workers)
            self._peers[name] = Peers(None, membership, engine, own, self.workers, self.workers)
        return self._peers[name]

    def _ask(self, instance: object, member: str, text: bytes, millis: int) -> bytes | None:
        if member in self.gone:
            return None
        if member == "node-3" and self.silent.is_set():
            self.heard.wait()
        return asyncio.run_coroutine_threadsafe(self.peer(member).answer(text), self._loop).result()

    async def ask(self, question: Question | StructureQuestion, *, within: float = LONG) -> list[Entry]:
        """What node-1 answers."""
        answering = HistoryService(
            self.engine("node-1"), self.objects, self.peer("node-1"), self.workers, within=within
        )
        said = await answering.answer(questions.encode(question))
        return list(entry_decoder()(said))

    async def watch(
        self, start: Start = None, *, asked: str = "node-1", name: str = "jobs", structure: str = OWN_MAP
    ) -> Watch:
        """A watch of a client that asks this member. Its reads run on another thread than the members' loop."""
        feed = await asyncio.to_thread(ClusterFeed, partial(self._answer, asked), name, start, structure)
        return Watch(feed, of_structure(structure))

    def changes(self, *, asked: str = "node-1", name: str = "jobs", structure: str = OWN_MAP) -> MapChanges:
        """The changes of a map as this member answers them. To be read on another thread than the members' loop."""
        return MapChanges(partial(self._answer, asked), name, structure)

    def _answer(self, asked: str, question: WatchStart | WatchRead, key: str) -> bytes:
        if asked not in self._services:
            self._services[asked] = HistoryService(self.engine(asked), self.objects, self.peer(asked), self.workers)
        answering = self._services[asked].answer(questions.encode(question))
        return asyncio.run_coroutine_threadsafe(answering, self._loop).result()

    def objects(self) -> Objects:
        """Their archive."""
        return open_objects(str(self.archive))

    def engine(self, name: str) -> Engine:
        """That of an open store."""
        return cast("Engine", self.stores[name]._engine)


class Stores(Protocol):
    """Stores that stand for nodes."""

    stores: dict[str, Any]
    workers: ThreadWorkers


M = TypeVar("M", bound=Stores)


def run(make: Callable[[], M], work: Callable[[M], Awaitable[None]]) -> None:
    """Make the stores on a loop, open them for `work`, and close them."""

    async def all_of_it() -> None:
        members = make()
        async with AsyncExitStack() as stack:
            for store in members.stores.values():
                await stack.enter_async_context(store)
            await work(members)
        members.workers.close()

    asyncio.run(all_of_it())
