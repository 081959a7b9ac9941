"""The record of a business with contents: that of a map, whose values are checksums of bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from kvwal.content.claim import claim_of, is_content
from kvwal.entry import Entry
from kvwal.ports.disk import Disk
from tests.simulation.checker import check_calls
from tests.simulation.history import Txn, Violation, fold
from tests.simulation.ledger import Ledger
from tests.simulation.values.large import archived


class ContentLedger(Ledger):
    """See `Ledger`. The value of a name is the SHA-256 of its bytes (`to_version`)."""

    def settle(self, newer: Sequence[Txn] = ()) -> None:
        """See `Ledger.settle`. The background moves bytes, and logs their names again."""
        check_calls(self.log, [*self.since, *newer], self.ops, self.world.clock.highest, moves=True)

    def restored(self, entries: Sequence[Entry], disk: Disk, folder: Path) -> None:
        """See `Ledger.restored`: the bucket has the bytes of each name, unless it was changed meanwhile."""
        latest = fold([*self.log, *self.since])
        for entry in entries:
            name = entry.key.decode()
            if not is_content(entry.key_class) or entry.deleted or latest[name].timestamp != entry.timestamp:
                continue
            claim = claim_of(entry)
            data = archived(self.world, self.name, claim)
            if data is None or hashlib.sha256(data).hexdigest() != claim.sha256:
                raise Violation(f"{name} was restored, and the bucket has not its bytes: {claim}")
            self.world.met("content: restored elsewhere with its bytes")
