"""Commands on the log's own files: log dump, log verify, log repair."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from archive.layout import Place
from kvwal.cli import show
from kvwal.cli.options import (
    AnyNamespace,
    Archive,
    Cluster,
    Json,
    Namespace,
    Node,
    Resume,
    Root,
    Where,
    complete_business,
    scrub_notes,
)
from kvwal.cli.text import as_json, label
from kvwal.errors import ArchiveError, ConfigError
from kvwal.hlc import to_text
from kvwal.integrity.compare import verify_log
from kvwal.integrity.examine import Found, dump
from kvwal.log.names import find_places, log_folder
from kvwal.log.reader import entry_decoder
from kvwal.log.salvage import salvage, write_saved
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK

log_app = typer.Typer(help="Look into the log's own files.", no_args_is_help=True)

OneBusiness = Annotated[
    str | None,
    typer.Argument(
        metavar="[BUSINESS]", help="Only this business.", show_default=False, autocompletion=complete_business
    ),
]


@log_app.command("dump")
def log_dump(
    root: Root,
    business: OneBusiness = None,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Print every entry that is in the log's segments, in the order it was written."""
    for place in Where(root, namespace, cluster, node, archive).places(business):
        for file, sequence, entry in dump(OS_DISK, root, place):
            if json:
                where = {"business": place.business, "node": place.node, "file": file, "sequence": sequence}
                show.json_line(where | as_json(entry.public()))
                continue
            change = "delete" if entry.deleted else label(entry.value, entry.value_class)
            key = label(entry.key, entry.key_class)
            show.say(f"{place.business}/{place.node} {sequence} {to_text(entry.timestamp)} {key} {change}")


@log_app.command("verify")
def log_verify(
    root: Root,
    business: OneBusiness = None,
    resume: Resume = None,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Read every segment and snapshot and check it, and look in the archive for what is not here any more. Changes nothing;
    exit code 4 if anything is damaged or missing.
    """
    where = Where(root, namespace, cluster, node, archive)
    places = where.places(business)
    if not places:
        raise ConfigError(
            f"{root} holds no log of {namespace}/{cluster}.", hint="See what is there with `kvwal doctor`."
        )
    objects = where.objects()
    found: list[tuple[Place, Found]] = []
    silent: ArchiveError | None = None
    with show.progress() as report, scrub_notes(resume, f"the logs under {root.absolute()}") as notes:
        for place in places:
            seen = verify_log(OS_DISK, root, place, objects if silent is None else None, report, notes)
            found += [(place, file) for file in seen.files]
            silent = silent or seen.silent
    names = ["business", "node", "file", "first", "last", "entries", "bytes", "state", "problem"]
    lines = [(place.business, place.node, *described(file)) for place, file in found]
    show.rows(names, lines, show.Format.json if json else show.Format.table)
    if any(file.problem for _, file in found):
        raise typer.Exit(show.DAMAGED)
    if silent is not None:
        raise silent


def described(file: Found) -> tuple[str, int, int, int, int, str, str]:
    """A file's columns."""
    return file.name, file.first, file.last, file.entries, file.bytes, file.state, file.problem


@log_app.command("repair")
def log_repair(
    root: Root,
    business: OneBusiness = None,
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A new root for what can be saved.")] = None,
    namespace: Namespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Say what can be saved of a damaged log, and write that to a new root. The damaged one is never changed."""
    places = Where(root, namespace, cluster, node, archive).places(business)
    if not places:
        raise ConfigError(
            f"{root} holds no log of {namespace}/{cluster}.", hint="See what is there with `kvwal doctor`."
        )
    if into is not None and find_places(OS_DISK, into):
        raise ConfigError(f"{into} holds a store already; nothing was written.", hint="Choose a new folder.")
    lines = []
    for place in places:
        saved = salvage(OS_DISK, log_folder(root, place), entry_decoder())
        if into is not None:
            write_saved(OS_DISK, SYSTEM, into, place, saved)
        lines.append((place.business, place.node, len(saved.entries), " ".join(saved.lost)))
    show.rows(["business", "node", "entries saved", "lost"], lines, show.Format.json if json else show.Format.table)
    if into is None and not json:
        show.say(
            "Nothing was written. --into FOLDER writes what can be saved to a new root; `kvwal restore` has what was archived."
        )
