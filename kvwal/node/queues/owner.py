"""Owner of the queues of one business: the member that decides which taker gets which item. docs/decisions/0101 says how.

It takes over by a change of the owner record, which every change of a queue depends on: from then on no earlier owner can change
a queue. So what it reads afterwards is what is queued.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kvwal.cluster.queues.memory import DONE, Claims, OwnerRecord, QueueMemory
from kvwal.cluster.queues.requests import (
    BROWSE_BYTES,
    BROWSE_ITEMS,
    VISIBILITY_SECONDS,
    Await,
    Browse,
    Commit,
    Count,
    GiveBack,
    Hold,
    Item,
    Purge,
    Put,
    PutBack,
    QueueRequest,
    Renew,
    Take,
    claims_lost,
    to_items,
    unknown_codec,
)
from kvwal.cluster.queues.table import Claim, QueueTable
from kvwal.entry import Entry, make_decoder, make_entry
from kvwal.errors import CodecError, ConfigError, KvwalError, Overloaded
from kvwal.key_class import OWN_MAP, kind_of, structure_of
from kvwal.node.queues.writes import QueueWrites
from kvwal.ports.clock import Clock
from kvwal.ports.tasks import Workers
from kvwal.structures.queue.positions import item_class

T = TypeVar("T")

_WAIT_SECONDS = 0.5
"""The longest that a request waits for an item: it keeps a thread of the member. The client asks again."""
_WAITING = 16
"""Requests of a business that may wait for an item at once. Further ones are answered at once."""
_AGAIN_SECONDS = 0.05
_BEGIN_SECONDS = 20.0
_SCAN_SECONDS, _SCAN_SHARE = 10.0, 50
"""While takers find nothing, memory is searched for items that a member brought back with its disk: not more often than that."""
_decode = make_decoder(())


class QueueOwner:
    """The owner of the queues of one business, until `is_over`. Used on the node's event loop."""

    def __init__(self, memory: QueueMemory, workers: Workers, clock: Clock) -> None:
        self._memory = memory
        self._workers = workers
        self._clock = clock
        self._table = QueueTable(clock.elapsed)
        self._writes = QueueWrites(memory, self._table, workers, clock, OwnerRecord(), self._wake)
        self._opens = 0.0
        self._scanned = (0.0, 0.0)
        self._news = asyncio.Event()
        self._waiting: Counter[str] = Counter()

    @property
    def is_over(self) -> bool:
        """Whether another member decides, or may do so."""
        return self._writes.is_over

    async def begin(self) -> None:
        """Become the owner. Waits for changes of the owner before this one that are under way. Raises `Overloaded`,
        `ClusterUnreachable`, `NotRecovered`, `CommitUnknown`.
        """
        kept = await self._run(self._memory.begin)
        before = await self._take_over(kept)
        await self._scan()
        await self._adopt_blocks()
        if before.held and not kept:  # takers may have items of which memory knows nothing any more
            self._opens = self._clock.elapsed() + VISIBILITY_SECONDS

    async def _take_over(self, kept: bool) -> OwnerRecord:
        until = self._clock.elapsed() + _BEGIN_SECONDS
        while True:
            guard = await self._run(self._memory.record)
            before = OwnerRecord.of(guard)
            held = before.held and not (kept and not await self._run(self._memory.blocks))
            record = OwnerRecord(before.epoch + 1, before.position, held)
            made = await self._run(partial(self._memory.commit, [record.entry()], guard))
            if made.outcome == DONE:
                self._writes.record = record
                return before
            if self._clock.elapsed() >= until:
                raise Overloaded(
                    f"{self._memory.name}: the last change of its queues is not finished yet; nothing was written.",
                    hint="Ask again.",
                )
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _adopt_blocks(self) -> None:
        """Keep the blocks of earlier owners as this one's own: what an earlier owner releases late is not these."""
        found = await self._run(self._memory.blocks)
        for kept in found:
            if kept.block not in self._table.blocks:
                self._table.restore(kept.block, kept.claims.takes, kept.claims.visibility)
        for block in list(self._table.blocks):
            await self._keep(block)
        for kept in found:
            await self._run(partial(self._memory.release, kept.epoch, kept.block))

    async def _keep(self, block: str) -> None:
        """Keep the takes of a block in memory. Raises `ClusterUnreachable` if another member decides."""
        known = self._table.blocks[block]
        claims = Claims(dict(known.takes), known.visibility)
        if not await self._run(partial(self._memory.claim, self._writes.record.epoch, block, claims)):
            self._writes.end()
            raise self._writes.moved()

    async def _release(self, block: str) -> None:
        await self._run(partial(self._memory.release, self._writes.record.epoch, block))

    async def answer(self, request: QueueRequest) -> Any:
        """The answer to a request of a client. `ClusterUnreachable` if another member decides: the client asks again."""
        await self.end_expired()
        if isinstance(request, Put):
            return await self._writes.make(request.items)
        if isinstance(request, Take):
            return self._shown(await self._take(request.structure, request.most, request.known))
        if isinstance(request, Purge):
            return len(await self._take(request.structure, request.most, None))
        if isinstance(request, Hold):
            return await self._hold(request)
        if isinstance(request, Commit):
            return await self._commit(request)
        if isinstance(request, PutBack):
            return await self._writes.put_back(self._entries_of(request))
        await self._check_owner()
        if isinstance(request, Await):
            return await self._wait(request)
        if isinstance(request, Renew):
            return self._table.renew(request.block)
        if isinstance(request, GiveBack):
            return await self._give_back(request)
        if isinstance(request, Browse):
            return await self._browse(request)
        if isinstance(request, Count):
            return *self._table.count(request.structure), self._waiting[request.structure]
        return self._table.structures()

    async def end_expired(self) -> None:
        """Give back the items of blocks that nothing was heard of."""
        for block in self._table.expired():
            self._table.end(block)
            self._wake()
            await self._release(block)

    def end(self) -> None:
        """The node leaves: answer nothing any more."""
        self._writes.end()

    async def _take(self, structure: str, most: int, known: list[str] | None) -> list[Entry]:
        claims, entries = await self._handed_out(structure, most, known)
        try:
            if claims:
                await self._writes.make(taken=claims)
        except BaseException:
            self._undo(claims)
            raise
        return entries

    async def _hold(self, request: Hold) -> list[Item]:
        block = self._table.blocks.get(request.block)
        if block is not None and request.number in block.takes:
            entries = await self._run(partial(self._memory.entries, block.takes[request.number]))
        else:
            claims, entries = await self._handed_out(request.structure, request.most, request.known)
            if not claims:
                return []
            self._table.keep(request.block, request.number, claims, request.visibility)
        try:
            await self._writes.note_held()
            await self._keep(request.block)
        except BaseException:
            self._table.end_take(request.block, request.number)
            self._wake()
            raise
        return self._shown(entries)

    def _entries_of(self, request: PutBack) -> list[Entry]:
        """Items as entries, at their old places."""
        key_class, now = item_class(request.structure), self._clock.wall_ms()
        return [
            make_entry(
                item.key, key_class, item.value, item.value_class, False, 0, now + item.left_ms if item.left_ms else 0
            )
            for item in request.items
        ]

    def _shown(self, entries: list[Entry]) -> list[Item]:
        return to_items(entries, self._clock.wall_ms())

    async def _handed_out(self, structure: str, most: int, known: list[str] | None) -> tuple[list[Claim], list[Entry]]:
        """Up to `most` items, for this request alone. A request never waits for an item that it takes: its client may go."""
        while claims := self._first(structure, most):
            try:
                entries = await self._present(claims)
                name = unknown_codec(known, entries)
                if name is not None:
                    raise CodecError(
                        f"{self._memory.name}: the codec {name!r} of an item is not registered at this client; none was taken.",
                        hint="Register it, or take with a program that has it.",
                    )
            except BaseException:
                self._undo(claims)
                raise
            if entries:
                return [(entry.key_class, entry.key) for entry in entries], entries
        await self._check_owner()
        return [], []

    def _first(self, structure: str, most: int) -> list[Claim]:
        if self.is_over:
            raise self._writes.moved()
        return [] if self._clock.elapsed() < self._opens else self._table.take(structure, most)

    async def _present(self, claims: list[Claim]) -> list[Entry]:
        """The entries of items that were handed out. Those that have expired, or were deleted, are forgotten."""
        entries = await self._run(partial(self._memory.entries, claims))
        there = {(entry.key_class, entry.key) for entry in entries}
        self._table.forget(claim for claim in claims if claim not in there)
        return entries

    async def _wait(self, request: Await) -> bool:
        """Whether an item can be taken, now or within some time."""
        now, (scanned, took) = self._clock.elapsed(), self._scanned
        if now - scanned > max(_SCAN_SECONDS, _SCAN_SHARE * took):
            await self._scan()
        if self._waiting.total() >= _WAITING or self._has_some(request.structure):
            return self._has_some(request.structure)
        self._waiting[request.structure] += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(request.seconds, _WAIT_SECONDS)):
                    await self._news.wait()
        finally:
            self._waiting[request.structure] -= 1
        return self._has_some(request.structure)

    def _has_some(self, structure: str) -> bool:
        return self._clock.elapsed() >= self._opens and self._table.count(structure)[0] > 0

    async def _scan(self) -> None:
        began = self._clock.elapsed()
        async with self._writes.turn:  # what is under way is shown when it is done
            self._table.add(await self._run(self._memory.keys))
        now = self._clock.elapsed()
        self._scanned = (now, now - began)

    async def _commit(self, request: Commit) -> int:
        block = self._table.blocks.get(request.block)
        if request.taken and (block is None or not block.claims().issuperset(request.taken)):
            await self._check_owner()
            raise claims_lost(self._memory.name)
        if block is not None and block.is_committing:
            raise Overloaded(f"{self._memory.name}: this block is being committed.", hint="Wait for the first answer.")
        ahead = self._clock.wall_ms() - request.sent
        others = [_moved_by(entry, ahead) for entry in _decode(request.entries)]
        if not all(_is_of_a_map(entry) for entry in others):
            raise ConfigError(f"{self._memory.name}: a block changes keys that are of no map; nothing was written.")
        if block is not None:
            block.is_committing = True
        try:
            timestamp = await self._writes.make(request.items, request.taken, others)
        finally:
            if block is not None:
                block.is_committing = False
        if block is not None:
            await self._give_back(GiveBack(request.map, request.block))
        return timestamp

    async def _give_back(self, request: GiveBack) -> None:
        """The items of a block go to their places. Its claims in memory go last; if that fails, they end by themselves."""
        block = self._table.blocks.get(request.block)
        if block is None or block.is_committing or (request.number is not None and request.number not in block.takes):
            return
        if request.number is not None and len(block.takes) > 1:
            self._table.end_take(request.block, request.number)
            keep = self._keep
        else:
            self._table.end(request.block)
            keep = self._release
        self._wake()
        with suppress(KvwalError):
            await keep(request.block)

    async def _browse(self, request: Browse) -> list[Item]:
        """A page of items. It is empty only if there is no further item."""
        found: list[Item] = []
        after, size = request.after, 0
        most = min(request.most, BROWSE_ITEMS)
        while len(found) < most and size < BROWSE_BYTES:
            claims = self._table.keys(request.structure, after, min(100, most - len(found)))
            if not claims:
                break
            entries = await self._run(partial(self._memory.entries, claims))
            found += self._shown(entries)
            size += sum(len(entry.value) for entry in entries)
            after = claims[-1][1]
        return found

    async def _check_owner(self) -> None:
        """Raise `ClusterUnreachable` if another member decides: what is known here is old then."""
        if not self.is_over and not await self._run(self._memory.is_owner):
            self._writes.end()
        if self.is_over:
            raise self._writes.moved()

    def _undo(self, claims: list[Claim]) -> None:
        self._table.give_back(claims)
        self._wake()

    def _wake(self) -> None:
        """Let waiting requests end: there may be an item."""
        self._news.set()
        self._news = asyncio.Event()

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)


def _is_of_a_map(entry: Entry) -> bool:
    structure = structure_of(entry.key_class)
    return structure == OWN_MAP or kind_of(structure) == "map"


def _moved_by(entry: Entry, ahead: int) -> Entry:
    """An entry whose time of expiry is by a clock that this member's clock is `ahead` of (milliseconds)."""
    if not entry.expires:
        return entry
    expires = max(1, entry.expires + ahead)
    return make_entry(entry.key, entry.key_class, entry.value, entry.value_class, False, 0, expires)
