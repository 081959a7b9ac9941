"""The argument LOCATION, and the store that it names: a folder, a cluster, or an archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer

import kvwal
from archive.layout import Place
from archive.objects import open_objects
from kvwal.cli import show
from kvwal.cli.options import ALL, AnyCluster, AnyNamespace, Archive, Cluster, LogSelection, Namespace, Node
from kvwal.errors import ConfigError
from kvwal.location.archived import places_under
from kvwal.location.cluster import ClusterWriter
from kvwal.location.opening import Names, open_reader, open_writer
from kvwal.location.parse import ArchiveLocation, FolderLocation, Location, parse_location
from kvwal.location.readers import Reader, Writer
from kvwal.ports.disk import OS_DISK
from kvwal.store.options import archive_argument

StoreLocation = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION",
        help="The store: a folder, or a cluster as kvwal://host:port. A command that only reads also takes an archive (s3://…).",
        show_default=False,
    ),
]
"""Where a store is."""


@dataclass(frozen=True)
class StoreSelection:
    """Bundle: a location, and the names that select a part of it."""

    location: StoreLocation
    namespace: Namespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    def parsed(self) -> Location:
        """The kind of store that the location names. Raises `ConfigError`."""
        return parse_location(OS_DISK, self.location)

    def folder(self) -> LogSelection | None:
        """The logs of a location that is a folder, else None."""
        location = self.parsed()
        return self._logs(location) if isinstance(location, FolderLocation) else None

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Open the location for one command that only reads."""
        with show.progress() as report, open_reader(self.parsed(), self._names(), report) as store:
            yield store

    @contextmanager
    def writer(self, *, existing: str | None = None, accept_clock: bool = False) -> Iterator[Writer]:
        """Open the location for one command that writes, with a progress bar while logs are recovered.

        With `existing`, raises `ConfigError` unless that business is there. If `--archive` was given, the closed store must have
        archived the tail of its logs: see `LogSelection.check_archived`.
        """
        folder = self.folder()
        if folder is not None and existing is not None:
            replace(folder, node=None).logs(existing)
        with (
            show.progress() as report,
            open_writer(self.parsed(), self._names(), accept_clock=accept_clock, progress=report) as store,
        ):
            if isinstance(store, ClusterWriter) and existing is not None:
                store.existing(existing)
            yield store

    def check_archived(self, store: Writer) -> None:
        """See `LogSelection.check_archived`. The nodes of a cluster archive by themselves."""
        folder = self.folder()
        if folder is not None and isinstance(store, kvwal.Store):
            folder.check_archived(store)

    def namespaces(self, business: str) -> list[str]:
        """The selected namespace; for '*', every namespace of the location that has this business."""
        if self.namespace != ALL:
            return [self.namespace]
        folder = self.folder()
        if folder is not None:
            return folder.namespaces(business)
        namespaces = sorted({place.namespace for place in self._archived() if place.business == business})
        if not namespaces:
            raise ConfigError(f"{self.location}: no namespace has a business {business!r}.", hint="Check name and URL.")
        return namespaces

    def businesses(self) -> list[str]:
        """Names of the selected businesses, sorted. Raises `ConfigError` if a folder has no such log."""
        folder = self.folder()
        if folder is not None:
            return sorted({place.business for place in folder.logs()})
        if self.namespace == ALL:
            return sorted({place.business for place in self._archived()})
        with self.reader() as store:
            return store.businesses()

    def _archived(self) -> list[Place]:
        """The selected logs of an archive, of all namespaces. A cluster is a `ConfigError`: it has one namespace."""
        location = self.parsed()
        if not isinstance(location, ArchiveLocation):
            raise ConfigError(f"{self.location}: a cluster has one namespace.", hint="Name it with --namespace.")
        return [place for place in places_under(open_objects(location.url), "") if place.cluster == self.cluster]

    def _logs(self, location: FolderLocation) -> LogSelection:
        return LogSelection(location.root, self.namespace, self.cluster, self.node, self.archive)

    def _names(self) -> Names:
        return Names(self.namespace, self.cluster, self.node, archive_argument(self.archive))


@dataclass(frozen=True)
class WideStoreSelection(StoreSelection):
    """Bundle: a location, in one namespace or in all of them."""

    namespace: AnyNamespace = "default"


@dataclass(frozen=True)
class WholeStoreSelection(StoreSelection):
    """Bundle: a location whose default is all namespaces and all clusters of a folder. A cluster has one of each."""

    namespace: AnyNamespace = ALL
    cluster: AnyCluster = ALL
