"""Producers and readers: tasks that call the store as programs do, and have each call written down."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from typing import Any

from kvwal import aio
from kvwal.errors import (
    ArchiveError,
    ArchiveGap,
    CommitUnknown,
    ContentDamaged,
    ContentFailed,
    ContentMissing,
    LogFailed,
    Overloaded,
    StorageFull,
    StoreClosed,
)
from kvwal.store.aio.waiting import ended
from kvwal.store.open_business import OpenBusiness
from kvwal.structures.map.map import Map
from tests.simulation.history import ABSENT, Op, Stamped, Violation
from tests.simulation.ledger import Ledger, to_version
from tests.simulation.machine.process import Process
from tests.simulation.profile import Profile
from tests.simulation.world import World

REFUSALS = (LogFailed, StorageFull, Overloaded, StoreClosed, ContentFailed)
"""What says that nothing was written; `CommitUnknown`, which is a `LogFailed`, does not."""
INJECTED = (errno.EIO, errno.ENOSPC)
_TTLS = (1, 50, 1500, 20_000)


class Client:
    """One task on one business. It knows what was read or written there last, so that conditions often hold."""

    refusals: tuple[type[Exception], ...] = REFUSALS

    def __init__(self, name: str, process: Process, ledger: Ledger, profile: Profile) -> None:
        self.ledger = ledger
        self.process = process
        self.world = process.world
        self.chance = self.world.chance(name)
        self.profile = profile
        self.map: aio.Map
        self.business: OpenBusiness

    async def run(self, store: aio.Store, business: OpenBusiness) -> None:
        """Make all its calls, with pauses between them."""
        self.map, self.business = store.map(self.ledger.name), business
        for _ in range(self.chance.randint(1, self.profile.calls)):
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.001, 0.02, 0.3, 2.0)))
            kind = self.chance.choices(self.profile.kinds, self.profile.weights)[0]
            await getattr(self, kind)()

    async def put(self) -> None:
        ttl = self._ttl()
        key, sync = self._key(), self.chance.random() < 0.2
        op = self.ledger.begin("put", key=key, ttl_ms=ttl, sync=sync)
        value = op.writes[key] = self._value(op)
        if self._as_thread([value]):
            op.sync = False
            await self._write(
                op, lambda: self._submitted(lambda: Map(self.business).submit(key, value, ttl / 1000 if ttl else None))
            )
        else:
            await self._write(op, lambda: self.map.put(key, value, ttl / 1000 if ttl else None, sync=sync))

    async def delete(self) -> None:
        key = self._key()
        op = self.ledger.begin("delete", key=key, writes={key: ABSENT})
        await self._write(op, lambda: self.map.delete(key))

    async def put_many(self) -> None:
        op = self.ledger.begin("put_many")
        for part, key in enumerate(self._keys()):
            op.writes[key] = self._value(op, f".{part}")
        await self._write(op, lambda: self.map.put_many(dict(op.writes)))

    async def transaction(self) -> None:
        """Puts and deletes together; at least one put, by which it can be told from others."""
        op = self.ledger.begin("transaction")
        for part, key in enumerate(self._keys()):
            value = self._value(op, f".{part}")
            op.writes[key] = value if part == 0 or self.chance.random() < 0.5 else ABSENT
        puts = {key: value for key, value in op.writes.items() if value is not ABSENT}
        deletes = [key for key, value in op.writes.items() if value is ABSENT]
        if self._as_thread(puts.values()):
            await self._write(op, lambda: self._submitted(lambda: Map(self.business).submit_many(puts, deletes)))
        else:
            await self._write(op, lambda: self._commit(puts, deletes))

    async def _commit(self, puts: dict[str, Any], deletes: list[str]) -> int:
        async with self.map.transaction() as t:
            for key, value in puts.items():
                t[key] = value
            for key in deletes:
                del t[key]
        return t.timestamp

    async def put_if_absent(self) -> None:
        key, ttl = self._key(), self._ttl()
        op = self.ledger.begin("put_if_absent", key=key, ttl_ms=ttl)
        value = op.writes[key] = self._value(op)
        await self._write(op, lambda: self.map.put_if_absent(key, value, ttl / 1000 if ttl else None))

    async def replace(self) -> None:
        key, expected = self._expected()
        op = self.ledger.begin("replace", key=key, expected=expected)
        value = op.writes[key] = self._value(op)
        await self._write(op, lambda: self.map.replace(key, expected, value))

    async def remove(self) -> None:
        key, expected = self._expected()
        op = self.ledger.begin("remove", key=key, expected=expected, writes={key: ABSENT})
        await self._write(op, lambda: self.map.remove(key, expected))

    async def pop(self) -> None:
        key = self._key()
        op = self.ledger.begin("pop", key=key, writes={key: ABSENT})
        await self._write(op, lambda: self.map.pop(key, ABSENT))

    async def get(self) -> None:
        key = self._key()
        op = self.ledger.begin("get", key=key)
        await self._read(op, lambda: self.map.get(key, ABSENT))
        if op.outcome == "done" and op.answer is not ABSENT:
            self.ledger.hints[key] = op.answer

    async def count(self) -> None:
        await self._read(self.ledger.begin("count"), self.map.count)

    async def scan(self) -> None:
        await self._read(self.ledger.begin("scan"), self._scan)

    async def _scan(self) -> dict[str, Any]:
        return {key: value async for key, value in self.map.scan()}

    async def history(self) -> None:
        key = self._key()
        op = self.ledger.begin("history", key=key)
        await self._read(op, lambda: self._history(key))

    async def _history(self, key: str) -> list[Stamped] | str:
        try:
            found = await self.map.history(key)
        except ContentMissing as error:
            self._check_gone(error, 0)
            return "gap"
        return [Stamped(entry.timestamp, to_version(entry)) for entry in found]

    async def at(self) -> None:
        """As of a transaction that this log had, or of now."""
        known = [txn.timestamp for txn in (*self.ledger.log, *self.ledger.since)]
        moment = self.chance.choice([*known[-40:], self.world.clock.wall_ms() << 16])
        op = self.ledger.begin("at", moment=moment)
        await self._read(op, lambda: self._at(moment))

    async def _at(self, moment: int) -> dict[str, Any] | str:
        try:
            then = await self.map.at(moment)
            return await asyncio.get_running_loop().run_in_executor(None, lambda: dict(then))
        except ArchiveGap:
            return "gap"
        except ContentMissing as error:
            self._check_gone(error, moment)
            return "gap"

    def _check_gone(self, error: ContentMissing, moment: int) -> None:
        """The bytes of large values may be gone of moments before the history that is kept, and only of these."""
        if moment >= self.world.horizon(self.ledger):
            raise Violation(f"history reaches back to {moment}, and bytes of it are gone: {error}") from error
        self.world.met("values: bytes of the past were gone")

    async def _write(self, op: Op, call: Callable[[], Awaitable[Any]]) -> None:
        """Have it written; now and then the caller is cancelled, and then nobody knows."""
        try:
            if self.profile.cancels and self.chance.random() < 0.1:
                async with asyncio.timeout(self.chance.choice((0.0, 0.0001, 0.002))):
                    answer = await call()
            else:
                answer = await call()
        except CommitUnknown:
            self.world.met("commit unknown")
            self.ledger.end(op, "unknown", "CommitUnknown")
        except self.refusals as error:
            self.world.met(f"refused: {type(error).__name__}")
            self.ledger.end(op, "refused", type(error).__name__)
        except ContentDamaged as error:
            check_injected(error, self.world)
            self.world.met("values: a condition could not read one")
            self.ledger.end(op, "refused", type(error).__name__)
        except TimeoutError:
            self.world.met("a writing task was cancelled")
            self.ledger.end(op, "unknown", "cancelled")
        else:
            self.ledger.end(op, "done", answer)
            self._learn(op)

    async def _read(self, op: Op, call: Callable[[], Awaitable[Any]]) -> None:
        before = self.world.bucket.deleted, self.world.rewrites
        try:
            answer = await call()
        except ArchiveError as error:
            if isinstance(error, ArchiveGap) or not self.world.bucket.was_troubled:
                raise
            self.ledger.end(op, "refused", type(error).__name__)
        except ContentDamaged as error:
            check_injected(error, self.world)
            self.world.met("values: a disk did not give bytes")
            self.ledger.end(op, "refused", type(error).__name__)
        except OSError as error:
            if error.errno not in INJECTED:
                raise
            self.ledger.end(op, "refused", type(error).__name__)
        else:
            self.ledger.end(op, "done", answer)
            self._note_read(op, before)

    def _note_read(self, op: Op, before: tuple[int, int]) -> None:
        if op.kind == "at" and op.answer != "gap" and any(map(self.profile.is_large, op.answer.values())):
            self.world.met("values: bytes of the past were read")
        if op.kind in ("history", "at"):
            self.world.met("the past was refused as a gap" if op.answer == "gap" else "the past was read")
            if before != (self.world.bucket.deleted, self.world.rewrites):
                self.world.met("a rewrite or gc under a read of the past")

    def _learn(self, op: Op) -> None:
        for key, value in op.writes.items():
            if value is not ABSENT:
                self.ledger.hints[key] = value
        if op.kind in ("put_if_absent", "replace", "remove"):
            self.world.met("a condition held" if op.answer else "a condition failed")

    def _as_thread(self, values: Iterable[str]) -> bool:
        """Whether to submit as a thread does, through the blocking side of the ring. Only if it would not block."""
        ring, settings = self.business.log.ring, self.profile.settings
        room = ring.slots + 1 < settings.ring_slots and ring.bytes < settings.ring_bytes // 2
        if any(map(self.profile.is_large, values)):
            room = self.profile.is_never_full  # as their bytes are written, others fill the ring
        return room and self.chance.random() < 0.3

    async def _submitted(self, submit: Callable[[], Future[int]]) -> int:
        """Have a call submitted as a thread does. Its large values are written meanwhile, so it is made on one."""
        if self.profile.inline_bytes is None:
            return await asyncio.wrap_future(submit())
        return await asyncio.wrap_future(await ended(submit))

    def _key(self) -> str:
        return f"k{self.chance.randrange(self.profile.keys)}"

    def _keys(self) -> list[str]:
        most = min(self.profile.most_at_once, self.profile.keys)
        count = self.chance.randint(min(2, most), most)
        return [f"k{number}" for number in self.chance.sample(range(self.profile.keys), count)]

    def _expected(self) -> tuple[str, str]:
        known = sorted(self.ledger.hints)
        if not known or self.chance.random() < 0.1:
            return self._key(), "never there"
        key = self.chance.choice(known)
        return key, self.ledger.hints[key]

    def _value(self, op: Op, part: str = "") -> str:
        """A value that nobody else ever writes."""
        value = f"v{op.number}-" + "x" * self.chance.choice(self.profile.sizes) + part
        if self.profile.is_large(value):
            self.world.met(f"values: a large one in a {op.kind}")
            self.ledger.large.wrote(value)
        return value

    def _ttl(self) -> int:
        return self.chance.choice(_TTLS) if self.profile.expiry and self.chance.random() < self.profile.ttl_share else 0


def check_injected(error: ContentDamaged, world: World) -> None:
    """Raise the error again, unless a call of the disk failed, or gave other bytes once: then the bytes are as they were."""
    cause = error.__cause__
    is_failed = isinstance(cause, OSError) and cause.errno in INJECTED
    if not is_failed and not any(file in error.what for file in world.misread):
        raise error
