"""A location as it is typed, and the kind of store that it names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple, TypeAlias

from archive.layout import parse_object_key, parse_registration_key
from archive.objects import check_url
from kvwal.client.address import DEFAULT_PORT, SCHEME, check_no_secret, check_nodes
from kvwal.errors import ConfigError
from kvwal.log.files.names import FileKind, first_place, log_folder, parse_name
from kvwal.ports.disk import Disk

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.:-]+?):/(/?)(.*)", re.DOTALL)
_FORMS = f"A location is a folder, a cluster ({SCHEME}://host:{DEFAULT_PORT}), or an archive (s3://bucket/prefix, file:///folder)."


class FolderLocation(NamedTuple):
    """The root of an embedded store, or of a node."""

    root: Path


class ClusterLocation(NamedTuple):
    """Some nodes of a running cluster: `host:port[,host:port…]`."""

    addresses: str


class ArchiveLocation(NamedTuple):
    """An archive, which can only be read."""

    url: str


Location: TypeAlias = FolderLocation | ClusterLocation | ArchiveLocation


def parse_location(disk: Disk, typed: str | Path) -> Location:
    """The kind of store that a location names. Nothing is connected; of a folder, a few names are read.

    A folder that holds an archive and no log is an `ArchiveLocation`. Raises `ConfigError`, which says which kind was meant and
    what is wrong with it.
    """
    match = _URL.fullmatch(str(typed)) if isinstance(typed, str) else None
    if match is None:
        root = Path(typed)
        return ArchiveLocation(str(root)) if is_archive(disk, root) else FolderLocation(root)
    scheme, second_slash, rest = match.groups()
    if scheme.lower() == SCHEME:
        return _cluster(str(typed), second_slash, rest)
    try:
        check_url(str(typed))
    except ConfigError as error:
        raise ConfigError(f"{error.what.rstrip('.')}.", hint=f"{error.hint} {_FORMS}") from error
    return ArchiveLocation(str(typed)) if second_slash else FolderLocation(Path(typed))


def _cluster(typed: str, second_slash: str, rest: str) -> ClusterLocation:
    addresses = rest.removesuffix("/")
    if not second_slash:
        raise ConfigError(
            f"{typed} begins like the address of a cluster, with one slash.",
            hint=f"Write {SCHEME}://{addresses.lstrip('/')}.",
        )
    check_no_secret(addresses)
    if "/" in addresses or "?" in addresses:
        raise ConfigError(
            f"{typed}: the address of a cluster ends with its ports.",
            hint="Name the others with --cluster and --namespace.",
        )
    try:
        check_nodes(addresses)
    except ConfigError as error:
        raise ConfigError(
            f"{typed} is the address of a cluster, and {error.what}", hint=f"Write {SCHEME}://host:port[,host:port…]."
        ) from error
    return ClusterLocation(addresses)


def is_archive(disk: Disk, folder: Path) -> bool:
    """Whether the folder is an archive: the first place in it has objects or a registration, and no file of a log."""
    try:
        place = first_place(disk, folder)
        names = [] if place is None else disk.names(log_folder(folder, place))
    except PermissionError:
        return False  # a command on a folder says what it may not read
    if place is None:
        return False
    if any(parse_name(name).kind in (FileKind.SEGMENT, FileKind.SNAPSHOT, FileKind.LOCK) for name in names):
        return False
    keys = [f"{place.prefix}/{name}" for name in names]
    return any(parse_object_key(key) or parse_registration_key(key) for key in keys)
