"""Guards of the memory of a business: what all its structures share, the locks and the clock among it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kvwal.entry import Entry
from kvwal.ports.locks import Lock

Now: TypeAlias = Callable[[], int]
"""The current time of the hybrid clock in unix ms, by which expiry is judged."""


class Guards(NamedTuple):
    """`lock` is held while a group is applied, and by iterators for a few entries at a time.

    `building` is held while something large is prepared beside the writes (a key order); it is taken before `lock`. `recovers`
    says whether the log is being recovered: its files cannot be read again yet.
    `ended` is told, with the lock held, of each entry that expires and is freed or replaced: it may have expired.
    """

    now: Now
    lock: Lock
    building: Lock
    recovers: Callable[[], bool]
    ended: Callable[[Entry], None] = lambda entry: None


def guards_alone(now: Now) -> Guards:
    """Guards of a state that belongs to no open business."""
    return Guards(now, Lock(), Lock(), lambda: False)
