"""What many commands share: their arguments and options, and how a store is opened from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import kvwal
from archive.layout import Place
from archive.objects import Objects, open_objects
from kvwal.cli import show
from kvwal.config import MOST_SECONDS, is_seconds
from kvwal.errors import ArchiveError, ConfigError
from kvwal.log.files.names import find_places
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.progress import Notes, NotesInMemory, notes_file
from kvwal.store.options import ARCHIVE_FOLDER
from kvwal.store.sync import ReadOnlyStore

ALL = "*"
LOOK = "See what is there with `kvwal doctor`."


def complete_business(context: typer.Context, incomplete: str) -> list[str]:
    """Businesses under the ROOT that was typed, for the shell."""
    root = context.params.get("root")
    if root is None:
        return []
    return [
        name
        for name in sorted({place.business for place in find_places(OS_DISK, Path(root))})
        if name.startswith(incomplete)
    ]


Root = Annotated[Path, typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False)]
Business = Annotated[
    str,
    typer.Argument(
        metavar="BUSINESS",
        help="The business: one map and its log.",
        show_default=False,
        autocompletion=complete_business,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key, as text (see --key-class).", show_default=False)]
KeyClass = Annotated[str, typer.Option(help="What KEY stands for: str, int, float, bool, bytes or none.")]
Namespace = Annotated[str, typer.Option(help="The namespace.", rich_help_panel="Which log")]
AnyNamespace = Annotated[str, typer.Option(help="The namespace; '*' for all of them.", rich_help_panel="Which log")]
Cluster = Annotated[str, typer.Option(help="The cluster.", rich_help_panel="Which log")]
AnyCluster = Annotated[str, typer.Option(help="The cluster; '*' for all of them.", rich_help_panel="Which log")]
Node = Annotated[
    str | None,
    typer.Option(
        help="The node; needed where there are several. Reading without it merges all.", rich_help_panel="Which log"
    ),
]
Archive = Annotated[
    str | None,
    typer.Option(
        help="URL or folder of the archive, or 'none'. By default the folder _archive under ROOT.",
        rich_help_panel="Which log",
    ),
]
AcceptClock = Annotated[bool, typer.Option("--accept-clock", help="Open a log whose last entry lies in the future.")]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep notes of what was read and found sound in FILE: run again after an interruption, it goes on from there.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def check_number(option: typer.CallbackParam, value: float) -> float:
    """`ConfigError` unless it is 0 or more, and finite."""
    if not 0 <= value <= MOST_SECONDS:
        raise ConfigError(f"--{option.name} {value:g} must be 0 or more, and finite.")
    return value


def check_time(option: typer.CallbackParam, value: float) -> float:
    """`ConfigError` unless it is a time that can be waited."""
    if not is_seconds(value):
        raise ConfigError(f"--{option.name} {value:g} must be a number of seconds, above 0 and finite.")
    return value


class Where(NamedTuple):
    """Which logs a command is about. `archive` None: the default; 'none': no archive."""

    root: Path
    namespace: str = "default"
    cluster: str = "local"
    node: str | None = None
    archive: str | None = None

    @contextmanager
    def open(self, *, read_only: bool = False, accept_clock: bool = False) -> Iterator[kvwal.Store]:
        """The store, for one command, with a bar while logs are recovered."""
        more: dict[str, Any] = {}
        if self.archive is not None:
            more["archive"] = None if self.archive == "none" else self.archive
        with (
            show.progress() as report,
            kvwal.open(
                self.root,
                namespace=self.namespace,
                cluster=self.cluster,
                node=self.node,
                read_only=read_only,
                accept_clock=accept_clock,
                progress=report,
                **more,
            ) as store,
        ):
            yield store

    @contextmanager
    def reader(self) -> Iterator[ReadOnlyStore]:
        """The store, for one command that only reads."""
        with self.open(read_only=True) as store:
            if not isinstance(store, ReadOnlyStore):
                raise TypeError(f"{store!r} was opened to be read only")
            yield store

    @contextmanager
    def open_all(self, *, accept_clock: bool = False) -> Iterator[tuple[kvwal.Store, int]]:
        """The store with every business open, and how many those are; `ConfigError` if there is none."""
        self.logs()
        with self.open(accept_clock=accept_clock) as store:
            names = store.businesses()
            for business in names:
                store.map(business)
            yield store, len(names)

    def check_archived(self, store: kvwal.Store) -> None:
        """`ArchiveError` if an archive was named, and the closed store could not bring its tail there."""
        if self.archive in (None, "none"):
            return
        for business, found in store.stats()["businesses"].items():
            if found["archive_error"]:
                raise ArchiveError(
                    f"{business}: it is written, and durable in {self.root}, but not archived: {found['archive_error']}",
                    hint="Run `kvwal archive run` once the archive answers.",
                )

    def objects(self) -> Objects | None:
        """The archive that is meant; None for 'none', and where the default one was not begun."""
        return archive_of(str(self.root), self.archive)

    def namespaces(self, business: str) -> list[str]:
        """The namespace, or, for '*', every one under the root that has this business."""
        if self.namespace != ALL:
            return [self.namespace]
        found = sorted({place.namespace for place in self.places(business)})
        if not found:
            raise ConfigError(f"{self.root}: no namespace has a business {business!r}.", hint=LOOK)
        return found

    def places(self, business: str | None = None) -> list[Place]:
        """Every log under the root that is meant."""
        namespace = None if self.namespace == ALL else self.namespace
        found = find_places(OS_DISK, self.root, namespace, self.cluster, business)
        return [place for place in found if self.node in (None, place.node)]

    def logs(self, business: str | None = None) -> list[Place]:
        """The same; `ConfigError` if there is none: a wrong name must not look like a store in which all is well."""
        found = self.places(business)
        if not found:
            meant = "/".join(filter(None, (self.namespace, self.cluster, business)))
            of_node = f" on node {self.node}" if self.node else ""
            raise ConfigError(f"{self.root} holds no log of {meant}{of_node}.", hint=LOOK)
        return found


def archive_of(root: str, option: str | None) -> Objects | None:
    """The archive that is meant: what `--archive` says, else the folder _archive of a root. None for 'none', and where there is
    no such folder.
    """
    if option is not None:
        return None if option == "none" else open_objects(option)
    default = Path(root) / ARCHIVE_FOLDER
    return open_objects(str(default)) if "://" not in root and default.is_dir() else None


@contextmanager
def scrub_notes(file: Path | None, subject: str) -> Iterator[Notes]:
    """The notes of a scrub of `subject`: in `file`, with a word on what an earlier run left there, or of this run only."""
    if file is None:
        yield NotesInMemory()
        return
    with notes_file(OS_DISK, file, subject) as notes:
        if notes.resumed:
            show.note(f"{file}: {notes.resumed:,} files were read before the interruption; going on.")
        yield notes
