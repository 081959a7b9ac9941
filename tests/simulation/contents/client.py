"""Writers and readers of contents: tasks that put, copy, delete and read bytes, now and as they were."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from kvwal import aio
from kvwal.errors import ArchiveGap, BeforeHistory, ContentDamaged, ContentMissing
from kvwal.store.open_business import OpenBusiness
from tests.simulation.actors.clients import REFUSALS, Client, check_injected
from tests.simulation.history import ABSENT, Op, Stamped, Violation
from tests.simulation.ledger import to_version

KINDS = {"put": 8, "delete": 2, "transaction": 3, "copy": 2, "get": 6, "count": 1, "scan": 1, "history": 1, "at": 2}


class NothingToCopy(Exception):
    """What ends a block that found nothing to copy, or a content of which it is not known who put it."""


class ContentClient(Client):
    """One task on the contents of one business. A value is the checksum of bytes, which nobody else ever writes."""

    refusals = (*REFUSALS, NothingToCopy)

    async def run(self, store: aio.Store, business: OpenBusiness) -> None:
        """Make all its calls, with pauses between them."""
        self._attach(store, business)
        for _ in range(self.chance.randint(1, self.profile.calls)):
            await asyncio.sleep(self.chance.choice((0.0, 0.0, 0.001, 0.02, 0.3, 2.0)))
            kind = self.chance.choices(list(KINDS), list(KINDS.values()))[0]
            await getattr(self, kind)()

    async def look(self, store: aio.Store, business: OpenBusiness) -> None:
        """Everything that is there, on a quiet day, with its bytes."""
        self._attach(store, business)
        await self.scan()
        await self.count()
        for number in range(self.profile.keys):
            await self._get(f"k{number}")

    def _attach(self, store: aio.Store, business: OpenBusiness) -> None:
        self.business = business
        self.target = store.business(self.ledger.name)
        self.contents = store.content(self.ledger.name)

    async def put(self) -> None:
        """Put bytes at once, or in parts."""
        key = self._key()
        op = self.ledger.begin("put", key=key)
        data = self._data(op)
        op.writes[key] = checksum(data)
        await self._write(op, lambda: self._put(key, data) if len(data) % 2 else self.contents.put(key, data))

    async def _put(self, key: str, data: bytes) -> int:
        async with self.contents.create(key, {"of": "the simulation"}) as out:
            for at in range(0, len(data), 1000):
                await out.write(data[at : at + 1000])
        return out.timestamp

    async def delete(self) -> None:
        """Delete a name."""
        key = self._key()
        op = self.ledger.begin("delete", key=key, writes={key: ABSENT})
        await self._write(op, lambda: self.contents.delete(key))

    async def transaction(self) -> None:
        """Puts and deletes together; at least one put, by which it can be told from others."""
        op = self.ledger.begin("transaction")
        values: dict[str, bytes | None] = {}
        for part, key in enumerate(self._keys()):
            data = self._data(op, f".{part}") if part == 0 or self.chance.random() < 0.5 else None
            values[key] = data
            op.writes[key] = ABSENT if data is None else checksum(data)
        await self._write(op, lambda: self._block(values))

    async def _block(self, values: dict[str, bytes | None]) -> int:
        async with self.target.transaction() as t:
            for key, data in values.items():
                if data is None:
                    t.content().delete(key)
                else:
                    await t.content().put(key, data)
        return t.timestamp

    async def copy(self) -> None:
        """Give the bytes of a content a second name, beside a put, by which it can be told from others."""
        names = self._keys()
        if len(names) < 2:
            return
        op = self.ledger.begin("copy", key=names[0])
        data = self._data(op)
        op.writes[names[0]] = checksum(data)
        await self._write(op, lambda: self._copied(op, names[1], self._key(), data))

    async def _copied(self, op: Op, source: str, to: str, data: bytes) -> int:
        async with self.target.transaction() as t:
            await t.content().put(op.key, data)
            if to == op.key or not await t.content().contains(source):
                raise NothingToCopy
            t.content().copy(source, to)
            try:
                told = checksum(await t.content().get(to))
            except ContentDamaged as error:
                check_injected(error, self.world)
                raise NothingToCopy from error
            if told not in self.ledger.hints.values():  # of bytes of unknown outcome the checker asks who put them
                raise NothingToCopy
            op.writes[to] = told
        return t.timestamp

    async def get(self) -> None:
        """The bytes of a content."""
        await self._get(self._key())

    async def _get(self, key: str) -> None:
        op = self.ledger.begin("get", key=key)
        await self._read(op, lambda: self._checksum(key))

    async def _checksum(self, key: str) -> Any:
        try:
            return checksum(await self.contents.get(key))
        except KeyError:
            return ABSENT

    async def count(self) -> None:
        """The number of contents."""
        await self._read(self.ledger.begin("count"), self.contents.count)

    async def _scan(self) -> dict[str, Any]:
        return {content.name: content.sha256 async for content in self.contents.list()}

    async def _history(self, key: str) -> list[Stamped]:
        return [Stamped(entry.timestamp, to_version(entry)) for entry in await self.contents.history(key)]

    async def _at(self, moment: int) -> dict[str, Any] | str:
        """The names as of a moment; their bytes are read, too."""
        try:
            then = await self.contents.at(moment)
        except (ArchiveGap, BeforeHistory):
            return "gap"
        found = {content.name: content.sha256 async for content in then.list()}
        for name, told in found.items():
            try:
                data = await then.get(name)
            except ContentMissing as error:
                if moment >= self.world.horizon(self.ledger):
                    raise Violation(f"history reaches back to {moment}, and its bytes are gone: {error}") from error
                self.world.met("content: bytes of the past were gone")
                return "gap"
            if checksum(data) != told:
                raise Violation(f"{name} as of {moment} has other bytes than its claim says")
            self.world.met("content: bytes of the past were read")
        return found

    def _learn(self, op: Op) -> None:
        """Of an acknowledged put it is known who made it."""
        self.world.met(f"content: {op.kind}")
        if op.kind != "copy":
            super()._learn(op)

    def _value(self, op: Op, part: str = "") -> str:
        """See `Client._value`. A content stands beside the log, however small it is."""
        return f"v{op.number}-" + "x" * self.chance.choice(self.profile.sizes) + part

    def _data(self, op: Op, part: str = "") -> bytes:
        return self._value(op, part).encode()


def checksum(data: bytes) -> str:
    """What stands for bytes in the record."""
    return hashlib.sha256(data).hexdigest()
