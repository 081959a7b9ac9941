"""Budget of file descriptors: the process's limit, and the logs that hold a descriptor.

Every open log may hold the descriptor of its current segment. All logs of the process together hold at most half of the limit.
An eighth of the limit, the reserve, is for archiving and recovery: a log that would take from it is not opened. An idle log
closes its segment, and opens it again for its next write.
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
    """File descriptors of this process: the limit, the free ones, the reserve for archiving and recovery, and the logs that
    hold one.
    """

    limit: int
    free: int
    reserve: int
    logs: int

    @property
    def short(self) -> bool:
        """Whether no other map can be opened."""
        return self.free < self.reserve


class Holder(Protocol):
    """An object, one log's appender, that can close its descriptor and open it again."""

    used: bool
    """Set by the holder at each use; cleared by `Descriptors`."""

    def close_idle(self, *, sync: bool) -> bool:
        """Close the descriptor unless it is in use now, and call `Descriptors.closed`. Returns whether it was closed.

        With `sync`, close it even if that needs an fdatasync.
        """
        ...


class Descriptors:
    """The budget. Used by any thread. `limit` returns how many descriptors the process may have, `count` how many it has."""

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
        """`holder` holds a descriptor from now on. If that is too many, the least recently used holders close theirs."""
        with self._lock:
            self._holders[holder] = None
            above = len(self._holders) - max(1, self._limit() // _LOGS_PART)
        if above > 0:
            self._free_descriptors(above, holder)

    def closed(self, holder: Holder) -> None:
        """`holder` holds no descriptor any more."""
        with self._lock:
            self._holders.pop(holder, None)

    def free_descriptors(self) -> bool:
        """Close descriptors of the least recently used holders, because none is free. Returns whether any was closed."""
        return self._free_descriptors(max(1, len(self._holders) // _RESERVE_PART), None) > 0

    def close_idle_descriptors(self) -> None:
        """Close the descriptors that were not used since the last call and that need no fdatasync."""
        with self._lock:
            holders = list(self._holders)
        for holder in holders:
            if holder.used:
                holder.used = False
            else:
                holder.close_idle(sync=False)

    def _free_descriptors(self, wanted: int, spared: Holder | None) -> int:
        """Close up to `wanted` descriptors, never that of `spared`; returns how many. A CLOCK algorithm: a holder that was used
        since the last round gets a second chance.
        """
        closed = 0
        for _ in range(2 * len(self._holders)):
            if closed == wanted:
                break
            with self._lock:
                holder = next(iter(self._holders), None)
                if holder is None:
                    break
                self._holders.move_to_end(holder)
            if holder is spared:
                continue
            if holder.used:
                holder.used = False
            else:
                closed += holder.close_idle(sync=True)
        return closed


def _own_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _UNLIMITED if limit == resource.RLIM_INFINITY else limit


def _own_count() -> int:
    try:
        return len(os.listdir(_OPEN))
    except FileNotFoundError:
        return 0  # without /proc the number is unknown, and only the limit itself refuses
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _own_limit()  # listing the folder needs a descriptor, and none is free
        raise


OWN_DESCRIPTORS = Descriptors(_own_limit, _own_count)
"""The budget of this process."""
