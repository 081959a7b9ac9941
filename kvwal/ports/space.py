"""How much of a disk a log may take: writes leave a reserve, with which a full log is sealed, checkpointed and archived.

The reserve is space left free, not a file: it guards against our own writes, whoever makes them under this rule, and cannot
guard against another program that fills the disk to the last byte. Nothing looks at it write by write, only when a file grows.
"""

from __future__ import annotations

import errno
from pathlib import Path

from kvwal.ports.disk import Disk, File

_DEFAULT_RESERVE = 64 << 20
_DEFAULT_PART = 20
"""By default the reserve is one part in so many of the disk, and never above `_DEFAULT_RESERVE`."""


def default_reserve(capacity: int) -> int:
    """The reserve, in bytes, of a disk of `capacity` bytes when none was asked for: the smaller of 64 MiB and 5 %."""
    return min(_DEFAULT_RESERVE, capacity // _DEFAULT_PART)


def space_stats(disk: Disk, folder: Path, reserve: int | None) -> dict[str, int] | None:
    """The room on the disk of `folder` in numbers, all bytes; None if there is no such folder yet."""
    if not disk.exists(folder):
        return None
    capacity, free = disk.space(folder)
    kept = default_reserve(capacity) if reserve is None else reserve
    return {"capacity_bytes": capacity, "free_bytes": free, "reserve_bytes": kept, "usable_bytes": max(0, free - kept)}


class DiskSpace:
    """The room on the disk of `folder`, which exists. `reserve` is how many of its bytes are left free."""

    def __init__(self, disk: Disk, folder: Path, reserve: int | None) -> None:
        """`reserve` in bytes; None is `default_reserve`."""
        self._disk = disk
        self._folder = folder
        self.reserve = default_reserve(disk.space(folder).capacity) if reserve is None else reserve

    @property
    def usable(self) -> int:
        """Bytes that writes may still take."""
        return max(0, self._disk.space(self._folder).free - self.reserve)

    def grow(self, file: File, have: int, need: int, wish: int) -> int:
        """Give `file`, which has `have` bytes, at least `need`, and up to `wish` if they are there. Returns its new size.

        Raises `OSError` (ENOSPC) if `need` would take from the reserve; the file is as it was.
        """
        usable = self.usable
        if need - have > usable:
            raise OSError(
                errno.ENOSPC, f"what is left of it, {self.reserve:,} bytes, is kept in reserve", str(file.path)
            )
        size = max(need, min(wish, have + usable))
        file.allocate(size)
        return size
