"""Writes of a queue owner: the changes that wait become one transaction, which only the owner of the business can make."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kvwal.cluster.queues.details import QueueDetails
from kvwal.cluster.queues.memory import DONE, REFUSED, OwnerRecord, QueueMemory
from kvwal.cluster.queues.requests import PutItem
from kvwal.cluster.queues.table import Claim, QueueTable
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import TIMESTAMP_SHIFT, Entry
from kvwal.errors import ClusterUnreachable, CommitUnknown, KvwalError, Overloaded, QueueFull
from kvwal.key_class import structure_of
from kvwal.node.queues.plans import Change, Plan, Planner
from kvwal.ports.boundary import logged, start_task
from kvwal.ports.clock import Clock
from kvwal.ports.tasks import Workers
from kvwal.structures.queue.capacity import Room
from kvwal.structures.queue.options import Changes

_MOST_CHANGES = 256
_WITHIN_SECONDS = 20.0
"""How long one change tries to lock its keys."""
_AGAIN_SECONDS = 0.02
_SEARCH_SECONDS, _SEARCH_SHARE = 0.5, 20
"""While a queue is full, its items are looked at for those that have expired: not more often than that."""
_READ_AT_ONCE = 1_000
_stopped = logged("the changes of a queue are not written any more because of a bug")


class QueueWrites:
    """The writes of one owner. Used on the node's event loop.

    Positions are drawn in the order in which changes are made, so items are in the order of commits.
    """

    def __init__(
        self,
        memory: QueueMemory,
        table: QueueTable,
        details: QueueDetails,
        workers: Workers,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called after each transaction, and when nothing can be written any more.

        Nothing is written while another task has the `turn`.
        """
        self.record = OwnerRecord()
        """The owner record as this owner left it."""
        self.is_over = False
        self.turn = asyncio.Lock()
        self._memory = memory
        self._table = table
        self._details = details
        self._planner = Planner(memory.name, table, details)
        self._workers = workers
        self._clock = clock
        self._changed = changed
        self._searched: dict[str, tuple[float, float]] = {}
        self._waiting: list[Change] = []
        self._writer: asyncio.Task[None] | None = None

    async def put(
        self,
        items: Sequence[PutItem],
        delays: Mapping[int, int],
        taken: Sequence[Claim] = (),
        others: Sequence[Entry] = (),
    ) -> int:
        """Put items, take others away, and change other entries, as one transaction; return its timestamp when it is durable.

        After every error but `CommitUnknown` nothing was written.
        """
        return await self._made(items=items, delays=delays, taken=taken, others=others)

    async def take(self, taken: Sequence[Claim]) -> None:
        """Take items away. Raises as `put`."""
        await self._made(taken=taken)

    async def put_back(self, entries: Sequence[Entry], details: Sequence[Entry]) -> int:
        """Put items that were taken at their old places, with what is known of them. Raises as `put`."""
        timestamp = await self._made(others=[*entries, *details])
        self._table.delay(self._details.apply(details))
        self._table.add((entry.key_class, entry.key) for entry in entries)
        self._changed()
        return timestamp

    async def count(self, returned: Sequence[Entry]) -> None:
        """Count items as given back: they have one delivery more, and a time from which on they are due, or are dead letters.

        They stay with their taker. Raises as `put`.
        """
        await self._made(returned=returned)

    async def set_options(self, structure: str, changes: Changes) -> None:
        """Store options. Raises as `put`."""
        await self._made(options=(structure, changes))

    async def note_held(self) -> None:
        """Note in the owner record that blocks may have items. Raises as `put`."""
        if not self.record.held:
            await self._made(holds=True)

    async def has_room(self, structure: str, more: Room) -> bool:
        """Whether a put of so much is worth it: there is room, or there never will be, which the put says."""
        options = self._details.options(structure)
        if not more.within(options):
            return True
        if options.capacity_bytes is not None:
            await self._note_sizes(structure)
        return self._planner.has_room(structure, more) or (
            await self._forget_expired(structure) and self._planner.has_room(structure, more)
        )

    def end(self) -> None:
        """Write nothing any more: another member decides, or may do so."""
        self.is_over = True
        waiting, self._waiting = self._waiting, []
        for change in waiting:
            _fail(change, self.moved())
        self._changed()

    def moved(self) -> ClusterUnreachable:
        """The error of a request to a member that does not decide any more."""
        return ClusterUnreachable(
            f"{self._memory.name}: another member decides on its queues now; nothing was written.", hint="Ask again."
        )

    async def _made(self, **change: Any) -> int:
        """Make one change: see `Change`."""
        if self.is_over:
            raise self.moved()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        made = Change(future, self._clock.elapsed() + _WITHIN_SECONDS, **change)
        self._waiting.append(made)
        if self._writer is None or self._writer.done():
            self._writer = start_task(self._write_all(), _stopped)
        try:
            return await future
        except asyncio.CancelledError:  # the node leaves
            before = len(self._waiting)
            self._waiting = [one for one in self._waiting if one is not made]
            if len(self._waiting) < before:
                raise  # it was not begun: the client may ask another member
            self.end()
            raise CommitUnknown(f"{self._memory.name}: it is not known whether this was written.") from None

    async def _write_all(self) -> None:
        batch: list[Change] = []
        try:
            while self._waiting:
                batch = self._next()
                async with self.turn:
                    await self._write(batch)
        except BaseException:  # the node leaves, or a bug: a request must not wait for ever
            for change in batch:
                _fail(change, CommitUnknown(f"{self._memory.name}: it is not known whether this was written."))
            self.end()
            raise

    def _next(self) -> list[Change]:
        """The changes of the next transaction: those that wait, up to some number and size. Options are changed alone."""
        count, size = 0, 0
        for change in self._waiting[:_MOST_CHANGES]:
            size += change.size
            if count and (size > TRANSACTION_BYTES or change.options is not None):
                break
            count += 1
            if change.options is not None:
                break
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _write(self, batch: list[Change]) -> None:
        """Make these changes as one transaction; one by one if others hold a key, or one of them is refused."""
        if self.is_over:
            for change in batch:
                _fail(change, self.moved())
            return
        now = self._clock.wall_ms()
        position = max(self.record.position, self._table.last_position, now << TIMESTAMP_SHIFT)
        planned: list[Change] = []
        plans: list[Plan] = []
        added: dict[str, Room] = {}
        for change in batch:
            plan = await self._planned(change, position + 1, now, added)
            if plan is not None:
                planned.append(change)
                plans.append(plan)
                position += len(change.items) + len(change.returned)
        if not plans:
            return
        record = OwnerRecord(
            self.record.epoch, position + 1, self.record.held or any(change.holds for change in planned)
        )
        refused = await self._tried(planned, plans, record)
        if refused is None:
            return
        if len(planned) > 1:
            for change in planned:
                await self._write([change])
        elif isinstance(refused, Overloaded) and self._clock.elapsed() < planned[0].until:
            if not self._waiting:
                await asyncio.sleep(_AGAIN_SECONDS)
            self._waiting += planned  # others go first: a key of this one is held
        else:
            _fail(planned[0], refused)

    async def _planned(self, change: Change, position: int, now_ms: int, added: dict[str, Room]) -> Plan | None:
        """The plan of a change. None if it is over: it was refused, or changes nothing."""
        try:
            for structure in self._planner.bounded_by_bytes(change.items):
                await self._note_sizes(structure)
            try:
                plan = self._planner.plan(change, position, now_ms, added)
            except QueueFull:
                found = [
                    await self._forget_expired(structure) for structure in {item.structure for item in change.items}
                ]
                if not any(found):
                    raise
                plan = self._planner.plan(change, position, now_ms, added)
        except KvwalError as refused:
            _fail(change, refused)
            return None
        if not (plan.entries or change.holds):
            if not change.future.done():
                change.future.set_result(0)
            return None
        return plan

    async def _note_sizes(self, structure: str) -> None:
        """Learn the sizes of the items of a queue that an owner before this one put."""
        unknown = self._table.unsized(structure)
        for first in range(0, len(unknown), _READ_AT_ONCE):
            some = unknown[first : first + _READ_AT_ONCE]
            found = await self._workers.run(partial(self._memory.entries, some))
            self._table.note_sizes(dict.fromkeys(some, 0) | {(e.key_class, e.key): len(e.value) for e in found})

    async def _forget_expired(self, structure: str) -> bool:
        """Forget the items of a queue that have expired; those of takers stay until their block ends. Returns whether there were
        some. They are searched again only after a while.
        """
        began, (searched, took) = self._clock.elapsed(), self._searched.get(structure, (-math.inf, 0.0))
        if began - searched < max(_SEARCH_SECONDS, _SEARCH_SHARE * took):
            return False
        held = {claim for block in self._table.blocks.values() for claim in block.claims()}
        free = [claim for claim in self._table.all_of(structure) if claim not in held]
        gone: set[Claim] = set()
        for first in range(0, len(free), _READ_AT_ONCE):
            some = free[first : first + _READ_AT_ONCE]
            found = await self._workers.run(partial(self._memory.entries, some))
            gone |= set(some) - {(entry.key_class, entry.key) for entry in found}
        self._table.forget(gone)
        self._details.forget(gone)
        now = self._clock.elapsed()
        self._searched[structure] = now, now - began
        return bool(gone)

    async def _tried(self, changes: list[Change], plans: list[Plan], record: OwnerRecord) -> KvwalError | None:
        """Try the transaction once. None if it is over, one way or the other; else why nothing was written."""
        entries = [entry for plan in plans for entry in plan.entries]
        try:
            outcome, timestamp = await self._workers.run(
                partial(self._memory.commit, [*entries, record.entry()], self.record.entry())
            )
        except CommitUnknown as error:
            self.is_over = True
            for change in changes:
                _fail(change, error)
            self.end()
            return None
        except KvwalError as error:
            return error
        if outcome == REFUSED:
            for change in changes:
                _fail(change, self.moved())
            self.end()
            return None
        if outcome != DONE:
            return Overloaded(
                f"{self._memory.name}: other transactions, or locks of clients, held the same keys; nothing was written.",
                hint="Let fewer writers change one key.",
            )
        self.record = record
        for change, plan in zip(changes, plans, strict=True):
            self._apply(plan)
            if not change.future.done():
                change.future.set_result(timestamp)
        self._changed()
        return None

    def _apply(self, plan: Plan) -> None:
        """The plan was written: the table and the details are as memory."""
        self._table.forget(plan.gone)
        self._table.delay(self._details.apply(plan.details))
        self._details.forget(plan.gone)
        self._table.add((entry.key_class, entry.key) for entry in plan.items)
        bounded = {key_class for key_class in {e.key_class for e in plan.items} if self._counts_bytes(key_class)}
        if bounded:
            self._table.note_sizes({(e.key_class, e.key): len(e.value) for e in plan.items if e.key_class in bounded})

    def _counts_bytes(self, key_class: str) -> bool:
        return self._details.options(structure_of(key_class)).capacity_bytes is not None


def _fail(change: Change, error: KvwalError) -> None:
    if not change.future.done():
        change.future.set_exception(error)
