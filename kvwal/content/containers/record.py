"""The containers of one log: folders outside of its own that hold claim files of it.

content/containers                                                       beside the log: their folders, as JSON
<container>/<namespace>/<cluster>/<business>/<node>/<random>/content/…   sections and claim files, as beside the log

The random part makes the folder that of one log: two stores may have one container. It is in the list before anything is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from kvwal.errors import ConfigError, ContentDamaged
from kvwal.log.files.atomic_file import write_file
from kvwal.log.files.names import CONTENT_FOLDER
from kvwal.ports.disk import Disk

RECORD = "containers"
"""The name of the list of containers, in the folder of claim files beside the log."""
_PLACE_PARTS = 4
"""Namespace, cluster, business and node: the last parts of a log's folder."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[str]).decode


def claim_folders(disk: Disk, folder: Path) -> Iterator[Path]:
    """The folders that may have claim files of the log in `folder`: its own, then those in containers.

    Raises `ContentDamaged`.
    """
    yield folder
    yield from recorded(disk, folder)


def recorded(disk: Disk, folder: Path) -> list[Path]:
    """The folders in containers that hold claim files of the log in `folder`, or may. Raises `ContentDamaged`."""
    path = folder / CONTENT_FOLDER / RECORD
    if not disk.exists(path):
        return []
    try:
        return [Path(one) for one in _decode(disk.read(path))]
    except (msgspec.DecodeError, OSError) as error:
        raise ContentDamaged(
            f"{path}: the list of the containers with contents of this log cannot be read ({error}).",
            hint="Write it again, as a JSON list: each container has one folder of this log, below the names of its own folder.",
        ) from error


def add_to_record(disk: Disk, folder: Path, inside: Path) -> None:
    """Make a folder in a container, and put it on the list durably: from then on it may hold claim files. Raises `OSError`."""
    disk.make_folders(inside / CONTENT_FOLDER)
    disk.make_folders(folder / CONTENT_FOLDER)
    write_file(
        disk, folder / CONTENT_FOLDER / RECORD, [_encode([str(one) for one in [*recorded(disk, folder), inside]])]
    )


def new_folder(container: Path, folder: Path, random_bits: int) -> Path:
    """The folder of the log in `folder` in a container that has none of it yet."""
    return container.joinpath(*folder.parts[-_PLACE_PARTS:], f"{random_bits:032x}")


def used_containers(disk: Disk, folder: Path, wanted: Sequence[Path] | None) -> dict[Path, Path | None]:
    """The containers that take new claim files of the log in `folder`, each with its folder of this log, None if it has none yet.

    They are the `wanted` ones, or else those that have claim files already. `ConfigError` if one of them is not there.
    """
    try:
        known = {_container_of(inside): inside for inside in recorded(disk, folder)}
    except ContentDamaged as error:
        if isinstance(cause := error.__cause__, OSError):
            raise ConfigError(f"{error.what} Nothing was opened.", hint="Mend the disk.") from cause
        raise
    used = {container: known.get(container) for container in (known if wanted is None else wanted)}
    for container, inside in used.items():
        if not disk.is_folder(container if inside is None else inside / CONTENT_FOLDER):
            what = "has contents of this log, and is not there" if inside else "is no folder"
            raise ConfigError(
                f"{folder}: the container {container} {what}; nothing was opened.",
                hint="Mount its disk. Or leave it out of Settings(content_folders=…): what only it holds is missing then.",
            )
    return used


def left_out(disk: Disk, folder: Path, used: dict[Path, Path | None]) -> list[Path]:
    """The containers that hold claim files of a log, take no new ones, and are not there."""
    containers = {_container_of(inside): inside for inside in recorded(disk, folder)}
    return [
        one for one, inside in containers.items() if one not in used and not disk.is_folder(inside / CONTENT_FOLDER)
    ]


def _container_of(inside: Path) -> Path:
    return inside.parents[_PLACE_PARTS]
