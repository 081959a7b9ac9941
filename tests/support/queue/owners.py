"""Owners of the queues of one business on one shared memory, without Hazelcast: each transaction there is whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.cluster.queues.memory import DONE, REFUSED, Claims, Commit, KeptBlock
from kvwal.cluster.queues.requests import (
    OWNER_CLASS,
    OWNER_KEY,
    Browse,
    Count,
    GiveBack,
    Hold,
    Item,
    Options,
    Put,
    PutItem,
    Queues,
    Renew,
    SetOptions,
    Take,
)
from kvwal.cluster.queues.requests import Commit as CommitBlock
from kvwal.cluster.queues.table import Claim
from kvwal.entry import Entry, encode_entries, is_live
from kvwal.node.queues.owner import QueueOwner
from kvwal.ports.tasks import ThreadWorkers
from kvwal.structures.queue.options import QueueOptions, options_of
from kvwal.structures.queue.positions import OPTIONS_KEY, is_of_any_queue, item_class, priority_of
from tests.support.disk.faults import FakeClock

MAP = "work"
QUEUE = "queue"
VISIBILITY = 30.0


class SharedMemory:
    """What all members have in memory. `refusing` is called before each transaction, and may raise, or say what becomes of it."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.entries: dict[Claim, Entry] = {}
        self.mark: str | None = None
        self.claims: dict[tuple[int, str], Claims] = {}
        self.refusing: Callable[[list[Entry]], str | None] = lambda entries: None

    def lose(self) -> None:
        """All members are started again: what has a log is there."""
        self.mark = None
        self.claims = {}


class OwnersView:
    """The memory as one owner sees it: see `kvwal.cluster.queues.memory.QueueMemory`."""

    def __init__(self, shared: SharedMemory, mark: str) -> None:
        self.name = MAP
        self._shared = shared
        self._mark = mark

    def begin(self) -> bool:
        before, self._shared.mark = self._shared.mark, self._mark
        return before is not None

    def is_owner(self) -> bool:
        return self._shared.mark == self._mark

    def record(self) -> Entry:
        found = self._shared.entries.get((OWNER_CLASS, OWNER_KEY))
        return found or Entry(OWNER_KEY, OWNER_CLASS, b"", "", True, 0)

    def keys(self) -> list[Claim]:
        return [
            claim for claim, entry in self._shared.entries.items() if is_of_any_queue(claim[0]) and self._lives(entry)
        ]

    def entries(self, claims: list[Claim]) -> list[Entry]:
        found = [self._shared.entries[claim] for claim in claims if claim in self._shared.entries]
        return [entry for entry in found if self._lives(entry)]

    def _lives(self, entry: Entry) -> bool:
        return is_live(entry, self._shared.clock.wall_ms())

    def commit(self, entries: list[Entry], guard: Entry) -> Commit:
        if (outcome := self._shared.refusing(entries)) is not None:
            return Commit(outcome, 0)
        if self.record() != guard:
            return Commit(REFUSED, 0)
        assert any((entry.key_class, entry.key) == (OWNER_CLASS, OWNER_KEY) for entry in entries)
        for entry in entries:
            if entry.deleted:
                self._shared.entries.pop((entry.key_class, entry.key), None)
            else:
                self._shared.entries[entry.key_class, entry.key] = entry
        return Commit(DONE, len(self._shared.entries))

    def claim(self, epoch: int, block: str, claims: Claims) -> bool:
        takes = {number: list(taken) for number, taken in claims.takes.items()}
        self._shared.claims[epoch, block] = Claims(takes, VISIBILITY)
        if self.is_owner():
            return True
        self.release(epoch, block)
        return False

    def release(self, epoch: int, block: str) -> None:
        self._shared.claims.pop((epoch, block), None)

    def blocks(self) -> list[KeptBlock]:
        kept = [KeptBlock(*key, claims) for key, claims in self._shared.claims.items()]
        return sorted(kept, key=lambda one: one.epoch, reverse=True)


class Owners:
    """Makes owners, one after the other, and asks them as clients do."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.shared = SharedMemory(self.clock)
        self.workers = ThreadWorkers("test", 2)
        self._made = 0

    async def begun(self) -> Asked:
        """One more owner."""
        self._made += 1
        owner = QueueOwner(OwnersView(self.shared, str(self._made)), self.workers, self.clock)
        await owner.begin()
        return Asked(owner, self.clock)


class Asked:
    """An owner, and the requests of clients to it."""

    def __init__(self, owner: QueueOwner, clock: FakeClock) -> None:
        self.owner = owner
        self._clock = clock

    async def put(
        self, *values: str, priority: int = 0, left_ms: int = 0, delay_ms: int = 0, structure: str = QUEUE
    ) -> int:
        items = [PutItem(structure, priority, value.encode(), "str", left_ms) for value in values]
        delays = dict.fromkeys(range(len(items)), delay_ms) if delay_ms else {}
        timestamp: int = await self.owner.answer(Put(MAP, items, delays))
        return timestamp

    async def set_options(self, structure: str = QUEUE, **changes: Any) -> QueueOptions:
        return shown_options(await self.owner.answer(SetOptions(MAP, structure, changes)))

    async def options(self, structure: str = QUEUE) -> QueueOptions:
        return shown_options(await self.owner.answer(Options(MAP, structure)))

    async def items(self, structure: str = QUEUE) -> list[tuple[int, str, int]]:
        """Priority, value and deliveries of each item that can be taken."""
        found: list[Item] = await self.owner.answer(Browse(MAP, structure, b"", 1000))
        return [(priority_of(item.key), item.value.decode(), item.deliveries) for item in found]

    async def count(self, structure: str = QUEUE) -> tuple[int, int, int]:
        """How many items can be taken, are in flight, and are delayed."""
        ready, taken, _, delayed = await self.owner.answer(Count(MAP, structure))
        return ready, taken, delayed

    async def take(self, most: int = 1) -> list[str]:
        return values(await self.owner.answer(Take(MAP, QUEUE, most, ["str"])))

    async def hold(self, block: str, most: int = 1, number: int = 1, structure: str = QUEUE) -> list[Item]:
        items: list[Item] = await self.owner.answer(Hold(MAP, structure, most, ["str"], block, number, VISIBILITY))
        return items

    async def commit(
        self, block: str, taken: list[Item], *puts: str, entries: tuple[Entry, ...] = (), structure: str = QUEUE
    ) -> int:
        claims = [(item_class(structure), item.key) for item in taken]
        items = [PutItem("queue/done", 0, value.encode(), "str") for value in puts]
        request = CommitBlock(MAP, block, claims, items, encode_entries(list(entries)), self._clock.wall_ms())
        timestamp: int = await self.owner.answer(request)
        return timestamp

    async def give_back(self, block: str, number: int | None = None, *, counts: bool = False) -> Any:
        return await self.owner.answer(GiveBack(MAP, block, number, counts))

    async def renew(self, block: str) -> Any:
        return await self.owner.answer(Renew(MAP, block))

    async def queues(self) -> Any:
        return await self.owner.answer(Queues(MAP))


def shown_options(stored: bytes) -> QueueOptions:
    """Options as a client reads them."""
    return options_of(Entry(OPTIONS_KEY, f"{QUEUE}:_options", stored, "json", False, 0) if stored else None)


def values(items: list[Item]) -> list[str]:
    """The values of items that are text."""
    return [item.value.decode() for item in items]
