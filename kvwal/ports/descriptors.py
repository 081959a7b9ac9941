"""The budget of file descriptors: how many this process may have, and which logs hold one.

Every open log may hold the descriptor of the segment that it writes. All logs of the process together hold at most half of the
limit, and an eighth of it, the reserve, is for archiving and recovery: no log is opened that would take from it. A log that was
not used for a while closes its segment, and opens it again for its next write.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from kvwal.ports.locks import Lock
from kvwal.ports.processes import take_before_fork

_OPEN = Path("/proc/self/fd")
_RESERVE_PART = 8
_LOGS_PART = 2
_UNLIMITED = 1 << 20


class Budget(NamedTuple):
    """File descriptors of this process: what it may have, what is free, what is kept for archiving and recovery, and how many
    logs hold one."""

    limit: int
    free: int
    reserve: int
    logs: int

    @property
    def short(self) -> bool:
        """Whether no map more can be opened."""
        return self.free < self.reserve


class Holder(Protocol):
    """Something that can close its descriptor and open it again."""

    used: bool
    """Set at each use; cleared here."""

    def close_idle(self, *, sync: bool) -> bool:
        """Close the descriptor unless it is in use now, and say so to `closed`; whether that was done. `sync`: also if it
        takes an fdatasync.
        """
        ...


class Descriptors:
    """Used by any thread. `limit` asks how many descriptors this process may have, `count` how many it has."""

    def __init__(self, limit: Callable[[], int], count: Callable[[], int]) -> None:
        self._limit = limit
        self._count = count
        self._holders: OrderedDict[Holder, None] = OrderedDict()
        self._lock = Lock()
        take_before_fork(self._lock)

    def budget(self) -> Budget:
        """The figures now."""
        limit = self._limit()
        return Budget(limit, max(0, limit - self._count()), limit // _RESERVE_PART, len(self._holders))

    def opened(self, holder: Holder) -> None:
        """It holds a descriptor from now on. Others that were not used for longest close theirs, if that is one too many."""
        with self._lock:
            self._holders[holder] = None
            above = len(self._holders) - max(1, self._limit() // _LOGS_PART)
        if above > 0:
            self._relieve(above, holder)

    def closed(self, holder: Holder) -> None:
        """It holds none any more."""
        with self._lock:
            self._holders.pop(holder, None)

    def relieve(self) -> bool:
        """No descriptor is left: let some of those that were not used for longest go. Whether any did."""
        return self._relieve(max(1, len(self._holders) // _RESERVE_PART), None) > 0

    def rest(self) -> None:
        """Close what was not used since this was called last, and needs no fdatasync for that."""
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            if holder.used:
                holder.used = False
            else:
                holder.close_idle(sync=False)

    def _relieve(self, wanted: int, but: Holder | None) -> int:
        """Twice round: who was used lately gets a second chance, as the clock of a page cache gives it."""
        done = 0
        for _ in range(2 * len(self._holders)):
            if done == wanted:
                break
            with self._lock:
                holder = next(iter(self._holders), None)
                if holder is None:
                    break
                self._holders.move_to_end(holder)
            if holder is but:
                continue
            if holder.used:
                holder.used = False
            else:
                done += holder.close_idle(sync=True)
        return done


def _own_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _own_count() -> int:
    try:
        return len(os.listdir(_OPEN))
    except FileNotFoundError:
        return 0  # there is no /proc here: only the limit itself refuses
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _own_limit()  # to look takes one, too
        raise


OWN_DESCRIPTORS = Descriptors(_own_limit, _own_count)
"""Those of this process."""
