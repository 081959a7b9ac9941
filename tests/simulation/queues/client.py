"""Producers and takers of queues: tasks that put, take, and work in blocks over queues and a map, some of which raise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kvwal import aio
from kvwal.errors import CommitUnknown, ContentDamaged
from kvwal.store.open_business import OpenBusiness
from tests.simulation.actors.clients import REFUSALS, check_injected
from tests.simulation.history import Op
from tests.simulation.machine.process import Process
from tests.simulation.profile import Profile
from tests.simulation.queues.checker import CANCELLED, UNREAD
from tests.simulation.queues.ledger import QueueLedger

QUEUES = ("todo", "done")
KINDS = {"put": 6, "take": 4, "work": 5, "fail": 2, "browse": 3, "count": 1}
_PRIORITIES = (0, 0, 0, -1, 5)
_WAITS = (0, 0, 0.001, 0.3)


class RaisedError(Exception):
    """What ends a block that raises."""


class QueueClient:
    """One task on the queues of one business."""

    def __init__(self, name: str, process: Process, ledger: QueueLedger, profile: Profile) -> None:
        self.ledger = ledger
        self.world = process.world
        self.chance = self.world.chance(name)
        self.profile = profile

    async def run(self, store: aio.Store, business: OpenBusiness) -> None:
        """Make all its calls, with pauses between them."""
        target = store.business(self.ledger.name)
        for _ in range(self.chance.randint(1, self.profile.calls)):
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.001, 0.02, 0.3, 2.0)))
            kind = self.chance.choices(list(KINDS), list(KINDS.values()))[0]
            await getattr(self, kind)(target)

    async def look(self, store: aio.Store) -> None:
        """Everything that is there, on a quiet day."""
        target = store.business(self.ledger.name)
        for name in QUEUES:
            await self._browse(target, name)

    async def put(self, target: aio.Business) -> None:
        """Put some items in one transaction."""
        name = self.chance.choice(QUEUES)
        op = self._begin("put", name, priority=self.chance.choice(_PRIORITIES), sync=self.chance.random() < 0.2)
        op.writes = {self._value(op, part): name for part in range(self.chance.randint(1, 4))}
        queue = target.queue(name)
        await self._call(op, lambda: queue.put_many(list(op.writes), priority=op.priority, sync=op.sync))

    async def take(self, target: aio.Business) -> None:
        """Take some items, or wait for the first one."""
        queue = target.queue(name := self.chance.choice(QUEUES))
        op = self._begin("take", name, most=self.chance.randint(1, 3))
        await self._call(op, lambda: queue.take_many(op.most, self.chance.choice(_WAITS)))

    async def work(self, target: aio.Business) -> None:
        """Take from one queue, put into another, and say so in the map, in one transaction."""
        op = self._begin("work", QUEUES[0], most=self.chance.randint(1, 3))
        await self._call(op, lambda: self._block(target, op))

    async def fail(self, target: aio.Business) -> None:
        """As `work`, but the block raises at its end: what it took is back at its place."""
        op = self._begin("fail", QUEUES[0], most=self.chance.randint(1, 3))
        await self._call(op, lambda: self._block(target, op, raises=True))

    async def _block(self, target: aio.Business, op: Op, *, raises: bool = False) -> list[Any]:
        async with target.transaction() as t:
            held = await t.queue(op.key).take_many(op.most)
            op.held, op.moment = held, self.world.tick()
            await asyncio.sleep(self.chance.choice((0.0, 0.001, 0.2)))
            if held:
                op.writes = {self._value(op, part): QUEUES[1] for part in range(len(held))}
                t.queue(QUEUES[1]).put_many(op.writes)
                op.writes[state := self._value(op, "state")] = ""
                t.map("state")["last"] = state
            if raises:
                raise RaisedError
        return held

    async def browse(self, target: aio.Business) -> None:
        """The items of a queue."""
        await self._browse(target, self.chance.choice(QUEUES))

    async def count(self, target: aio.Business) -> None:
        """The number of items of a queue."""
        queue = target.queue(name := self.chance.choice(QUEUES))
        await self._call(self._begin("count", name), queue.count)

    async def _browse(self, target: aio.Business, name: str) -> None:
        queue = target.queue(name)

        async def items() -> list[Any]:
            return [item async for item in queue.browse()]

        await self._call(self._begin("browse", name), items)

    def _begin(self, kind: str, name: str, **given: Any) -> Op:
        return self.ledger.begin(kind, key=name, **given)

    async def _call(self, op: Op, call: Callable[[], Awaitable[Any]]) -> None:
        """Have it done; now and then the caller is cancelled, and then nobody knows."""
        try:
            if self.profile.cancels and op.kind not in ("browse", "count") and self.chance.random() < 0.15:
                async with asyncio.timeout(self.chance.choice((0.0, 0.0001, 0.002))):
                    answer = await call()
            else:
                answer = await call()
        except CommitUnknown:
            self.world.met("queue: commit unknown")
            self.ledger.end(op, "unknown", "CommitUnknown")
        except REFUSALS as error:
            self.world.met(f"queue: refused: {type(error).__name__}")
            taken = hasattr(
                error, "__notes__"
            )  # a cancelled take that could not put its items back says where they were
            self.ledger.end(op, "unknown" if taken else "refused", type(error).__name__)
        except ContentDamaged as error:
            check_injected(error, self.world)
            self.world.met(f"queue: a {op.kind} could not read a large item")
            self.ledger.end(op, "unknown" if op.kind == "take" else "refused", UNREAD)
        except TimeoutError:
            self.world.met("queue: a task was cancelled")
            self.ledger.end(op, "unknown", CANCELLED)
        except RaisedError:
            self.world.met("queue: a block raised" if op.held else "queue: a block without items raised")
            self.ledger.end(op, "refused", "raised")
        else:
            self.world.met(f"queue: {op.kind}" if answer else f"queue: {op.kind} of nothing")
            self.ledger.end(op, "done", answer)

    def _value(self, op: Op, part: int | str) -> str:
        """A value that nobody else ever writes."""
        value = f"v{op.number}.{part}-" + "x" * self.chance.choice(self.profile.sizes)
        if self.profile.is_large(value):
            self.world.met(f"queue: a large item in a {op.kind}")
            self.ledger.large.wrote(value)
        return value
