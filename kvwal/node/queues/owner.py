"""Owner of the queues of one business: the member that decides which taker gets which item. docs/decisions/0101 says how.

It takes over by a change of the owner record, which every change of a queue depends on: from then on no earlier owner can change
a queue. So what it reads afterwards is what is queued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from kvwal.cluster.queues.details import QueueDetails
from kvwal.cluster.queues.memory import Claims, QueueMemory
from kvwal.cluster.queues.requests import (
    BROWSE_BYTES,
    BROWSE_ITEMS,
    VISIBILITY_SECONDS,
    Await,
    AwaitRoom,
    Browse,
    Commit,
    Count,
    GiveBack,
    Hold,
    Item,
    Options,
    Purge,
    Put,
    PutBack,
    QueueRequest,
    Renew,
    SetOptions,
    Take,
    claims_lost,
    entries_of_commit,
    to_entries,
    to_items,
    unknown_codec,
)
from kvwal.cluster.queues.table import Claim, QueueTable
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import Entry
from kvwal.errors import CodecError, KvwalError, Overloaded
from kvwal.key_class import structure_of
from kvwal.log.submission import cut
from kvwal.node.queues.news import News
from kvwal.node.queues.take_over import take_over
from kvwal.node.queues.writes import QueueWrites
from kvwal.ports.clock import Clock
from kvwal.ports.tasks import Workers
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.deliveries import Delivery, delivery_entry, give_back_bytes
from kvwal.structures.queue.options import checked_changes
from kvwal.structures.queue.positions import delivery_class, is_item

T = TypeVar("T")

_SCAN_SECONDS, _SCAN_SHARE = 10.0, 50
"""While takers find nothing, memory is searched for items that a member brought back with its disk: not more often than that."""
_READ_AT_ONCE = 1_000


class QueueOwner:
    """The owner of the queues of one business, until `is_over`. Used on the node's event loop."""

    def __init__(self, memory: QueueMemory, workers: Workers, clock: Clock) -> None:
        self._memory = memory
        self._workers = workers
        self._clock = clock
        self._table = QueueTable(clock.elapsed, clock.wall_ms)
        self._details = QueueDetails()
        self._news = News()
        self._writes = QueueWrites(memory, self._table, self._details, workers, clock, self._news.tell)
        self._opens = 0.0
        self._ends_expired = False
        self._scanned = (0.0, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether another member decides, or may do so."""
        return self._writes.is_over

    async def begin(self) -> None:
        """Become the owner. Waits for changes of the owner before this one that are under way. Raises `Overloaded`,
        `ClusterUnreachable`, `NotRecovered`, `CommitUnknown`.
        """
        kept = await self._run(self._memory.begin)
        before, self._writes.record = await take_over(self._memory, self._workers, self._clock, kept=kept)
        await self._scan()
        await self._adopt_blocks()
        if before.held and not kept:  # takers may have items of which memory knows nothing any more
            self._opens = self._clock.elapsed() + VISIBILITY_SECONDS

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
        """Keep in memory what a block still has; nothing if it has ended."""
        await self._run(partial(self._memory.release, self._writes.record.epoch, block))
        if block in self._table.blocks:
            await self._keep(block)

    async def answer(self, request: QueueRequest) -> Any:
        """The answer to a request of a client. `ClusterUnreachable` if another member decides: the client asks again."""
        if isinstance(request, Renew):
            holds = self._table.renew(request.block)
            await self._check_owner()
            return holds
        await self.end_expired()
        if isinstance(request, Put):
            return await self._writes.put(request.items, request.delays)
        if isinstance(request, Take):
            return await self._take(request.structure, request.most, request.known)
        if isinstance(request, Purge):
            return len(await self._take(request.structure, request.most, None, delayed=True))
        if isinstance(request, Hold):
            return await self._hold(request)
        if isinstance(request, Commit):
            return await self._commit(request)
        if isinstance(request, PutBack):
            return await self._put_back(request)
        if isinstance(request, SetOptions):
            await self._writes.set_options(request.structure, checked_changes(request.structure, request.changes))
            return self._stored_options(request.structure)
        await self._check_owner()
        if isinstance(request, Await):
            return await self._wait(request)
        if isinstance(request, GiveBack):
            return await self._give_back(request)
        if isinstance(request, Browse):
            return await self._browse(request)
        if isinstance(request, AwaitRoom):
            return await self._wait_for_room(request)
        if isinstance(request, Options):
            return self._stored_options(request.structure)
        if isinstance(request, Count):
            ready, taken, delayed = self._table.count(request.structure)
            return ready, taken, self._news.waiting[request.structure], delayed
        return self._table.structures()

    def _stored_options(self, structure: str) -> bytes:
        stored = self._details.stored_options(structure)
        return b"" if stored is None or stored.deleted else stored.value

    async def end_expired(self) -> None:
        """Give back the items of blocks that nothing was heard of. That counts as a delivery of them."""
        expired = self._table.expired()
        if self._ends_expired or not expired:
            return  # a live taker does not wait for the ends of dead ones
        self._ends_expired = True
        try:
            # From here on nobody can commit or renew them. Their items stay in flight until the delivery is written.
            ended = [self._table.blocks.pop(name) for name in expired]
            claims = {claim for block in ended for claim in block.claims()}
            try:
                await self._count(claims)
            finally:
                self._undo(claims)
            for name in expired:
                await self._release(name)
        finally:
            self._ends_expired = False

    def end(self) -> None:
        """The node leaves: answer nothing any more."""
        self._writes.end()

    async def _take(self, structure: str, most: int, known: list[str] | None, *, delayed: bool = False) -> list[Item]:
        claims, entries = await self._handed_out(structure, most, known, delayed=delayed)
        items = self._shown(entries)  # the take ends what is known of their deliveries
        try:
            if claims:
                await self._writes.take(claims)
        except BaseException:
            self._undo(claims)
            raise
        return items

    async def _hold(self, request: Hold) -> list[Item]:
        block = self._table.blocks.get(request.block)
        if block is not None and request.number in block.takes:
            entries = await self._run(partial(self._memory.entries, block.takes[request.number]))
        else:
            claims, entries = await self._handed_out(request.structure, request.most, request.known)
            known = self._table.blocks.get(request.block)
            if known is not None and request.number in known.takes:  # the same request, sent again meanwhile
                self._undo(claims)
                entries = await self._run(partial(self._memory.entries, known.takes[request.number]))
            elif not claims:
                return []
            else:
                self._table.keep(request.block, request.number, claims, request.visibility)
        try:
            await self._writes.note_held()
            await self._keep(request.block)
        except BaseException:
            self._table.end_take(request.block, request.number)
            self._news.tell()
            raise
        return self._shown(entries)

    async def _put_back(self, request: PutBack) -> int:
        """Put items at their old places, with the numbers of their deliveries."""
        entries = to_entries(request.items, request.structure, self._clock.wall_ms())
        details = [
            delivery_entry(delivery_class(request.structure), entry, Delivery(item.deliveries))
            for item, entry in zip(request.items, entries, strict=True)
            if item.deliveries
        ]
        return await self._writes.put_back(entries, details)

    def _shown(self, entries: list[Entry]) -> list[Item]:
        deliveries = self._details.delivery
        return to_items(
            entries, self._clock.wall_ms(), lambda entry: deliveries((entry.key_class, entry.key)).deliveries
        )

    async def _handed_out(
        self, structure: str, most: int, known: list[str] | None, *, delayed: bool = False
    ) -> tuple[list[Claim], list[Entry]]:
        """Up to `most` items, for this request alone. A request never waits for an item that it takes: its client may go."""
        held: list[Claim] = []
        entries: list[Entry] = []
        try:
            while len(held) < most and (claims := self._first(structure, most - len(held), delayed=delayed)):
                held += claims
                found = await self._present(claims)
                name = unknown_codec(known, found)
                if name is not None:
                    raise CodecError(
                        f"{self._memory.name}: the codec {name!r} of an item is not registered at this client; none was taken.",
                        hint="Register it, or take with a program that has it.",
                    )
                entries += found
                held = [(entry.key_class, entry.key) for entry in entries]
        except BaseException:
            self._undo(held)
            raise
        if not held:
            await self._check_owner()
        return held, entries

    def _first(self, structure: str, most: int, *, delayed: bool) -> list[Claim]:
        if self.is_over:
            raise self._writes.moved()
        return [] if self._clock.elapsed() < self._opens else self._table.take(structure, most, delayed=delayed)

    async def _present(self, claims: list[Claim]) -> list[Entry]:
        """The entries of items that were handed out. Those that have expired, or were deleted, are forgotten."""
        entries = await self._run(partial(self._memory.entries, claims))
        there = {(entry.key_class, entry.key) for entry in entries}
        gone = [claim for claim in claims if claim not in there]
        self._table.forget(gone)
        self._details.forget(gone)
        return entries

    async def _wait(self, request: Await) -> bool:
        """Whether an item can be taken, now or within some time."""
        now, (scanned, took) = self._clock.elapsed(), self._scanned
        if now - scanned > max(_SCAN_SECONDS, _SCAN_SHARE * took):
            await self._scan()
        if not self._has_some(request.structure):
            due = self._table.next_due(request.structure)
            left = max(1, due - self._clock.wall_ms()) / 1000 if due else math.inf
            await self._news.wait(request.structure, min(request.seconds, left))
        return self._has_some(request.structure)

    async def _wait_for_room(self, request: AwaitRoom) -> bool:
        """Whether a put of so much is worth it, now or within some time."""
        more = Room(request.items, request.size)
        if await self._writes.has_room(request.structure, more):
            return True
        await self._news.wait(request.structure, request.seconds)
        return await self._writes.has_room(request.structure, more)

    def _has_some(self, structure: str) -> bool:
        return self._clock.elapsed() >= self._opens and self._table.count(structure)[0] > 0

    async def _scan(self) -> None:
        began = self._clock.elapsed()
        async with self._writes.turn:  # what is under way is shown when it is done
            found = await self._run(self._memory.keys)
            new = [identity for identity in found if not is_item(identity[0]) and not self._details.knows(identity)]
            for first in range(0, len(new), _READ_AT_ONCE):
                details = await self._run(partial(self._memory.entries, new[first : first + _READ_AT_ONCE]))
                self._table.delay(self._details.apply(details))
            self._table.add(identity for identity in found if is_item(identity[0]))
        now = self._clock.elapsed()
        self._scanned = (now, now - began)

    async def _commit(self, request: Commit) -> int:
        block = self._table.blocks.get(request.block)
        if request.taken and (block is None or not block.claims().issuperset(request.taken)):
            await self._check_owner()
            raise claims_lost(self._memory.name)
        if block is not None and block.is_committing:
            raise Overloaded(f"{self._memory.name}: this block is being committed.", hint="Wait for the first answer.")
        others = entries_of_commit(request, self._clock.wall_ms())
        if block is not None:
            block.is_committing = True
        try:
            timestamp = await self._writes.put(request.items, request.delays, request.taken, others)
        finally:
            if block is not None:
                block.is_committing = False
        if block is not None:
            await self._give_back(GiveBack(request.map, request.block))
        return timestamp

    async def _give_back(self, request: GiveBack) -> str | None:
        """The items of a block go to their places. Its claims in memory go last; if that fails, they end by themselves.

        Returns why a delivery of them could not be counted; None if it was, or was not to be.
        """
        block = self._table.blocks.get(request.block)
        if block is None or block.is_committing or (request.number is not None and request.number not in block.takes):
            return None
        if request.number is not None and len(block.takes) > 1:
            claims = set(block.takes.pop(request.number))
        else:
            claims = self._table.blocks.pop(request.block).claims()
        # From here on nobody can commit them. They stay in flight until the delivery is written.
        try:
            failed = await self._count(claims) if request.counts else None
        finally:
            self._undo(claims)
        with suppress(KvwalError):
            await (self._keep if request.block in self._table.blocks else self._release)(request.block)
        return failed

    async def _count(self, claims: set[Claim]) -> str | None:
        """Count a delivery of items that are given back, where options say so. Returns why that could not be written; None if it
        was.
        """
        counts = [claim for claim in claims if self._details.options(structure_of(claim[0])).counts_deliveries]
        counted = sorted(counts)  # dead letters are in the order of their items
        if not counted:
            return None
        try:
            for some in cut(await self._present(counted), TRANSACTION_BYTES, give_back_bytes):
                await self._writes.count(some)
        except KvwalError as error:
            return str(error)
        return None

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

    def _undo(self, claims: Iterable[Claim]) -> None:
        self._table.give_back(claims)
        self._news.tell()

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._workers.run(call)
