"""Folders for the files of one job of the archiver: a seed, or the copies and the output of a compaction.

They are in the log's folder. The folder of temporary files may be in memory, or limited to some MiB, as in a container, and these
files may become as large as the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kvwal.errors import StorageFull
from kvwal.log.files.atomic_file import delete_abandoned
from kvwal.log.files.names import SCRATCH_MARK, is_scratch, scratch_name
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk, OsDisk, scratch_folder
from kvwal.ports.space import DiskSpace


@contextmanager
def scratch_beside_log(disk: Disk, clock: Clock, folder: Path, reserve: int | None, need: int) -> Iterator[Path]:
    """A new folder in the log's `folder` for files of about `need` bytes together. It is deleted at the end of the `with` block.

    Its name is of this job alone, and it is marked as written. So no other process deletes it or writes there, also not the
    archiver of the process that recovers the log when this archiver has outlived its killed parent. What killed archivers left
    is deleted first. Raises `StorageFull`, before the first byte, if `need` would take from the disk's reserve.

    Arrow cannot write to the disk of a simulation: then the folder is among the temporary files.
    """
    if not isinstance(disk, OsDisk):
        with scratch_folder() as temporary:
            yield temporary
        return
    delete_abandoned(disk, folder, only=is_scratch)
    if (shortage := DiskSpace(disk, folder, reserve).shortage(need)) is not None:
        raise StorageFull(
            f"{folder}: a job of the archiver needs about {need:,} bytes there for its files, and {shortage};"
            " nothing was written.",
            hint="Free space: it is tried again.",
        )
    path = folder / scratch_name(clock.random_bits(64))
    try:
        disk.make_folders(path)
        mark = disk.create(path / SCRATCH_MARK)
        try:
            yield path
        finally:
            mark.close()
    finally:
        with suppress(OSError):  # the error of the job counts; the next job, or recovery, deletes the folder
            disk.remove_tree(path)
