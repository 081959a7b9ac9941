"""Mutants of queues of a cluster: what the member that decides on them must never do."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OWNER = "tests/unit/queue/test_cluster_owner.py"

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
        "        if outcome == REFUSED:\n            for change in batch:\n                _fail(change, self.moved())\n"
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
        "        keys = [ready.pop(0) for _ in range(min(most, len(ready)))] if ready else []\n",
        "        keys = list(ready[:most]) if ready else []\n",
        OWNER,
    ),
]
