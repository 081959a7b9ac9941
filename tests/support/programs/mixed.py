"""Workers that do everything a map can do at the same time, and know what must come of it.

A worker is a coroutine on the methods of `kvwal.aio.Map`; on a thread it runs over the synchronous map, behind `Blocking`.
Each has keys of its own, of which it knows every value, two accounts between which it moves money, and shares counters and
locks with all others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from kvwal.structures.map.map import Map

COUNTERS = 3
LOCKS = 3
OWN_KEYS = 4
MONEY = 100


class Blocking:
    """The synchronous map with the methods of the asynchronous one. A coroutine over it never suspends: see `drive`."""

    def __init__(self, jobs: Map) -> None:
        self._jobs = jobs

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._jobs, name)

        async def call(*given: Any, **named: Any) -> Any:
            return method(*given, **named)

        return call

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        with self._jobs.transaction() as t:
            yield t

    async def scan(self, prefix: str | None = None) -> AsyncIterator[tuple[Any, Any]]:
        for item in self._jobs.scan(prefix):
            yield item


def drive(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never suspends, without an event loop."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it suspended")


class Tally:
    """What all workers together did, and whether any saw what must not be. Shared by threads: each step is one of a dict's."""

    def __init__(self) -> None:
        self.raised: Counter[str] = Counter()
        self.holders: Counter[str] = Counter()
        self.scans = 0
        self.looks = 0


class Worker:
    """One worker. `own` is what its keys hold (absent ones are not in it), after `run` has ended too."""

    def __init__(self, jobs: Any, name: str, seed: int, tally: Tally) -> None:
        self.name = name
        self.own: dict[str, int] = {}
        self.increments: Counter[str] = Counter()
        self._jobs = jobs
        self._tally = tally
        self._chance = random.Random(f"{seed}-{name}")
        self._stamps: dict[str, int] = {}
        self._count = 0
        self._money = [MONEY, MONEY]

    async def run(self, steps: int, *, past: float = 0.0) -> None:
        """So many steps; `past` is the part of them that reads the past, from files. Who reads it at all does so at the end."""
        await self._jobs.put_many(self._accounts())
        steps_there = [self._put, self._delete, self._put_many, self._transfer, self._increment, self._hold, self._scan]
        for _ in range(steps):
            if self._chance.random() < past:
                await self._look_back()
            else:
                await self._chance.choice(steps_there)()
        if past:
            await self._look_back()

    def _key(self) -> str:
        return f"own-{self.name}-{self._chance.randrange(OWN_KEYS)}"

    def _next(self) -> int:
        self._count += 1
        return self._count

    async def _put(self) -> None:
        key, value = self._key(), self._next()
        self._stamps[key] = await self._jobs.put(key, value)
        self.own[key] = value
        await self._check(key)

    async def _delete(self) -> None:
        key = self._key()
        self._stamps[key] = await self._jobs.delete(key)
        self.own.pop(key, None)
        await self._check(key)

    async def _put_many(self) -> None:
        value = self._next()
        items = {f"own-{self.name}-{number}": value for number in range(OWN_KEYS)}
        timestamp = await self._jobs.put_many(items)
        self.own |= items
        self._stamps |= dict.fromkeys(items, timestamp)
        await self._check(self._key())

    async def _check(self, key: str) -> None:
        found = await self._jobs.get(key)
        assert found == self.own.get(key), f"{key}: {found}, and {self.own.get(key)} was acknowledged last"

    def _accounts(self) -> dict[str, int]:
        return {f"account-{self.name}-{number}": money for number, money in enumerate(self._money)}

    async def _transfer(self) -> None:
        amount = self._chance.randrange(MONEY)
        self._money = [self._money[0] - amount, self._money[1] + amount]
        async with self._jobs.transaction() as t:
            for key, money in self._accounts().items():
                t[key] = money

    async def _scan(self) -> None:
        """Every scan sees whole transactions: each pair of accounts has what it began with."""
        sums: Counter[str] = Counter()
        async for key, money in self._jobs.scan("account-"):
            sums[key.rsplit("-", 1)[0]] += money
        assert set(sums.values()) <= {2 * MONEY}, sums
        self._tally.scans += 1

    async def _increment(self) -> None:
        key = f"counter-{self._chance.randrange(COUNTERS)}"
        await self._jobs.put_if_absent(key, 0)
        while not await self._jobs.replace(key, seen := await self._jobs.get(key), seen + 1):
            pass
        self.increments[key] += 1

    async def _hold(self) -> None:
        """The process that puts the key holds the lock: no other does until it is removed, which only the holder can."""
        key = f"lock-{self._chance.randrange(LOCKS)}"
        if not await self._jobs.put_if_absent(key, self.name):
            return
        self._tally.holders[key] += 1
        assert self._tally.holders[key] == 1, f"{key} was held twice"
        assert not await self._jobs.remove(key, "somebody else")
        self._tally.holders[key] -= 1
        assert await self._jobs.remove(key, self.name)

    async def _look_back(self) -> None:
        """The history of a key ends with what was acknowledged last, and the map as it was then has that."""
        await self._put()
        key = max(self._stamps, key=lambda key: self._stamps[key])
        newest = await self._jobs.history(key)
        stamps = [entry.timestamp for entry in newest]
        assert stamps == sorted(set(stamps), reverse=True)
        assert stamps[0] == self._stamps[key]
        then = await self._jobs.at(self._stamps[key])
        assert {name: then[name] for name in self.own} == self.own
        self._tally.looks += 1


def check(found: dict[Any, Any], workers: list[Worker]) -> None:
    """What the map must hold when all workers have ended, now and after any number of reopens."""
    own = {key: value for worker in workers for key, value in worker.own.items()}
    assert {key: value for key, value in found.items() if key.startswith("own-")} == own
    increments: Counter[str] = Counter()
    for worker in workers:
        increments += worker.increments
    assert {key: value for key, value in found.items() if key.startswith("counter-") and value} == dict(increments)
    assert not [key for key in found if key.startswith("lock-")]
    assert sum(value for key, value in found.items() if key.startswith("account-")) == 2 * MONEY * len(workers)
