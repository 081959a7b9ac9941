"""Atomic file replacement: write a partial file, sync it, rename it, sync its folder.

After a crash at any step the path has its old file or the whole new one (or none, if there was no old file). A partial file
that a crash left behind has a name of `names.partial_name`: recovery deletes it, and the next write of the same path does too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvwal.log.files.names import partial_name
from kvwal.ports.disk import Disk, File


@contextmanager
def atomic_file(disk: Disk, path: Path, *, tag: str = "") -> Iterator[File]:
    """A new file, open for writing in the `with` block. At the end of the block it is durable and has the name `path`.

    `tag` is part of the partial file's name: it keeps two processes that write the same path at the same time apart.
    After an `OSError` the partial file is deleted, because on a full disk it would take the space of the next attempt.
    """
    partial = path.with_name(partial_name(f"{path.name}.{tag}" if tag else path.name))
    disk.unlink(partial)
    file = disk.create(partial)
    try:
        yield file
        file.datasync()
    except OSError:
        disk.unlink(partial)
        raise
    finally:
        file.close()
    disk.rename(partial, path)
    disk.sync_folder(path.parent)


def write_file(disk: Disk, path: Path, parts: Sequence[bytes]) -> None:
    """Replace the file `path` by one with these bytes. Returns when it is durable."""
    with atomic_file(disk, path) as file:
        file.write_at(0, parts)
