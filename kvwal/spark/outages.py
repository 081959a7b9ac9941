"""Outages of a store: the errors that pass by themselves, and what a writer has to do after a transaction of unknown outcome."""

from __future__ import annotations

from collections.abc import Sized
from time import sleep

from kvwal.errors import ClusterUnreachable, CommitUnknown, NotRecovered, Overloaded, StorageFull

PASSING = (ClusterUnreachable, NotRecovered, Overloaded, StorageFull, CommitUnknown)
"""Errors of a store that is away, loads its memory, or has no room. The same call may succeed later."""
SETTLE_SECONDS = 5.0
"""Wait after a transaction of unknown outcome, counted from the first answer of the store.

A member that was killed leaves its transactions as intents. The other members look for them four times a second, and finish
them. Until then a reader may see a part of such a transaction, and its rest would overwrite a later one.
"""


def settle(records: Sized) -> None:
    """Wait until the members have finished the transactions of a writer that is gone, counted from their first answer."""
    len(records)
    sleep(SETTLE_SECONDS)
