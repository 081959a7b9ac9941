"""Take-over of the queues of a business: the change of the owner record by which a member begins to decide on them."""

from __future__ import annotations

import asyncio
from functools import partial

from kvwal.cluster.queues.memory import DONE, OwnerRecord, QueueMemory
from kvwal.errors import Overloaded
from kvwal.ports.clock import Clock
from kvwal.ports.tasks import Workers

_AGAIN_SECONDS = 0.05
_BEGIN_SECONDS = 20.0


async def take_over(
    memory: QueueMemory, workers: Workers, clock: Clock, *, kept: bool
) -> tuple[OwnerRecord, OwnerRecord]:
    """Become the owner: from now on no transaction of an owner before this one is made.

    `kept` is what `QueueMemory.begin` returned. Returns the record of the owner before this one, and this one's. Waits for a
    change of the record that is under way; raises `Overloaded` if that takes too long, and as the memory does.
    """
    until = clock.elapsed() + _BEGIN_SECONDS
    while True:
        guard = await workers.run(memory.record)
        before = OwnerRecord.of(guard)
        held = before.held and not (kept and not await workers.run(memory.blocks))
        record = OwnerRecord(before.epoch + 1, before.position, held)
        made = await workers.run(partial(memory.commit, [record.entry()], guard))
        if made.outcome == DONE:
            return before, record
        if clock.elapsed() >= until:
            raise Overloaded(
                f"{memory.name}: the last change of its queues is not finished yet; nothing was written.",
                hint="Ask again.",
            )
        await asyncio.sleep(_AGAIN_SECONDS)
