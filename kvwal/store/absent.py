"""What is said of a folder, namespace, cluster, map or node that is not there: the same by every command and interface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kvwal.errors import ConfigError
from kvwal.log.files.names import RETIRED, alike, check_not_inside, find_places, first_place, some, word_for
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place

_NAME_IT = "Name the folder that was given to kvwal.open or kvwal put."
_MODES = "Run it as the user of the store, or mend owner and mode."
_HINTS = {
    "namespace": "Check --namespace.",
    "cluster": "Check --cluster.",
    "business": "Check the name, --namespace and --cluster.",
    "node": "Name one of them with node=… (--node), or none, to read all of them merged.",
}


def check_folder_there(disk: Disk, folder: Path) -> None:
    """Raise `ConfigError` unless `folder` is a folder."""
    try:
        if disk.is_folder(folder):
            return
        what = " is a file, and a root is a folder" if disk.exists(folder) else ": there is no such folder"
        others = [name for name in disk.names(folder.parent) if disk.is_folder(folder.parent / name)]
    except PermissionError as error:
        raise ConfigError(f"{folder} cannot be reached ({error.strerror}).", hint=_MODES) from error
    except OSError as error:
        what, others = f" cannot be reached ({error.strerror})", []
    close = alike(folder.name, others)
    raise ConfigError(f"{folder}{what}.", hint=f"Did you mean {folder.with_name(close[0])}?" if close else _NAME_IT)


def check_store(disk: Disk, root: Path) -> None:
    """Raise `ConfigError` unless `root` is a folder with a log in it."""
    check_folder_there(disk, root)
    check_not_inside(disk, root)
    if first_place(disk, root) is None:
        raise ConfigError(f"{root}: there is no log in this folder.", hint=_NAME_IT)


def no_such_log(
    disk: Disk,
    root: Path,
    *,
    namespace: str | None = None,
    cluster: str | None = None,
    business: str | None = None,
    node: str | None = None,
) -> ConfigError:
    """The error of a read of logs that are not under `root`: it names what is missing, and lists what is there.

    It looks from the folder down to the node. None selects all.
    """
    if namespace and cluster and business and _has_only_retired(disk, root, namespace, cluster):
        what = f"{root}: {namespace}/{cluster} has no map {business!r} (there are: none)."
        return ConfigError(what, hint=_HINTS["business"])
    try:
        check_store(disk, root)
        places = find_places(disk, root, closed=set())
    except ConfigError as error:
        return error
    return missing_part(str(root), places, Place(namespace or "", cluster or "", business or "", node or ""))


def _has_only_retired(disk: Disk, root: Path, namespace: str, cluster: str) -> bool:
    """Whether a cluster has logs of destroyed maps, and no other."""
    retired = disk.names(root / namespace / cluster / RETIRED)
    return bool(retired) and not find_places(disk, root, namespace, cluster, closed=set())


def missing_part(where: str, places: Sequence[Place], wanted: Place) -> ConfigError:
    """The error of a selection that none of these places fulfils. Empty names in `wanted` select all."""
    within = ""
    for kind, name in zip(Place._fields, wanted, strict=True):
        there = sorted({getattr(place, kind) for place in places})
        places = [place for place in places if name in ("", getattr(place, kind))]
        if not places:
            subject = f"{where}: {within}" if within else where
            return ConfigError(
                f"{subject} has no {word_for(kind)} {name!r} (there are: {some(there, name)}).", hint=_HINTS[kind]
            )
        if name:
            within = f"{within}/{name}" if within and kind == "cluster" else name
    return ConfigError(f"{where}: what was asked for has come meanwhile.", hint="Ask again.")
