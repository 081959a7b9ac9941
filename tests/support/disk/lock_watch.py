"""A disk that tells whether the locks of logs are held when their lock files are deleted."""

from __future__ import annotations

from pathlib import Path

from kvwal.log.files.names import LOCK
from kvwal.ports.disk import OsDisk
from kvwal.ports.posix.file_locks import is_held


class LockWatchDisk(OsDisk):
    """`held` has an item for each folder with a lock file that was removed."""

    def __init__(self) -> None:
        self.held: list[bool] = []

    def remove_tree(self, folder: Path) -> None:
        """See `Disk.remove_tree`."""
        if (folder / LOCK).exists():
            self.held.append(is_held(folder / LOCK))
        super().remove_tree(folder)
