"""kvwal doctor: what is there, what is wrong with it, and what to do about it. It changes nothing."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

import kvwal
from archive.layout import Place
from archive.objects import Objects, open_objects
from archive.reader import coverage
from archive.registry import owner
from kvwal.cli import show
from kvwal.cli.machine import lock_holder
from kvwal.cli.options import AnyNamespace, Archive, Cluster, Json, Node, Root, Where
from kvwal.errors import ArchiveError, ConfigError
from kvwal.integrity.examine import Found, examine
from kvwal.log.names import LOCK, FileKind, log_folder, parse_name
from kvwal.log.reader import SegmentReader, entry_decoder
from kvwal.ports.disk import OS_DISK

FOUND = 1
"""Exit code when something needs a person."""

LEAST_FREE = 1 << 30
"""Bytes below which a disk counts as nearly full: a large segment, its successor and a snapshot."""


class Finding(NamedTuple):
    """One thing seen: `level` is `ok`, `note`, or `problem`; `about` is a log or the root; `todo` says what to do."""

    level: str
    about: str
    text: str
    todo: str = ""


class Log(NamedTuple):
    """What was read of one log: its files, its id, the time of its newest entry (unix ms) and who holds it."""

    place: Place
    files: list[Found]
    log_id: str
    newest_ms: int
    holder: str


def doctor(
    root: Root,
    namespace: AnyNamespace = "default",
    cluster: Cluster = "local",
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Look at everything under ROOT and say what needs doing. Exit code 1 if something does."""
    where = Where(root, namespace, cluster, node, archive)
    if not root.is_dir():
        raise ConfigError(f"{root} is no folder.", hint="Name the folder that was given to kvwal.open or kvwal put.")
    places = where.places()
    if not places:
        raise ConfigError(
            f"{root} holds no log of {namespace}/{cluster}.", hint="Try --namespace '*', or another --cluster."
        )
    with show.progress() as report:
        logs = [look(root, place, report) for place in places]
    found = [
        *check_disk(root),
        *(finding for log in logs for finding in check_log(root, log)),
        *check_archive(where, logs),
    ]
    form = show.Format.json if json else show.Format.table
    show.rows(["level", "about", "found", "what to do"], found, form)
    if any(finding.level == "problem" for finding in found):
        raise typer.Exit(FOUND)


def look(root: Path, place: Place, report: show.Report) -> Log:
    """Read one log whole, without touching it."""
    files = examine(OS_DISK, root, place, report)
    log_id, newest = newest_entry(log_folder(root, place), [file for file in files if file.entries])
    return Log(place, files, log_id, newest, lock_holder(log_folder(root, place) / LOCK))


def newest_entry(folder: Path, files: list[Found]) -> tuple[str, int]:
    """The log's id and the wall-clock milliseconds of its last entry; ("", 0) for a log without any."""
    if not files or not files[-1].name.endswith(".wal"):
        return "", 0
    buffer = OS_DISK.read(folder / files[-1].name)
    reader = SegmentReader(folder / files[-1].name, buffer)
    newest = max((entries[-1].timestamp for entries in reader.entries(entry_decoder())), default=0)
    return reader.header.log_id, newest >> 16


def name_of(place: Place) -> str:
    """A log's name in a finding."""
    return "/".join(place)


def check_disk(root: Path) -> Iterator[Finding]:
    """The space that is left."""
    free = shutil.disk_usage(root).free
    if free < LEAST_FREE:
        yield Finding(
            "problem", str(root), f"only {show.size(free)} are free.", "Free space before writes are refused as full."
        )
    else:
        yield Finding("ok", str(root), f"{show.size(free)} are free.")


def check_log(root: Path, log: Log) -> Iterator[Finding]:
    """One log: who holds it, its files, what a crash left, and its clock."""
    about = name_of(log.place)
    last = max((file.last for file in log.files), default=0)
    total = show.size(sum(file.bytes for file in log.files))
    holder = f"held by {log.holder}" if log.holder else "held by nobody"
    yield Finding("ok", about, f"{last:,} entries were logged; {len(log.files)} files, {total}; {holder}.")
    for file in log.files:
        if file.problem:
            todo = "`kvwal log repair` saves what can be read; `kvwal restore` has what was archived."
            yield Finding("problem", about, f"{file.name}: {file.problem}", todo)
    if log.files and log.files[-1].state in ("open", "torn") and log.files[-1].entries and not log.holder:
        yield Finding("note", about, "it was not closed.", "Nothing: the next open recovers it.")
    yield from check_leftovers(root, log)
    ahead = log.newest_ms / 1000 - time.time()
    if ahead > kvwal.Settings().max_skew_seconds:
        todo = "Mend the clock of this machine, or accept it once with --accept-clock."
        yield Finding("problem", about, f"its last entry lies {ahead:,.0f} s in the future.", todo)


def check_leftovers(root: Path, log: Log) -> Iterator[Finding]:
    """Unfinished files and kept evidence."""
    folder = log_folder(root, log.place)
    kinds = {FileKind.PARTIAL, FileKind.TORN}
    for path in [folder / name for name in OS_DISK.names(folder) if parse_name(name).kind in kinds]:
        if path.name.endswith(".torn"):
            text = f"{path.name} keeps a tail that was cut after a crash ({show.size(path.stat().st_size)})."
            yield Finding("note", name_of(log.place), text, "Delete it once nobody needs to look at it.")
        elif not log.holder:
            yield Finding(
                "note", name_of(log.place), f"{path.name} was not finished.", "Nothing: the next open removes it."
            )


def check_archive(where: Where, logs: list[Log]) -> Iterator[Finding]:
    """Whether the archive answers, whose names are in it, and how far it is behind."""
    if where.archive == "none":
        yield Finding("note", "archive", "there is none: the log is the only copy, and checkpoints end its history.")
        return
    url = where.archive or str(where.root / "_archive")
    if where.archive is None:
        todo = "Move it with --archive URL."
        yield Finding("note", "archive", f"it is the folder {url}, and does not survive this disk.", todo)
    try:
        objects = open_objects(url)
        for log in logs:
            yield from check_archived(objects, log)
    except ArchiveError as error:
        yield Finding("problem", "archive", error.what, error.hint)


def check_archived(objects: Objects, log: Log) -> Iterator[Finding]:
    """How much of one log the archive has."""
    about = name_of(log.place)
    last = max((file.last for file in log.files), default=0)
    registration = owner(objects, log.place)
    if registration is None:
        if last:
            yield Finding("note", about, f"nothing of it is archived yet ({last:,} entries).", "kvwal archive run")
        return
    if log.log_id and registration.range_of(log.log_id) is None:
        todo = "Open this store under another node name, or continue the archived log with kvwal restore --take-over."
        yield Finding("problem", about, "the archive has another log under this name.", todo)
        return
    covered = coverage(objects, log.place, registration.log_id)
    for first, end in covered.gaps:
        yield Finding("problem", about, f"sequences {first} to {end} are not in the archive.", "kvwal archive verify")
    behind = max(0, last - covered.last)
    todo = "" if not behind or log.holder else "kvwal archive run"
    yield Finding(
        "note" if todo else "ok", about, f"archived up to sequence {covered.last:,}; {behind:,} entries behind.", todo
    )
