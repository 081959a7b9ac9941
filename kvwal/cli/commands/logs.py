"""Commands on the log's own files: log dump, log verify, log repair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from archive.layout import Place
from archive.objects import Objects
from archive.reader import covered
from kvwal.cli import show
from kvwal.cli.machine import lock_holder
from kvwal.cli.options import (
    AnyNamespace,
    Archive,
    Cluster,
    Json,
    Node,
    Resume,
    Root,
    Where,
    complete_business,
    scrub_notes,
)
from kvwal.cli.text import as_json, label
from kvwal.errors import ArchiveError, ConfigError, StoreLocked
from kvwal.history.restore import RestorePorts
from kvwal.hlc import to_text
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.compare_archive import verify_log
from kvwal.scrub.inspect import Inspection, dump
from kvwal.scrub.repair import DamagedLog, check_one_cluster, look, repair

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
    for place in Where(root, namespace, cluster, node, archive).logs(business):
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
    places = where.logs(business)
    objects = where.objects()
    found: list[tuple[Place, Inspection]] = []
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


def described(file: Inspection) -> tuple[str, int, int, int, int, str, str]:
    """A file's columns."""
    return file.name, file.first, file.last, file.entries, file.bytes, file.state, file.problem


@log_app.command("repair")
def log_repair(
    root: Root,
    business: OneBusiness = None,
    into: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A new root for what can be saved.")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Go on in the archive, and fence the damaged log there.")
    ] = False,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Say what can be saved of a damaged log, and what is lost; write what is saved to a new root. The damaged one is never
    changed. Exit code 4 if something is lost.
    """
    where = Where(root, namespace, cluster, node, archive)
    places = where.logs(business)
    _check_repair(where, places, into, take_over)
    objects = where.objects()
    found, sound = _look(root, places, objects)
    counts = []
    if into is not None and found:
        with show.progress() as report:
            ports = RestorePorts(OS_DISK, SYSTEM)
            counts = repair(ports, into, found, objects, take_over=take_over, progress=report)
    lines: list[tuple[str, str, str, int | None, int | None, str]] = [
        (
            one.place.business, one.place.node, "repaired" if counts else "damaged",
            counts[number] if counts else len(one.saved.entries) + len(one.saved.snapshot),
            covered(one.archived.infos).last, " ".join(one.lost),
        )
        for number, one in enumerate(found)
    ]  # fmt: skip
    lines += [(place.business, place.node, "sound", None, None, "") for place in sound]
    names = ["business", "node", "state", "entries saved", "archived up to", "lost"]
    lines.sort(key=lambda line: (line[0], line[1], line[2]))
    show.rows(names, lines, show.Format.json if json else show.Format.table)
    if not json:
        for line in _what_next(where, found, into, take_over):
            show.say(line)
    if any(one.lost for one in found):
        raise typer.Exit(show.DAMAGED)


def _check_repair(where: Where, places: list[Place], into: Path | None, take_over: bool) -> None:
    """Refuse a call that cannot work, or that would copy a log which somebody is writing."""
    if into is None and take_over:
        raise ConfigError("--take-over needs --into FOLDER: nothing was changed.", hint="Name a new folder.")
    if into is not None:
        check_one_cluster(places)
    if into is not None and find_places(OS_DISK, into):
        raise ConfigError(f"{into} holds a store already; nothing was written.", hint="Choose a new folder.")
    for place in places if into is not None else ():
        if holder := lock_holder(where.root, log_folder(where.root, place)):
            raise StoreLocked(
                f"{where.root}: {place.business} is held by {holder}; nothing was written.",
                hint="That process has everything in memory: let it write what matters elsewhere before you stop it.",
            )


def _look(root: Path, places: list[Place], objects: Objects | None) -> tuple[list[DamagedLog], list[Place]]:
    """What is left of the damaged logs, and which are sound."""
    found, sound = [], []
    with show.progress() as report:
        for place in places:
            verified = verify_log(OS_DISK, root, place, objects, report)
            if verified.silent is not None:
                raise verified.silent
            if verified.needs_repair:
                found.append(look(RestorePorts(OS_DISK, SYSTEM), root, place, objects, entry_decoder()))
            else:
                sound.append(place)
    return found, sound


def _what_next(where: Where, found: list[DamagedLog], into: Path | None, take_over: bool) -> Iterator[str]:
    """What whoever typed the command does now."""
    if not found:
        yield "Nothing is damaged here, and nothing was written."
    elif into is None:
        yield "Nothing was written. --into FOLDER writes what can be saved to a new root."
        if any(not one.archived.refusal for one in found):
            yield "With --take-over it goes on in the archive under its name, and the damaged log is fenced there."
    else:
        for one in found:
            old, new = log_folder(where.root, one.place), log_folder(into, one.place)
            yield f"Next: move {old} away (keep it), and {new} in its place; then open the store."
        if not take_over and any(one.archived.infos for one in found):
            yield "It cannot go on in the archive under its name: give it another one, or repair with --take-over."
