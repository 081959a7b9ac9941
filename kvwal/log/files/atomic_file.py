"""Atomic file replacement: write a partial file, sync it, rename it, sync its folder.

After a crash at any step the path has its old file or the whole new one (or none, if there was no old file). A partial file
that a crash left behind has a name of `names.partial_name`: `delete_abandoned` deletes it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kvwal.log.files.names import SCRATCH_MARK, FileKind, is_scratch, parse_name, partial_name
from kvwal.ports.disk import Disk, File

_STEP = 8 << 20
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors of a link that is not possible here: another disk, a file system without links, or too many of them."""


@contextmanager
def atomic_file(disk: Disk, path: Path, *, tag: str = "") -> Iterator[File]:
    """A new file, open for writing in the `with` block. At the end of the block it is durable and has the name `path`.

    `tag` is part of the partial file's name: it keeps two processes that write the same path at the same time apart.
    After any error the partial file is deleted: a job that fails is tried again, and each try would leave another file.
    """
    partial = path.with_name(partial_name(f"{path.name}.{tag}" if tag else path.name))
    disk.unlink(partial)
    with created(disk, partial) as file:
        yield file
        file.datasync()
    with unlinked_after_error(disk, partial):
        disk.rename(partial, path)
    disk.sync_folder(path.parent)


@contextmanager
def created(disk: Disk, path: Path) -> Iterator[File]:
    """A new file, open for writing in the `with` block and closed at its end. After any error in the block it is deleted."""
    file = disk.create(path)
    with unlinked_after_error(disk, path):
        try:
            yield file
        finally:
            file.close()


@contextmanager
def unlinked_after_error(disk: Disk, path: Path) -> Iterator[None]:
    """Delete the file `path` if the `with` block raises anything. The block's error counts, not that of the deletion."""
    is_done = False
    try:
        yield
        is_done = True
    finally:
        if not is_done:
            with suppress(OSError):
                disk.unlink(path)


def copy_file(disk: Disk, source: Path, target: Path) -> None:
    """Copy a file to a new one, whose bytes are durable then, and its name after a sync of the folder. Errors leave no file."""
    with created(disk, target) as file:
        for offset in range(0, disk.size(source), _STEP):
            file.write_at(offset, [disk.read_part(source, offset, _STEP)])
        file.datasync()


def link_file(disk: Disk, source: Path, target: Path) -> bool:
    """Link a file that never changes. Returns whether that is possible here."""
    try:
        disk.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        return False
    return True


def delete_abandoned(disk: Disk, folder: Path, *, only: Callable[[str], bool] = lambda name: True) -> None:
    """Delete the partial files in `folder` that a killed process left, of all names or of those that `only` chooses.

    A file that a living process writes stays: an archiver that outlived its killed parent finishes its snapshot. So does the
    folder of a job that such an archiver does.
    """
    for name in disk.names(folder):
        if parse_name(name).kind is not FileKind.PARTIAL or not only(name):
            continue
        path = folder / name
        if is_scratch(name) and disk.is_folder(path):
            if not disk.is_written(path / SCRATCH_MARK):
                with suppress(OSError):  # it is being begun, or deleted by another process: then it goes the next time
                    disk.remove_tree(path)
        elif not disk.is_written(path):
            disk.unlink(path)


def write_file(disk: Disk, path: Path, parts: Sequence[bytes]) -> None:
    """Replace the file `path` by one with these bytes. Returns when it is durable."""
    with atomic_file(disk, path) as file:
        file.write_at(0, parts)
