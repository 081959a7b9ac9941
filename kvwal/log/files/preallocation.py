"""Preallocated segments: files prepared ahead, so that a group is written into bytes that the disk has already.

An fdatasync of a file that did not grow has no metadata to write. Into zeros written before, groups of 64 KiB go to the disk
twice as fast as into a growing file, and groups of 1 MiB several times as fast. A preallocated segment is either a file of zeros
or a recycled segment, which the log no longer needs. Stale blocks of a recycled segment do not verify: salt and offset differ.
"""

from __future__ import annotations

import errno
from collections import deque
from pathlib import Path

from kvwal.log.files.atomic_file import created
from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk, File
from kvwal.ports.space import DiskSpace

_STEP = 4 << 20
_ZEROS = bytes(1 << 20)
MOST = 2
"""Recycled files kept at a time."""


class PreallocatedSegments:
    """The preallocated segments of one log.

    `prepare` and `recycle` run on worker threads, `take` runs on the appender's thread. The `deque` needs no lock for that, and
    each file is in it once.
    """

    def __init__(self, disk: Disk, space: DiskSpace, folder: Path) -> None:
        self._disk = disk
        self._space = space
        self._folder = folder
        self._ready: deque[tuple[Path, int]] = deque()
        self._made = 0

    def __len__(self) -> int:
        return len(self._ready)

    def take(self, size: int) -> File | None:
        """An open preallocated segment of about `size` bytes, or None. Smaller and much larger ones are deleted, and those that
        were linked meanwhile: see `recycle`.
        """
        while self._ready:
            path, have = self._ready[0]
            fits = size // 2 <= have <= 2 * size and self._disk.links(path) == 1
            file = self._disk.open(path) if fits else None
            if file is None:
                self._disk.unlink(path)  # before it is forgotten: if this fails, the next call tries again
            self._ready.popleft()
            if file is not None:
                return file
        return None

    def prepare(self, size: int) -> None:
        """Write a file of `size` zeros and make it durable. On a full disk it raises `OSError` and leaves no file."""
        if self._space.usable < size:
            raise OSError(errno.ENOSPC, "no space for a preallocated segment", str(self._folder))
        self._made += 1
        path = self._folder / partial_name(f"zeros-{self._made}")
        self._disk.unlink(path)
        with created(self._disk, path) as file:
            for offset in range(0, size, _STEP):
                end = min(offset + _STEP, size)
                file.write_at(
                    offset, [_ZEROS] * ((end - offset) // len(_ZEROS)) + [_ZEROS[: (end - offset) % len(_ZEROS)]]
                )
                file.datasync()
        self._ready.append((path, size))

    def recycle(self, path: Path) -> None:
        """Keep a segment that the log no longer needs as a preallocated one, or delete it if space is short, or if it has another
        name: a backup by hard links holds the same bytes, and writing into the file would overwrite the backup.

        Either way its old name is durably gone. Otherwise a power cut could bring the old name back, with the blocks that were
        written into the file later, or could bring back an older dropped segment without a newer one.
        """
        if len(self._ready) >= MOST or not self._space.usable or self._disk.links(path) > 1:
            self._disk.unlink(path)
            self._disk.sync_folder(self._folder)
            return
        self._made += 1
        prepared = self._folder / partial_name(f"recycled-{self._made}")
        self._disk.rename(path, prepared)
        try:
            self._disk.sync_folder(self._folder)
        except OSError:
            self._disk.unlink(prepared)  # never written into: the old name may come back
            raise
        self._ready.append((prepared, self._disk.size(prepared)))

    def clear(self) -> None:
        """Delete all preallocated segments."""
        while self._ready:
            self._disk.unlink(self._ready[0][0])
            self._ready.popleft()
