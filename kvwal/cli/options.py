"""Arguments and options that several commands share, the bundles of them, and the stores and archives that they select.

The fields of a bundle are parameters of the command: see `kvwal.cli.bundles`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import kvwal
from kvwal.cli import show
from kvwal.cli.text import parse_key
from kvwal.codecs import registry
from kvwal.config import parse_duration
from kvwal.errors import ArchiveError, ConfigError, Kind
from kvwal.location.parse import is_archive
from kvwal.log.files.names import find_places, some
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.progress import NotesInMemory, notes_file
from kvwal.store.absent import no_such_log
from kvwal.store.options import ARCHIVE_FOLDER, archive_argument
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects, typed_path
from kvwal_archive.verify import Notes

ALL = "*"
"""The value of --namespace and --cluster that selects all of them."""
LEAST_DURATION = 1e-6
"""The shortest duration of an option that cannot be 0."""
_UNITS = "Write a number with its unit: 90s, 15m, 1h, 7d."
_PLAIN_NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e[+-]?[0-9]{1,3})?", re.ASCII)


def complete_business(context: typer.Context, incomplete: str) -> list[str]:
    """Completion of MAP for the shell: the maps under the folder that was typed."""
    root = context.params.get("root") or context.params.get("location")
    if root is None:
        return []
    return [
        name
        for name in sorted({place.business for place in find_places(OS_DISK, Path(root), closed=set())})
        if name.startswith(incomplete)
    ]


def path_parser(what: str, kind: str = "folder") -> Callable[[str], Path]:
    """The parser of an argument or option that is a folder or a file: see `kvwal_archive.objects.typed_path`.

    `what` names the argument in a sentence, `kind` is "folder" or "file". typer takes an empty name for the current folder,
    and an address for a folder of that name.
    """

    def path(typed: str) -> Path:
        return typed_path(what, typed, kind)

    return path


def duration_parser(option: str, *, plain: str | None = "s", least: float = 0.0) -> Callable[[str | float], float]:
    """The parser of an option that is a duration: a number with its unit, see `kvwal.config.parse_duration`.

    A plain number has the unit `plain`; with None it is an error. The result, in seconds, is at least `least`.
    """

    def duration(typed: str | float) -> float:
        if isinstance(typed, float):  # the default of the option
            return typed
        is_plain = plain is not None and _PLAIN_NUMBER.fullmatch(typed) is not None
        seconds = parse_duration(f"{float(typed):.6f}{plain}" if is_plain else typed)
        if seconds is None:
            raise ConfigError(f"{option} {typed!r} is no duration.", hint=_UNITS)
        if seconds < least:
            raise ConfigError(f"{option} {typed!r} must be above 0.", hint=_UNITS)
        return seconds

    return duration


def count_parser(option: str, least: int) -> Callable[[str | int], int]:
    """The parser of an option that is a whole number, `least` at the least."""

    def count(typed: str | int) -> int:
        if isinstance(typed, int):  # the default of the option
            return typed
        if not (typed.isascii() and typed.isdecimal()) or int(typed) < least:
            raise ConfigError(f"{option} {typed!r} is no whole number from {least} on.", hint="Write it in digits: 50.")
        return int(typed)

    return count


Root = Annotated[
    Path,
    typer.Argument(metavar="ROOT", help="The folder of the store.", show_default=False, parser=path_parser("root")),
]
Business = Annotated[
    str,
    typer.Argument(
        metavar="MAP",
        help="The map.",
        show_default=False,
        autocompletion=complete_business,
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key, as text (see --key-class).", show_default=False)]
KeyClass = Annotated[
    str,
    typer.Option(help="The class of KEY: str, int, float, bool, bytes, none, datetime, date, decimal, uuid or tuple."),
]
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
        parser=path_parser("file of --resume", "file"),
    ),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="As it was at this time (2025-01-31T12:00:00, UTC unless it has a zone; or a timestamp), or 90m, 24h, 7d ago.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True)
class EntryKey:
    """Bundle: the key of one entry."""

    business: Business
    key: Key
    key_class: KeyClass = "str"

    def decoded(self) -> Any:
        """The key as a program gives it to the map."""
        return parse_key(self.key, self.key_class)

    def identity(self) -> tuple[str, bytes]:
        """Class and bytes of the key, as an entry has them."""
        data, key_class = registry.encode_key(self.decoded())
        return key_class, data


class NotArchived(ArchiveError):
    """What a command wrote is durable, and is not archived. Its kind is that of the error of the archive."""

    def __init__(self, business: str, root: Path, why: str, kind: Kind) -> None:
        then = "once that is mended" if kind is Kind.CALLER else "once the archive answers"
        super().__init__(
            f"{business}: it is written, and durable in {root}, but not archived: {why}",
            hint=f"Run `kvwal archive run` {then}.",
        )
        self.kind = kind


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
        """Raise `NotArchived` if an archive was named and the closed store could not archive the tail of its logs."""
        if self.archive in (None, "none"):
            return
        for business, stats in store.stats()["businesses"].items():
            if stats["archive_error"]:
                raise NotArchived(business, self.root, stats["archive_error"], Kind(stats["archive_error_kind"]))

    def objects(self) -> Objects | None:
        """The selected archive; None for 'none', and if the default archive does not exist yet."""
        return archive_of(str(self.root), self.archive)

    def namespaces(self, business: str) -> list[str]:
        """The selected namespace; for '*', every namespace under the root that has this business."""
        if self.namespace != ALL:
            return [self.namespace]
        namespaces = sorted({place.namespace for place in self.places(business)})
        if not namespaces:
            raise in_no_namespace(str(self.root), business, self.logs(closed=set()))
        return namespaces

    def places(self, business: str | None = None, closed: set[str] | None = None) -> list[Place]:
        """The selected logs under the root; may be none. See `find_places` for `closed`."""
        namespace = None if self.namespace == ALL else self.namespace
        places = find_places(OS_DISK, self.root, namespace, self.cluster, business, closed)
        return [place for place in places if self.node in (None, place.node)]

    def logs(self, business: str | None = None, closed: set[str] | None = None) -> list[Place]:
        """The selected logs under the root. Raises `ConfigError` if there is none: after a mistyped name a command must not
        report that all is well.
        """
        if is_archive(OS_DISK, self.root):
            raise ConfigError(f"{self.root} is an archive, and no store.", hint="Name the folder of the store.")
        places = self.places(business, closed)
        if not places and closed:
            raise ConfigError(
                f"{self.root}: not allowed to look into the folder of {some(sorted(closed))}.",
                hint="Run it as the user of the store, or mend owner and mode.",
            )
        if not places:
            namespace = None if self.namespace == ALL else self.namespace
            raise no_such_log(
                OS_DISK, self.root, namespace=namespace, cluster=self.cluster, business=business, node=self.node
            )
        return places


@dataclass(frozen=True)
class WideLogSelection(LogSelection):
    """Bundle: a selection of logs in one namespace or in all of them."""

    namespace: AnyNamespace = "default"


def in_no_namespace(where: str, business: str, places: Sequence[Place]) -> ConfigError:
    """The error of a map that no namespace has. The places are those of all namespaces."""
    there = some(sorted({place.business for place in places}), business)
    return ConfigError(
        f"{where}: no namespace has a map {business!r} (there are: {there}).", hint="Check the name and --cluster."
    )


def archive_of(root: str, option: str | None) -> Objects | None:
    """The archive that `--archive` names, else the folder _archive of the root. None for 'none', and if that folder does not
    exist.
    """
    if option is not None:
        return None if option == "none" else open_objects(option)
    if "://" in root:
        return None
    default = typed_path("root", root) / ARCHIVE_FOLDER
    return open_objects(str(default)) if default.is_dir() else None


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
