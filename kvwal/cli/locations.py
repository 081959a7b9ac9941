"""The argument LOCATION, and the store that it names: a folder, a cluster, or an archive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.begun import begun_in_cluster, begun_in_folder
from kvwal.cli.options import (
    ALL,
    AnyCluster,
    AnyNamespace,
    Archive,
    Cluster,
    LogSelection,
    Namespace,
    Node,
    in_no_namespace,
)
from kvwal.cli.text import moment_text, parse_moment
from kvwal.errors import ConfigError
from kvwal.location.archived import not_archived, places_under
from kvwal.location.cluster import ClusterMaps
from kvwal.location.moments import MomentReader
from kvwal.location.opening import Names, open_reader, open_writer
from kvwal.location.parse import ArchiveLocation, ClusterLocation, FolderLocation, Location, parse_location
from kvwal.location.readers import LocationReader, LocationWriter
from kvwal.ports.disk import OS_DISK
from kvwal.store.options import archive_argument
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects

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
    def reader(self, at: str | None = None) -> Iterator[LocationReader]:
        """Open the location for one command that only reads: as it is now, or as it was at the typed time `at`."""
        timestamp = None if at is None else parse_moment(at)
        with show.progress() as report, open_reader(self.parsed(), self._names(), report) as store:
            yield store if timestamp is None else MomentReader(store, timestamp, partial(_note_empty, timestamp))

    @contextmanager
    def writer(
        self, *, existing: str | None = None, begins: str | None = None, accept_clock: bool = False
    ) -> Iterator[LocationWriter]:
        """Open the location for one command that writes, with a progress bar while logs are recovered.

        With `existing`, raises `ConfigError` unless that business is there. With `begins`, a note on standard error says at the
        end that the business is new, if it is. If `--archive` was given, the closed store must have archived the tail of its
        logs: see `LogSelection.check_archived`.
        """
        folder = self.folder()
        if folder is not None and existing is not None:
            replace(folder, node=None).logs(existing)
        begun = self.begun(begins) if begins is not None else ""
        with (
            show.progress() as report,
            open_writer(self.parsed(), self._names(), accept_clock=accept_clock, progress=report) as store,
        ):
            if isinstance(store, ClusterMaps) and existing is not None:
                store.check_there(existing)
            if isinstance(store, ClusterMaps) and begins is not None:
                begun = begun_in_cluster(self.cluster, begins, store.businesses())
            yield store
        if begun:
            show.note(f"kvwal: {begun}")

    def check_there(self) -> None:
        """Raise `ConfigError` for a folder that has no such log, and for an archive that has none. A cluster may be empty."""
        if not isinstance(self.parsed(), ClusterLocation):
            self.businesses()

    def begun(self, business: str) -> str:
        """A sentence on what a first entry of the business would begin in a folder; empty if it is there, and for a cluster."""
        folder = self.folder()
        if folder is None:
            return ""
        return begun_in_folder(OS_DISK, folder.root, folder.namespace, folder.cluster, business)

    def check_archived(self, store: LocationWriter) -> None:
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
        places = self._archived()
        namespaces = sorted({place.namespace for place in places if place.business == business})
        if not namespaces:
            raise in_no_namespace(self.location, business, places)
        return namespaces

    def businesses(self) -> list[str]:
        """Names of the selected businesses, sorted. Raises `ConfigError` if a folder or an archive has no such log."""
        folder = self.folder()
        if folder is not None:
            closed: set[str] = set()
            return sorted({place.business for place in folder.logs(closed=closed)} | closed)
        if self.namespace == ALL:
            return sorted({place.business for place in self._archived()})
        with self.reader() as store:
            names = store.businesses()
        location = self.parsed()
        if not names and isinstance(location, ArchiveLocation):
            raise not_archived(
                open_objects(location.url), namespace=self.namespace, cluster=self.cluster, node=self.node
            )
        return names

    def _archived(self) -> list[Place]:
        """The selected logs of an archive, of all namespaces. A cluster is a `ConfigError`: it has one namespace."""
        location = self.parsed()
        if not isinstance(location, ArchiveLocation):
            raise ConfigError(f"{self.location}: a cluster has one namespace.", hint="Name it with --namespace.")
        objects = open_objects(location.url)
        places = [place for place in places_under(objects, "") if place.cluster == self.cluster]
        if not places:
            raise not_archived(objects, cluster=self.cluster)
        return places

    def _logs(self, location: FolderLocation) -> LogSelection:
        return LogSelection(location.root, self.namespace, self.cluster, self.node, self.archive)

    def _names(self) -> Names:
        return Names(self.namespace, self.cluster, self.node, archive_argument(self.archive))


def _note_empty(timestamp: int, business: str) -> None:
    show.note(f"kvwal: {business} had no entry at {moment_text(timestamp)}.")


@dataclass(frozen=True)
class WideStoreSelection(StoreSelection):
    """Bundle: a location, in one namespace or in all of them."""

    namespace: AnyNamespace = "default"


@dataclass(frozen=True)
class WholeStoreSelection(StoreSelection):
    """Bundle: a location whose default is all namespaces and all clusters of a folder. A cluster has one of each."""

    namespace: AnyNamespace = ALL
    cluster: AnyCluster = ALL
