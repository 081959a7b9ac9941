"""The folder of claim files beside one log: names and paths.

content/<section>/<claim file>            section: the first two letters of the file's name
content/<section>/<claim file>.partial    a file that is being written; after a crash nobody needs it

The same is in each container of the log: see `kvwal.content.containers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kvwal.content.claim import is_claim_file
from kvwal.content.containers.record import claim_folders
from kvwal.log.files.names import CONTENT_FOLDER, partial_name
from kvwal.ports.disk import Disk

_SECTION = 2
_PARTIAL = partial_name("")


class ClaimFile(NamedTuple):
    """A claim file that is whole, or still open for more contents."""

    name: str
    path: Path


def claim_path(folder: Path, name: str) -> Path:
    """The path of the claim file `name` of the log in `folder`."""
    return folder / CONTENT_FOLDER / name[:_SECTION] / name


def all_claim_files(disk: Disk, folder: Path) -> Iterator[ClaimFile]:
    """The claim files of the log in `folder`, those in containers, too. Raises `ContentDamaged`."""
    for one in claim_folders(disk, folder):
        yield from claim_files(disk, one)


def home_of(path: Path) -> Path:
    """The folder, of a log or in a container, of the claim file at `path`."""
    return path.parents[2]


def found_path(disk: Disk, folders: Sequence[Path], name: str) -> Path:
    """The path of a claim file in the first of the folders that has it; in the first one if none has."""
    paths = (claim_path(folder, name) for folder in folders)
    return next((path for path in paths if disk.exists(path)), claim_path(folders[0], name))


def claim_files(disk: Disk, folder: Path) -> Iterator[ClaimFile]:
    """The claim files in one folder, sorted. Partial files are not among them."""
    for section in disk.names(folder / CONTENT_FOLDER):
        for name in disk.names(folder / CONTENT_FOLDER / section):
            if is_claim_file(name) and name.startswith(section):
                yield ClaimFile(name, folder / CONTENT_FOLDER / section / name)


def remove_partial(disk: Disk, folder: Path, is_in_use: Callable[[str], bool]) -> None:
    """Delete the partial files that a killed process left. Those of a claim file `is_in_use`, and of other processes, stay."""
    for section in disk.names(folder / CONTENT_FOLDER):
        inner = folder / CONTENT_FOLDER / section
        for name in disk.names(inner):
            # A copy from the archive has a tag behind the name: `<claim file>.<tag>.partial`.
            file = name.partition(".")[0]
            if (
                name.endswith(_PARTIAL)
                and is_claim_file(file)
                and not (is_in_use(file) or disk.is_written(inner / name))
            ):
                disk.unlink(inner / name)
