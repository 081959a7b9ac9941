"""Commands on the files of logs: log dump, log verify, log repair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from kvwal.cli import show
from kvwal.cli.options import (
    Json,
    LogSelection,
    Resume,
    WideLogSelection,
    complete_business,
    path_parser,
    scrub_notes,
)
from kvwal.cli.survey import lock_holder
from kvwal.cli.text import as_json, key_label, label
from kvwal.errors import ArchiveError, ConfigError, StoreLocked
from kvwal.history.restore.restore import RestorePorts
from kvwal.hlc import to_text
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.reader import entry_decoder
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.beside.contents import check_contents
from kvwal.scrub.compare_archive import verify_log
from kvwal.scrub.inspect import Inspection, dump
from kvwal.scrub.repair import DamagedLog, check_one_cluster, look, repair
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects
from kvwal_archive.reader import covered

OneBusiness = Annotated[
    str | None,
    typer.Argument(
        metavar="[MAP]", help="Only the log of this map.", show_default=False, autocompletion=complete_business
    ),
]


def log_dump(selection: WideLogSelection, business: OneBusiness = None, json: Json = False) -> None:
    """Print every entry of the log's segments, in the order of writing."""
    for place in selection.logs(business):
        for file, sequence, entry in dump(OS_DISK, selection.root, place):
            if json:
                position = {"business": place.business, "node": place.node, "file": file, "sequence": sequence}
                show.json_line(position | as_json(entry.public()))
                continue
            change = "delete" if entry.deleted else label(entry.value, entry.value_class)
            key = key_label(entry.key, entry.key_class)
            show.say(f"{place.business}/{place.node} {sequence} {to_text(entry.timestamp)} {key} {change}")


def log_verify(
    selection: WideLogSelection,
    business: OneBusiness = None,
    resume: Resume = None,
    json: Json = False,
) -> None:
    """Read and check every segment and snapshot and the bytes of contents, and look in the archive for segments that were deleted
    here. Changes nothing; exit code 4 if anything is damaged or missing.
    """
    places = selection.logs(business)
    objects = selection.objects()
    files: list[tuple[Place, Inspection]] = []
    silent: ArchiveError | None = None
    with show.progress() as report, scrub_notes(resume, f"the logs under {selection.root.absolute()}") as notes:
        for place in places:
            verified = verify_log(OS_DISK, selection.root, place, objects if silent is None else None, report, notes)
            files += [(place, file) for file in verified.files]
            silent = silent or verified.silent
            if not any(file.problem for file in verified.files):
                archive = objects if silent is None else None
                found = check_contents(OS_DISK, selection.root, place, SYSTEM.wall_ms(), archive, whole=True)
                files += [(place, file) for file in found]
    names = ["business", "node", "file", "first", "last", "entries", "bytes", "state", "problem"]
    lines = [(place.business, place.node, *described(file)) for place, file in files]
    show.table_or_json(names, lines, json)
    if any(file.problem for _, file in files):
        raise typer.Exit(show.DAMAGED)
    if silent is not None:
        raise silent


def described(file: Inspection) -> tuple[str, int, int, int, int, str, str]:
    """The columns of one file."""
    return file.name, file.first, file.last, file.entries, file.bytes, file.state, file.problem


def log_repair(
    selection: WideLogSelection,
    business: OneBusiness = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="A new root for the saved entries.", parser=path_parser("folder of --into")
        ),
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Go on in the archive, and fence the damaged log there.")
    ] = False,
    json: Json = False,
) -> None:
    """Print how much of a damaged log can be saved, and what is lost; write the saved entries to a new root. The damaged log
    is never changed. Exit code 4 if anything is lost.
    """
    places = selection.logs(business)
    _check_repair(selection, places, into, take_over)
    objects = selection.objects()
    damaged, sound = _verify(selection, places, objects)
    counts = []
    if into is not None and damaged:
        with show.progress() as report:
            ports = RestorePorts(OS_DISK, SYSTEM)
            counts = repair(ports, into, damaged, objects, take_over=take_over, progress=report)
    lines: list[tuple[str, str, str, int | None, int | None, str]] = [
        (
            log.place.business, log.place.node, "repaired" if counts else "damaged",
            counts[number] if counts else len(log.saved.entries) + len(log.saved.snapshot),
            covered(log.archived.infos).last, " ".join(log.lost),
        )
        for number, log in enumerate(damaged)
    ]  # fmt: skip
    lines += [(place.business, place.node, "sound", None, None, "") for place in sound]
    names = ["business", "node", "state", "entries saved", "archived up to", "lost"]
    lines.sort(key=lambda line: (line[0], line[1], line[2]))
    show.table_or_json(names, lines, json)
    if not json:
        for line in _next_steps(selection, damaged, into, take_over):
            show.say(line)
    if any(log.lost for log in damaged):
        raise typer.Exit(show.DAMAGED)


def _check_repair(selection: LogSelection, places: list[Place], into: Path | None, take_over: bool) -> None:
    """Refuse a call that cannot work, or that would copy a log while a process writes it."""
    if into is None and take_over:
        raise ConfigError("--take-over needs --into FOLDER: nothing was changed.", hint="Name a new folder.")
    if into is not None:
        check_one_cluster(places)
    if into is not None and find_places(OS_DISK, into):
        raise ConfigError(f"{into} holds a store already; nothing was written.", hint="Choose a new folder.")
    for place in places if into is not None else ():
        if holder := lock_holder(log_folder(selection.root, place)):
            raise StoreLocked(
                f"{selection.root}: {place.business} is held by {holder}; nothing was written.",
                hint="That process has everything in memory: let it copy the important entries before you stop it.",
            )


def _verify(
    selection: LogSelection, places: list[Place], objects: Objects | None
) -> tuple[list[DamagedLog], list[Place]]:
    """The damaged logs with the entries that can be saved, and the places of the sound logs."""
    damaged, sound = [], []
    with show.progress() as report:
        for place in places:
            verified = verify_log(OS_DISK, selection.root, place, objects, report)
            if verified.silent is not None:
                raise verified.silent
            if verified.needs_repair:
                damaged.append(look(RestorePorts(OS_DISK, SYSTEM), selection.root, place, objects, entry_decoder()))
            else:
                sound.append(place)
    return damaged, sound


def _next_steps(
    selection: LogSelection, damaged: list[DamagedLog], into: Path | None, take_over: bool
) -> Iterator[str]:
    """Sentences that tell the user what was written and what to do next."""
    if not damaged:
        yield "Nothing is damaged here, and nothing was written."
    elif into is None:
        yield "Nothing was written. --into FOLDER writes what can be saved to a new root."
        if any(not log.archived.refusal for log in damaged):
            yield "With --take-over it goes on in the archive under its name, and the damaged log is fenced there."
    else:
        for log in damaged:
            old, new = log_folder(selection.root, log.place), log_folder(into, log.place)
            yield f"Next: move {old} away (keep it), and {new} in its place; then open the store."
        if not take_over and any(log.archived.infos for log in damaged):
            yield "It cannot go on in the archive under its name: give it another one, or repair with --take-over."
