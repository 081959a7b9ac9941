"""Opening a location: the address of a store becomes something to read from, or to write to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import ConfigError
from kvwal.history.bounded_cache import decoded_rows
from kvwal.location.archived import ArchiveReader, check_archive_folder
from kvwal.location.cluster import ClusterMaps
from kvwal.location.connect import connect
from kvwal.location.parse import ArchiveLocation, ClusterLocation, FolderLocation, Location
from kvwal.location.readers import LocationReader, LocationWriter
from kvwal.log.reader import Progress
from kvwal.store.options import Default, Options
from kvwal.store.sync import ReadOnlyStore, WritableStore
from kvwal_archive.objects import open_objects, without_credentials


class Names(NamedTuple):
    """The names that select the part of a location: each has the meaning that `kvwal.open` and `kvwal.connect` give it."""

    namespace: str = "default"
    cluster: str = "local"
    node: str | None = None
    archive: str | Path | Default | None = Default.ARCHIVE


@contextmanager
def open_reader(location: Location, names: Names, progress: Progress | None = None) -> Iterator[LocationReader]:
    """Open a location for reading. Raises `ConfigError`, `ClusterUnreachable`, `ArchiveError`."""
    if isinstance(location, ClusterLocation):
        _check_cluster(location, names)
        with connect(location.addresses, cluster=names.cluster, namespace=names.namespace) as cluster:
            yield ClusterMaps(cluster)
    elif isinstance(location, ArchiveLocation):
        if names.archive is not Default.ARCHIVE:
            raise ConfigError(f"{without_credentials(location.url)} is an archive itself.", hint="Leave out --archive.")
        objects = open_objects(location.url, decoded=decoded_rows())
        check_archive_folder(objects)
        yield ArchiveReader(objects, names.namespace, names.cluster, names.node)
    else:
        with ReadOnlyStore(_options(location, names, progress=progress)) as store:
            yield store


@contextmanager
def open_writer(
    location: Location, names: Names, *, accept_clock: bool = False, progress: Progress | None = None
) -> Iterator[LocationWriter]:
    """Open a location for writing. Raises the errors of `kvwal.open` and `kvwal.connect`; an archive is a `ConfigError`."""
    if isinstance(location, ArchiveLocation):
        raise only_reads(location)
    if isinstance(location, ClusterLocation):
        _check_cluster(location, names)
        with connect(location.addresses, cluster=names.cluster, namespace=names.namespace) as cluster:
            yield ClusterMaps(cluster)
    else:
        with WritableStore(_options(location, names, accept_clock=accept_clock, progress=progress)) as store:
            yield store


def only_reads(location: ArchiveLocation) -> ConfigError:
    """The error of a write to an archive."""
    return ConfigError(
        f"{without_credentials(location.url)} is an archive, and an archive can only be read here; nothing was written.",
        hint="Write to the folder or the cluster that archives there, or `kvwal restore` it to a new folder first.",
    )


def _options(
    location: FolderLocation, names: Names, *, accept_clock: bool = False, progress: Progress | None = None
) -> Options:
    return Options(
        location.root, namespace=names.namespace, cluster=names.cluster, node=names.node, archive=names.archive, flush="sync",
        storage_options=None, settings=None, accept_clock=accept_clock, progress=progress,
    )  # fmt: skip


def _check_cluster(location: ClusterLocation, names: Names) -> None:
    """Raise `ConfigError` for a name that no cluster takes."""
    where = f"kvwal://{location.addresses} is a cluster"
    if names.node is not None:
        raise ConfigError(f"{where}, and a cluster answers for all its nodes.", hint="Leave out --node.")
    if names.archive is not Default.ARCHIVE:
        raise ConfigError(f"{where}, and its nodes know their archive.", hint="Leave out --archive.")
