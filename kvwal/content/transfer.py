"""Claim files of one log given to another folder: for a backup, a merge of nodes, a repair, and a restore.

Claim files never change once they are closed, so they are linked where that is possible, else copied.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from kvwal.content.folder import all_claim_files, claim_path
from kvwal.log.files.atomic_file import atomic_file, copy_file, link_file
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.ports.space import DiskSpace
from kvwal_archive.contents.files import ArchivedContents

_FETCH_BYTES = 8 << 20
"""Bytes of a file that are fetched from the archive at a time."""

Put = Callable[[Path, Path, bool], None]
"""Gives a file another path: as a link if that is allowed and possible, else as a copy."""


def give_claim_files(disk: Disk, source: Path, target: Path, put: Put, *, closed: bool = False) -> None:
    """Put the claim files of the log in `source` that are not beside the log in `target` there, durably.

    With `closed` those that a process still writes are left out. A file that goes meanwhile is passed over: nothing names it.
    """
    sections: set[Path] = set()
    for file in all_claim_files(disk, source):
        path = claim_path(target, file.name)
        is_open = disk.is_written(file.path)
        if (closed and is_open) or disk.exists(path):
            continue
        disk.make_folders(path.parent)
        try:
            put(file.path, path, not is_open)
        except FileNotFoundError:
            continue
        sections.add(path.parent)
    for section in sorted(sections):
        disk.sync_folder(section)


def fetch_claim_file(disk: Disk, clock: Clock, archived: ArchivedContents, file: str, folder: Path) -> None:
    """Copy a claim file from an archive into the folder of a log. Raises `OSError`, `ObjectMissing`, `ArchiveError`."""
    size = archived.size(file)
    path = claim_path(folder, file)
    disk.make_folders(path.parent)
    with atomic_file(disk, path, tag=f"{clock.random_bits(64):016x}") as copy:
        for offset in range(0, size, _FETCH_BYTES):
            copy.write_at(offset, [archived.part(file, offset, min(_FETCH_BYTES, size - offset))])


def link_or_copy(disk: Disk) -> Put:
    """A `Put` for logs that nobody writes. ENOSPC if a copy would take from the default reserve of the disk."""

    def put(source: Path, target: Path, may_link: bool) -> None:
        if may_link and link_file(disk, source, target):
            return
        size = disk.size(source)
        if (shortage := DiskSpace(disk, target.parent, None).shortage(size)) is not None:
            raise OSError(errno.ENOSPC, f"a copy of {size:,} bytes is needed, and {shortage}", str(target))
        copy_file(disk, source, target)

    return put
