"""The arguments LOCATION and CONTENT, and the contents that they name. An archive is for the commands that only read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.begun import begun_in_cluster, begun_in_folder
from kvwal.cli.commands.data import ABSENT
from kvwal.cli.content.names import ContentsName, WrittenContents, contents_name, names_of
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import complete_business
from kvwal.cli.text import check_text, moment_text, parse_moment
from kvwal.codecs import registry
from kvwal.errors import ConfigError, KvwalError
from kvwal.location.cluster import ClusterMaps
from kvwal.location.opening import only_reads, open_writer
from kvwal.location.parse import ArchiveLocation, ClusterLocation, FolderLocation
from kvwal.log.files.names import find_places, some
from kvwal.ports.disk import OS_DISK
from kvwal.store.contents.stored import StoredContents, names_of_stored
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.structures.content.names import key_of

_LOOKED_AT = 10_000
"""Names among which one is looked for that resembles a name that is not there."""


def complete_contents(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of CONTENT for the shell: the businesses, and behind a slash the contents of one business. Of a folder only."""
    business, slash, _ = incomplete.partition("/")
    if not slash:
        return complete_business(context, incomplete)
    try:
        with ContentStore(context.params.get("location") or "").reader() as store:
            names = names_of(business, names_of_stored(store.read_business(business)))
    except KvwalError:
        return []
    return [name for name in names if name.startswith(incomplete)]


ContentsArgument = Annotated[
    ContentsName,
    typer.Argument(
        metavar="CONTENT",
        help="The contents: BUSINESS, or BUSINESS/NAME.",
        show_default=False,
        parser=contents_name,
        autocompletion=complete_contents,
    ),
]


def content_name(typed: str) -> str:
    """The name of a content that was typed. Raises `InvalidName`, and `ConfigError` for what is no text."""
    key_of(registry, check_text("the name of a content", typed))
    return typed


NameArgument = Annotated[
    str,
    typer.Argument(metavar="NAME", help="The name of one content.", show_default=False, parser=content_name),
]


def _moment(typed: str) -> str:
    return moment_text(parse_moment(typed))


@dataclass(frozen=True)
class ContentStore(StoreSelection):
    """Bundle: the location of a store, and the names that select a part of it."""

    @contextmanager
    def reading(self, contents: ContentsName, at: str | None = None) -> Iterator[StoredContents]:
        """The contents, as they are or as they were at the typed time `at`, also while another process holds the folder."""
        timestamp = None if at is None else parse_moment(at)
        with self.reader() as store:
            yield StoredContents(store.read_business(contents.business), contents.business, contents.name, timestamp)

    @contextmanager
    def beginning(self, contents: ContentsName, accept_clock: bool) -> Iterator[WrittenContents]:
        """Open the store for a put. A note on standard error says at the end that the contents are new, if they are."""
        begun = self._begun(self._writable(), contents)
        with self._opened(contents, accept_clock) as store:
            if isinstance(store, ClusterMaps):
                begun = self._begun_in_cluster(store, contents)
            yield contents.of(store)
        if begun:
            show.note(f"kvwal: {begun}")

    @contextmanager
    def existing(self, contents: ContentsName, accept_clock: bool) -> Iterator[WrittenContents]:
        """Open the store for a change of what is there. Raises `ConfigError` unless the business is there."""
        self._writable()
        if (folder := self.folder()) is not None:
            replace(folder, node=None).logs(contents.business)
        with self._opened(contents, accept_clock) as store:
            if isinstance(store, ClusterMaps):
                store.check_there(contents.business)
            yield contents.of(store)

    def check_repairs(self) -> None:
        """Raise `ConfigError` for a cluster and for an archive: what is damaged there has no other copy."""
        location = self._writable()
        if isinstance(location, ClusterLocation):
            raise ConfigError(
                f"kvwal://{location.addresses}: the bytes of a cluster's contents are in its archive only, so there is nothing to"
                " mend them from; nothing was read.",
                hint="Leave out --repair to see what is damaged, and put it again.",
            )

    def absent(self, contents: ContentsName, name: str, at: str | None = None) -> typer.Exit:
        """Say on standard error that no content has this name, and which others are there. Returns the exit."""
        with self.reading(contents, at) as found:
            alike = [content.name for content in islice(found.list(name[:1]), _LOOKED_AT)]
            names = alike or [content.name for content in islice(found.list(), _LOOKED_AT)]
        there = some(names, name)
        if at is None:
            show.note(f"kvwal: {contents} has no content {name!r} (there are: {there}).")
        else:
            show.note(f"kvwal: {contents} had no content {name!r} at {_moment(at)} (there were: {there}).")
        return typer.Exit(ABSENT)

    def nothing_in(self, contents: ContentsName, prefix: str = "", at: str | None = None) -> typer.Exit:
        """Say on standard error that no content is there, and which contents of the business are. Returns the exit."""
        begins = f" that begins with {prefix!r}" if prefix else ""
        if at is not None:
            show.note(f"kvwal: {contents} had no content{begins} at {_moment(at)}.")
            return typer.Exit(ABSENT)
        with self.reader() as store:
            names = names_of(contents.business, names_of_stored(store.read_business(contents.business)))
        known = str(contents) in names
        there = "" if known else f" (contents in {contents.business}: {some(names, str(contents))})"
        show.note(f"kvwal: {contents} has no content{begins}{there}.")
        return typer.Exit(ABSENT)

    @contextmanager
    def _opened(self, contents: ContentsName, accept_clock: bool) -> Iterator[kvwal.Store | ClusterMaps]:
        """Open the store for a change. If `--archive` was given, see `check_archived`."""
        bars = show.Bars()
        try:
            with open_writer(self.parsed(), self._names(), accept_clock=accept_clock, progress=bars.report) as store:
                assert isinstance(store, kvwal.Store | ClusterMaps)
                bars.stop()  # the log is recovered; the bar of the bytes comes
                yield store
        finally:
            bars.stop()
        self.check_archived(store)

    def _writable(self) -> FolderLocation | ClusterLocation:
        """The location. Raises `ConfigError` for an archive."""
        location = self.parsed()
        if isinstance(location, ArchiveLocation):
            raise only_reads(location)
        return location

    def _begun_in_cluster(self, store: ClusterMaps, contents: ContentsName) -> str:
        """As `_begun`, for a cluster."""
        what = f"content {contents}"
        if begun := begun_in_cluster(self.cluster, contents.business, store.businesses(), what=what):
            return begun
        return _new_among(store.read_business(contents.business), contents)

    def _begun(self, folder: FolderLocation | ClusterLocation, contents: ContentsName) -> str:
        """A sentence on what the first put of these contents begins; empty if the log has some, and for a cluster."""
        if isinstance(folder, ClusterLocation):
            return ""
        place = (folder.root, self.namespace, self.cluster, contents.business)
        if begun := begun_in_folder(OS_DISK, *place, what=f"content {contents}"):
            return begun
        if not find_places(OS_DISK, *place, closed=set()):
            return ""
        with self.reader() as store:
            return _new_among(store.read_business(contents.business), contents)


def _new_among(business: BusinessReader, contents: ContentsName) -> str:
    """A sentence on contents that are not in their business yet; empty if they are."""
    structures = business.content_structures()
    if contents.structure in structures:
        return ""
    names = names_of(contents.business, names_of_stored(business))
    return f"the content {contents} is new in {contents.business} (there are: {some(names, str(contents))})."
