"""Kept claim files: those that only history names, and how long they stay beside the log.

No entry of the log names them any more. Events of provenance may, and objects of the archive. The file `content/kept` says since
when each is so: the first cleaning that finds a file without a name puts it there. If that file is lost, files stay longer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from kvwal.archiver.jobs import Keep
from kvwal.content.containers.record import claim_folders
from kvwal.log.files.atomic_file import write_file
from kvwal.log.files.names import CONTENT_FOLDER, partial_name
from kvwal.ports.disk import Disk

KEPT_FILE = "kept"
"""The name of the file with the kept claim files, in the folder of claim files."""

Archived = Callable[[], Collection[str]]
"""The claim files that the archive holds; none if it does not answer."""

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, int]).decode


class Unnamed(NamedTuple):
    """Claim files that no entry of the log names: those that are too old, those for which there is no room, and those that stay,
    each with the time (unix ms) since which it is so.
    """

    old: list[str]
    for_room: list[str]
    kept: dict[str, int]


def kept_files(disk: Disk, folder: Path) -> dict[str, int]:
    """The kept claim files of the log in `folder`, each with the time (unix ms) since which only history names it."""
    try:
        return _decode(disk.read(_path(folder)))
    except (FileNotFoundError, msgspec.DecodeError):
        return {}


def has_kept(disk: Disk, folder: Path) -> bool:
    """Whether a process kept claim files of the log in `folder` that only history names."""
    return disk.exists(_path(folder))


def note_kept(disk: Disk, folder: Path, kept: dict[str, int]) -> None:
    """Write down which claim files are kept. On a disk that refuses the note they only stay longer."""
    if kept == kept_files(disk, folder):
        return
    path = _path(folder)
    with suppress(OSError):
        if kept:
            write_file(disk, path, [_encode(kept)])
        else:
            disk.unlink(path)
            disk.unlink(path.with_name(partial_name(path.name)))


def choose(
    disk: Disk, folder: Path, sizes: dict[str, int], homes: dict[str, Path], keep: Keep, now_ms: int, archived: Archived
) -> Unnamed:
    """Choose among the claim files that no entry of the log in `folder` names, given with their sizes and the folders of each.

    For lack of room those go first that the archive holds: history reads them there. Of these, and of the others, the oldest.
    """
    noted = kept_files(disk, folder)
    since = {file: min(noted.get(file, now_ms), now_ms) for file in sizes}
    old = [file for file in sizes if now_ms - since[file] >= keep.ms]
    kept = {file: since[file] for file in sizes if now_ms - since[file] < keep.ms}
    for_room: list[str] = []
    elsewhere: Collection[str] | None = None
    for home in sorted({homes[file] for file in kept}):
        if (short := _shortage(disk, home, keep.percent)) > 0:
            elsewhere = archived() if elsewhere is None else elsewhere
            here = [file for file in kept if homes[file] == home]
            for file in _in_turn(here, kept, elsewhere):
                if short <= 0:
                    break
                del kept[file]
                for_room.append(file)
                short -= sizes[file]
    return Unnamed(old, for_room, kept)


def _in_turn(files: list[str], kept: dict[str, int], elsewhere: Collection[str]) -> list[str]:
    """The files in the order in which they go for lack of room."""
    return sorted(files, key=lambda file: (file not in elsewhere, kept[file], file))


def lacks_room(disk: Disk, folder: Path, percent: int) -> bool:
    """Whether more than `percent` of the disk is taken on which the log in `folder`, or one of its containers, is."""
    there = (home for home in claim_folders(disk, folder) if disk.is_folder(home))
    return any(_shortage(disk, home, percent) > 0 for home in there)


def _shortage(disk: Disk, folder: Path, percent: int) -> int:
    capacity, free = disk.space(folder)
    return capacity - free - capacity * percent // 100


def _path(folder: Path) -> Path:
    return folder / CONTENT_FOLDER / KEPT_FILE
