"""The record of a business with queues: that of a map, with the queues' own judge of its calls."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.history import Txn
from tests.simulation.ledger import Ledger
from tests.simulation.queues.checker import check_queue_calls


class QueueLedger(Ledger):
    """See `Ledger`. Items are keys of their queues (`name_of`), so what an opening finds is judged as that of a map."""

    def settle(self, newer: Sequence[Txn] = ()) -> None:
        """See `Ledger.settle`."""
        moves = self.world.moves_values
        check_queue_calls(self.log, [*self.since, *newer], self.ops, self.world.clock.highest, moves=moves)
