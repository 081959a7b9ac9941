"""The owner of a cluster's queues does what an embedded queue does: the same calls, side by side, with the same answers.

Options, deliveries, delays, capacity and dead letters. Now and then another member takes the queues over.
"""

from __future__ import annotations

import asyncio
import queue
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kvwal.cluster.queues.requests import Purge, Take
from kvwal.errors import KvwalError
from kvwal.structures.facade import Structures
from kvwal.structures.queue.positions import queue_structure
from tests.support.disk.faults import FakeClock, open_store
from tests.support.queue.blocks import RolledBackError
from tests.support.queue.owners import MAP, Asked, Owners, values

NAMES = ["", "todo", "dead"]
STEPS = 60
SEEDS = range(40)


class Sides:
    """The embedded queues of a business, and those of a cluster. Their clocks go together."""

    def __init__(
        self, business: Structures, clock: FakeClock, owners: Owners, asked: Asked, chance: random.Random
    ) -> None:
        self.business = business
        self.clock = clock
        self.owners = owners
        self.asked = asked
        self.chance = chance
        self._blocks = 0

    async def both(self, embedded: Any, cluster: Any) -> None:
        """Both calls give the same, or fail by the same error with the same sentence."""
        said: list[Any] = []
        for call in (embedded, cluster):
            try:
                answer = call()
                said.append(await answer if asyncio.iscoroutine(answer) else answer)
            except (KvwalError, queue.Full) as error:
                said.append((type(error), error.what if isinstance(error, KvwalError) else str(error)))
        assert said[0] == said[1]

    async def step(self) -> None:
        await self.chance.choice(
            [self.put, self.put, self.take, self.commit, self.fail, self.fail, self.configure, self.wait]
        )()
        if self.chance.random() < 0.1:
            self.asked = await self.owners.begun()
        await self.compare()

    async def put(self) -> None:
        name, priority = self.chance.choice(NAMES), self.chance.choice([-1, 0, 0, 3])
        words = [
            f"{self.chance.randrange(100)}" * self.chance.randrange(1, 4) for _ in range(self.chance.randrange(1, 4))
        ]
        ttl, delay = self.chance.choice([0, 0, 3]), self.chance.choice([0, 0, 2])
        q = self.business.queue(name)
        await self.both(
            lambda: bool(q.put_many(words, priority=priority, ttl=ttl or None, delay=delay or None, timeout=0)),
            lambda: self._put(name, words, priority, ttl, delay),
        )

    async def _put(self, name: str, words: list[str], priority: int, ttl: int, delay: int) -> bool:
        given = {"left_ms": ttl * 1000, "delay_ms": delay * 1000, "structure": queue_structure(name)}
        return bool(await self.asked.put(*words, priority=priority, **given))  # type: ignore[arg-type]

    async def take(self) -> None:
        name, most = self.chance.choice(NAMES), self.chance.choice([1, 2, 50])
        q, structure = self.business.queue(name), queue_structure(name)
        if self.chance.random() < 0.1:
            await self.both(q.purge, lambda: self.asked.owner.answer(Purge(MAP, structure, 10_000)))
            return

        async def taken() -> list[str]:
            return values(await self.asked.owner.answer(Take(MAP, structure, most, ["str"])))

        await self.both(lambda: q.take_many(most), taken)

    async def commit(self) -> None:
        """A block that takes from one queue, and puts into another one."""
        name, most = self.chance.choice(NAMES), self.chance.choice([1, 3])
        word = str(self.chance.randrange(100))
        q, block = self.business.queue(name), self._block()

        def embedded() -> list[str]:
            with self.business.transaction() as t:
                taken: list[str] = t.queue(name).take_many(most)
                t.queue("done").put(word)
            assert q.in_flight == 0
            return taken

        async def cluster() -> list[str]:
            held = await self.asked.hold(block, most, structure=queue_structure(name))
            await self.asked.commit(block, held, word, structure=queue_structure(name))
            return values(held)

        await self.both(embedded, cluster)

    async def fail(self) -> None:
        """A block that raises, because of an item or not."""
        name, most = self.chance.choice(NAMES), self.chance.choice([1, 3])
        q, block, counts = self.business.queue(name), self._block(), self.chance.random() < 0.8

        def embedded() -> list[str]:
            taken: list[str] = []
            with suppress(RolledBackError, queue.Empty), q.transaction() as t:
                taken += t.take_many(most)
                raise RolledBackError if counts else queue.Empty
            return taken

        async def cluster() -> list[str]:
            held = await self.asked.hold(block, most, structure=queue_structure(name))
            assert await self.asked.give_back(block, counts=counts) is None
            return values(held)

        await self.both(embedded, cluster)

    async def configure(self) -> None:
        name = self.chance.choice(NAMES)
        changes: dict[str, Any] = self.chance.choice(
            [
                {"capacity": self.chance.choice([None, 2, 5])}, {"capacity_bytes": self.chance.choice([None, 6, 12])},
                {"ttl": self.chance.choice([None, 4.0])}, {"redelivery_delay": self.chance.choice([None, 1.0])},
                {"max_deliveries": 2, "dead_letters": "dead"}, {"max_deliveries": None, "dead_letters": None},
                {"max_deliveries": 1},
            ]
        )  # fmt: skip
        await self.both(
            lambda: self.business.queue(name).set_options(**changes),
            lambda: self.asked.set_options(queue_structure(name), **changes),
        )

    async def wait(self) -> None:
        for clock in (self.clock, self.owners.clock):
            clock.ms += 1000
            clock.seconds += 1.0

    async def compare(self) -> None:
        for name in [*NAMES, "done"]:
            q, structure = self.business.queue(name), queue_structure(name)
            shown = [(item.priority, item.value, item.deliveries) for item in q.items()]
            assert await self.asked.items(structure) == shown
            assert await self.asked.options(structure) == q.options()
            assert (await self.asked.count(structure))[1] == q.in_flight == 0

    def _block(self) -> str:
        self._blocks += 1
        return f"block-{self._blocks}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.variants(15)
def test_the_owner_answers_as_an_embedded_queue(tmp_path: Path, seed: int) -> None:
    async def test(business: Structures, clock: FakeClock) -> None:
        owners = Owners()
        owners.clock.ms = clock.ms
        sides = Sides(business, clock, owners, await owners.begun(), random.Random(seed))
        for _ in range(STEPS):
            await sides.step()

    clock = FakeClock()
    with open_store(tmp_path, clock=clock, flush="os") as store:
        asyncio.run(test(store.business("work"), clock))
