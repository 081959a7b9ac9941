"""Disk reserve: writes leave some space of the disk free, with which a full log is still sealed, checkpointed and archived.

The reserve is free space, not a file. It holds against the writes of all kvwal processes that use it, not against other programs,
which can fill the disk to the last byte. It is checked when a file grows, not at each write.
"""

from __future__ import annotations

import errno
from pathlib import Path

from kvwal.ports.disk import Disk, File

_DEFAULT_RESERVE = 64 << 20
_DEFAULT_PART = 20
"""The default reserve is the disk's capacity divided by this, at most `_DEFAULT_RESERVE`."""

_LESS_MAY_FIT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of an allocation after which a smaller one may succeed: a quota and the largest size of a file are not known before."""


def default_reserve(capacity: int) -> int:
    """The default reserve, in bytes, of a disk of `capacity` bytes: the smaller of 64 MiB and 5 %."""
    return min(_DEFAULT_RESERVE, capacity // _DEFAULT_PART)


def space_stats(disk: Disk, folder: Path, reserve: int | None) -> dict[str, int] | None:
    """Capacity, free space, reserve and usable space of the disk of `folder`, in bytes; None if the folder does not exist."""
    if not disk.exists(folder):
        return None
    capacity, free = disk.space(folder)
    kept = default_reserve(capacity) if reserve is None else reserve
    return {"capacity_bytes": capacity, "free_bytes": free, "reserve_bytes": kept, "usable_bytes": max(0, free - kept)}


class DiskSpace:
    """Space on the disk of `folder`, which exists. Writes leave `reserve` bytes of the disk free."""

    def __init__(self, disk: Disk, folder: Path, reserve: int | None) -> None:
        """`reserve` is in bytes; None means `default_reserve`."""
        self._disk = disk
        self._folder = folder
        self.reserve = default_reserve(disk.space(folder).capacity) if reserve is None else reserve

    @property
    def usable(self) -> int:
        """Bytes that writes may still take."""
        return max(0, self._disk.space(self._folder).free - self.reserve)

    @property
    def taken_share(self) -> float:
        """The share of the disk that is taken."""
        capacity, free = self._disk.space(self._folder)
        return 1 - free / capacity if capacity else 1.0

    def shortage(self, need: int) -> str | None:
        """What to say of the disk if `need` bytes would take from the reserve; None if there is room."""
        usable = self.usable
        return f"{usable:,} are free beside the reserve of {self.reserve:,}" if need > usable else None

    def grow(self, file: File, have: int, need: int, wish: int) -> int:
        """Grow `file` from `have` to at least `need` bytes, and up to `wish` bytes if there is space. Returns the new size.

        Raises `OSError` (ENOSPC) if `need` would take from the reserve, or the error of the disk (EDQUOT, EFBIG) if `need` is
        above a quota or above the largest size of a file. The file keeps its size then.
        """
        usable = self.usable
        if need - have > usable:
            raise OSError(errno.ENOSPC, f"the remaining {self.reserve:,} bytes are kept in reserve", str(file.path))
        size = max(need, min(wish, have + usable))
        try:
            file.allocate(size)
        except OSError as error:
            if size == need or error.errno not in _LESS_MAY_FIT:
                raise
            file.allocate(need)
            return need
        return size
