"""A location as it is typed, and the kind of store that it names."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeAlias

from kvwal.client.address import DEFAULT_PORT, SCHEME, check_no_secret, check_nodes
from kvwal.errors import ConfigError
from kvwal.log.files.names import FileKind, first_place, log_folder, parse_name
from kvwal.ports.disk import Disk
from kvwal_archive.layout import parse_object_key, parse_registration_key
from kvwal_archive.objects import address_of, check_url, typed_path
from kvwal_archive.objects.typed import TypedAddress

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
    address = address_of(typed)
    if address is None:
        root = _folder(typed)
        return ArchiveLocation(str(root)) if is_archive(disk, root) else FolderLocation(root)
    if address.scheme.lower() == SCHEME:
        return _cluster(str(typed), address)
    try:
        check_url(str(typed))
    except ConfigError as error:
        raise ConfigError(f"{error.what.rstrip('.')}.", hint=f"{error.hint} {_FORMS}") from error
    if not address.has_two_slashes:
        return FolderLocation(typed_path("location", typed))
    return ArchiveLocation(str(typed))


def _folder(typed: str | Path) -> Path:
    try:
        return typed_path("location", typed)
    except ConfigError as error:
        raise ConfigError(error.what, hint=f"{error.hint} {_FORMS}") from error


def _cluster(typed: str, address: TypedAddress) -> ClusterLocation:
    addresses = address.rest.removesuffix("/")
    if not address.has_two_slashes:
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
