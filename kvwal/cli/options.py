"""Arguments and options that several commands share, the bundles of them, and the stores and archives that they select.

The fields of a bundle are parameters of the command: see `kvwal.cli.bundles`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import kvwal
from archive.layout import Place
from archive.objects import Objects, open_objects
from archive.verify import Notes
from kvwal.cli import show
from kvwal.cli.text import parse_key
from kvwal.config import MOST_SECONDS, is_seconds
from kvwal.errors import ArchiveError, ConfigError
from kvwal.log.files.names import find_places
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.progress import NotesInMemory, notes_file
from kvwal.store.options import ARCHIVE_FOLDER, archive_argument

ALL = "*"
"""The value of --namespace and --cluster that selects all of them."""
_LOOK = "See what is there with `kvwal doctor`."


def complete_business(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of BUSINESS for the shell: the businesses under the folder that was typed."""
    root = context.params.get("root") or context.params.get("location")
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
KeyClass = Annotated[str, typer.Option(help="The class of KEY: str, int, float, bool, bytes or none.")]
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
        help="Note in FILE which files are sound; the same command, run again after an interruption, skips them.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def check_number(option: typer.CallbackParam, value: float) -> float:
    """Raise `ConfigError` unless the number of an option is 0 or more, and finite."""
    if not 0 <= value <= MOST_SECONDS:
        raise ConfigError(f"--{option.name} {value:g} must be 0 or more, and finite.")
    return value


def check_time(option: typer.CallbackParam, value: float) -> float:
    """Raise `ConfigError` unless the seconds of an option are above 0 and finite."""
    if not is_seconds(value):
        raise ConfigError(f"--{option.name} {value:g} must be a number of seconds, above 0 and finite.")
    return value


@dataclass(frozen=True)
class EntryKey:
    """Bundle: the key of one entry."""

    business: Business
    key: Key
    key_class: KeyClass = "str"

    def decoded(self) -> Any:
        """The key as a program gives it to the map."""
        return parse_key(self.key, self.key_class)


@dataclass(frozen=True)
class LogSelection:
    """Bundle: the root of a store, and which of its logs. `archive` None: the default archive; 'none': no archive."""

    root: Root
    namespace: Namespace = "default"
    cluster: Cluster = "local"
    node: Node = None
    archive: Archive = None

    @contextmanager
    def open(self, *, read_only: bool = False, accept_clock: bool = False) -> Iterator[kvwal.Store]:
        """Open the store for one command, with a progress bar while logs are recovered."""
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
                archive=archive_argument(self.archive),
            ) as store,
        ):
            yield store

    def check_archived(self, store: kvwal.Store) -> None:
        """Raise `ArchiveError` if an archive was named and the closed store could not archive the tail of its logs."""
        if self.archive in (None, "none"):
            return
        for business, stats in store.stats()["businesses"].items():
            if stats["archive_error"]:
                raise ArchiveError(
                    f"{business}: it is written, and durable in {self.root}, but not archived: {stats['archive_error']}",
                    hint="Run `kvwal archive run` once the archive answers.",
                )

    def objects(self) -> Objects | None:
        """The selected archive; None for 'none', and if the default archive does not exist yet."""
        return archive_of(str(self.root), self.archive)

    def namespaces(self, business: str) -> list[str]:
        """The selected namespace; for '*', every namespace under the root that has this business."""
        if self.namespace != ALL:
            return [self.namespace]
        namespaces = sorted({place.namespace for place in self.places(business)})
        if not namespaces:
            raise ConfigError(f"{self.root}: no namespace has a business {business!r}.", hint=_LOOK)
        return namespaces

    def places(self, business: str | None = None) -> list[Place]:
        """The selected logs under the root; may be none."""
        namespace = None if self.namespace == ALL else self.namespace
        places = find_places(OS_DISK, self.root, namespace, self.cluster, business)
        return [place for place in places if self.node in (None, place.node)]

    def logs(self, business: str | None = None) -> list[Place]:
        """The selected logs under the root. Raises `ConfigError` if there is none: after a mistyped name a command must not
        report that all is well.
        """
        places = self.places(business)
        if not places:
            selected = "/".join(filter(None, (self.namespace, self.cluster, business)))
            of_node = f" on node {self.node}" if self.node else ""
            raise ConfigError(f"{self.root} holds no log of {selected}{of_node}.", hint=_LOOK)
        return places


@dataclass(frozen=True)
class WideLogSelection(LogSelection):
    """Bundle: a selection of logs in one namespace or in all of them."""

    namespace: AnyNamespace = "default"


def archive_of(root: str, option: str | None) -> Objects | None:
    """The archive that `--archive` names, else the folder _archive of the root. None for 'none', and if that folder does not
    exist.
    """
    if option is not None:
        return None if option == "none" else open_objects(option)
    default = Path(root) / ARCHIVE_FOLDER
    return open_objects(str(default)) if "://" not in root and default.is_dir() else None


@contextmanager
def scrub_notes(file: Path | None, subject: str) -> Iterator[Notes]:
    """Open the notes of a scrub of `subject` in `file`, and say on stderr what an interrupted run left there.

    Without a file, the notes are in memory and end with the command.
    """
    if file is None:
        yield NotesInMemory()
        return
    with notes_file(OS_DISK, file, subject) as notes:
        if notes.resumed:
            show.note(f"{file}: {notes.resumed:,} files were read before the interruption; going on.")
        yield notes
