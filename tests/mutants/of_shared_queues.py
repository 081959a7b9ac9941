"""Mutants of queues of a cluster: what the member that decides on them must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OWNER = "tests/unit/cluster_queues/test_owner.py"
OPTIONS = "tests/unit/cluster_queues/test_options.py"

MUTANTS = [
    Mutant(
        "a block that was silent for too long is committed",
        6,
        "kvwal/node/queues/owner.py",
        "        if request.taken and (block is None or not block.claims().issuperset(request.taken)):\n",
        "        if request.taken and block is not None and not block.claims().issuperset(request.taken):\n",
        OWNER,
    ),
    Mutant(
        "an earlier owner gives an item to a block",
        6,
        "kvwal/node/queues/owner.py",
        "        if not await self._run(partial(self._memory.claim, self._writes.record.epoch, block, claims)):\n",
        "        if await self._run(partial(self._memory.claim, self._writes.record.epoch, block, claims)) is None:\n",
        OWNER,
    ),
    Mutant(
        "the next owner does not know what blocks have",
        6,
        "kvwal/node/queues/owner.py",
        "                self._table.restore(kept.block, kept.claims.takes, kept.claims.visibility)\n",
        "                pass\n",
        OWNER,
    ),
    Mutant(
        "an earlier owner releases what a block has",
        6,
        "kvwal/node/queues/owner.py",
        "        for block in list(self._table.blocks):\n            await self._keep(block)\n",
        "",
        OWNER,
    ),
    Mutant(
        "takers do not wait when memory has lost what blocks have",
        6,
        "kvwal/node/queues/owner.py",
        "        if before.held and not kept:",
        "        if before.held and kept:",
        OWNER,
    ),
    Mutant(
        "a change of an earlier owner is acknowledged",
        6,
        "kvwal/node/queues/writes.py",
        "        if outcome == REFUSED:\n            for change in changes:\n                _fail(change, self.moved())\n"
        "            self.end()\n            return None\n        if outcome != DONE:\n",
        "        if outcome not in (DONE, REFUSED):\n",
        OWNER,
    ),
    Mutant(
        "positions go back with the clock",
        6,
        "kvwal/node/queues/writes.py",
        "        position = max(self.record.position, self._table.last_position, now << TIMESTAMP_SHIFT)\n",
        "        position = now << TIMESTAMP_SHIFT\n",
        OWNER,
    ),
    Mutant(
        "an item that a block has is given to another taker",
        6,
        "kvwal/cluster/queues/table.py",
        "        keys = [items.ready.pop(0) for _ in range(min(most, len(items.ready)))]\n",
        "        keys = list(items.ready[:most])\n",
        OWNER,
    ),
    Mutant(
        "the capacity counts what can be taken, and not what takers have",
        6,
        "kvwal/cluster/queues/table.py",
        "        return Room(len(items), items.size)\n",
        "        return Room(len(items.ready), items.size)\n",
        "tests/unit/cluster_queues/test_as_embedded.py",
    ),
    Mutant(
        "puts of one transaction do not see each other's room",
        6,
        "kvwal/node/queues/plans.py",
        "        for plan in before:\n            there = there.plus(plan.room(structure, self._table))\n",
        "",
        OPTIONS,
    ),
    Mutant(
        "the next owner does not know options and deliveries",
        6,
        "kvwal/node/queues/owner.py",
        "                self._table.delay(self._details.apply(details))\n",
        "                pass\n",
        OPTIONS,
    ),
    Mutant(
        "a taker that fell silent costs no delivery",
        6,
        "kvwal/node/queues/owner.py",
        "            await self._count(self._table.blocks[block], self._table.blocks[block].claims())\n",
        "",
        OPTIONS,
    ),
    Mutant(
        "a block is committed while its give-back is written",
        6,
        "kvwal/node/queues/owner.py",
        "        block.is_committing = True  # it neither ends nor is committed meanwhile\n",
        "",
        OPTIONS,
    ),
    Mutant(
        "an item is handed out before it is due",
        6,
        "kvwal/cluster/queues/table.py",
        "        if due > now_ms:\n            self.ready.discard(key)\n",
        "        if due > now_ms + 1_000_000:\n            self.ready.discard(key)\n",
        OPTIONS,
    ),
    Mutant(
        "what is known of an item's deliveries outlives the item",
        6,
        "kvwal/node/queues/plans.py",
        "        plan = Plan(items, gone, details + self._details.deletes(gone), change.others)\n",
        "        plan = Plan(items, gone, details, change.others)\n",
        OPTIONS,
    ),
]
