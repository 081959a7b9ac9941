"""Outages of a store: the errors that pass by themselves."""

from __future__ import annotations

from kvwal.errors import ClusterUnreachable, CommitUnknown, NotRecovered, Overloaded, StorageFull

PASSING = (ClusterUnreachable, NotRecovered, Overloaded, StorageFull, CommitUnknown)
"""Errors of a store that is away, loads its memory, or has no room. The same call may succeed later.

After `CommitUnknown` a writer under a lease needs no wait. Its next transaction has a condition on a key of the one before: a
cluster applies the one before first, if it was decided, and refuses it from then on, if it was not.
"""
