"""Files prepared ahead, so that a group is written into bytes that are on the disk already.

An fdatasync of a file that did not grow has no metadata to write: into zeros written before, groups of 64 KiB go to the disk
twice as fast, and of 1 MiB several times as fast, as into a growing file. A spare is either a segment that is no longer
needed, with its stale blocks (salt and offset keep them from verifying), or zeros.
"""

from __future__ import annotations

import errno
from collections import deque
from pathlib import Path

from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk, File
from kvwal.ports.space import DiskSpace

_STEP = 4 << 20
_ZEROS = bytes(1 << 20)
MOST = 2
"""Recycled files kept at a time."""


class PreallocatedSegments:
    """The spare files of one log.

    `prepare` and `recycle` run on worker threads, `take` on the appender's; a `deque` needs no lock for that, and each file
    is in it once.
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
        """A spare of about `size` bytes, open, or None. Smaller or much larger ones are deleted."""
        while self._ready:
            path, have = self._ready[0]
            fits = size // 2 <= have <= 2 * size
            file = self._disk.open(path) if fits else None
            self._ready.popleft()
            if file is not None:
                return file
            self._disk.unlink(path)
        return None

    def prepare(self, size: int) -> None:
        """Write a spare of `size` zeros and make it durable. A full disk raises `OSError` and leaves nothing behind."""
        if self._space.usable < size:
            raise OSError(errno.ENOSPC, "no room for a spare", str(self._folder))
        self._made += 1
        path = self._folder / partial_name(f"zeros-{self._made}")
        self._disk.unlink(path)
        file = self._disk.create(path)
        try:
            for offset in range(0, size, _STEP):
                end = min(offset + _STEP, size)
                file.write_at(
                    offset, [_ZEROS] * ((end - offset) // len(_ZEROS)) + [_ZEROS[: (end - offset) % len(_ZEROS)]]
                )
                file.datasync()
        except OSError:
            file.close()
            self._disk.unlink(path)
            raise
        file.close()
        self._ready.append((path, size))

    def recycle(self, path: Path) -> None:
        """Keep a segment that is no longer needed as a spare, or, if space is short, delete it. Either way its name is gone.

        It is gone durably: else a power cut could bring the old name back over what is written into the spare later, or of
        several segments that were let go of bring back an older one without a newer one.
        """
        if len(self._ready) >= MOST or not self._space.usable:
            self._disk.unlink(path)
            self._disk.sync_folder(self._folder)
            return
        self._made += 1
        prepared = self._folder / partial_name(f"recycled-{self._made}")
        self._disk.rename(path, prepared)
        self._disk.sync_folder(self._folder)
        self._ready.append((prepared, self._disk.size(prepared)))

    def clear(self) -> None:
        """Delete them all."""
        while self._ready:
            self._disk.unlink(self._ready.popleft()[0])
