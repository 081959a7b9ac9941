"""kvwal doctor: what is there, what is wrong with it, and what to do about it. It changes nothing, and reads little.

Of large files only header and seal are looked at, and of the archive only names: `log verify` and `archive verify` read them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import typer

from archive.layout import Place
from archive.objects import Objects, open_objects
from kvwal.cli import show
from kvwal.cli.machine import check_disk, check_owners, lock_holder, survey
from kvwal.cli.options import ALL, AnyCluster, AnyNamespace, Archive, Json, Node, Root, Where
from kvwal.errors import ArchiveError, ConfigError
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.diagnose import NOTE, PROBLEM, Finding, Seen, check_archived, check_log
from kvwal.scrub.inspect import examine
from kvwal.scrub.units import size
from kvwal.store.options import ARCHIVE_FOLDER

FOUND = 1
"""Exit code when something needs a person."""
LOOKS = 5
GLANCE_ABOVE = 1 << 20
"""Bytes of a file that is read whole."""


def doctor(
    root: Root,
    namespace: AnyNamespace = ALL,
    cluster: AnyCluster = ALL,
    node: Node = None,
    archive: Archive = None,
    json: Json = False,
) -> None:
    """Look at everything under ROOT, whoever holds it, and say what needs doing. Exit code 1 if something does."""
    check_root(root)
    seen, found = look(root, namespace, cluster, node)
    if not seen and (namespace, cluster, node) != (ALL, ALL, None):
        raise ConfigError(f"{root} holds no log of {namespace}/{cluster}.", hint="Leave out --namespace and --cluster.")
    found = [*check_disk(root), *found, *check_archive(Where(root, archive=archive), seen)]
    show.rows(["level", "about", "found", "what to do"], found, show.Format.json if json else show.Format.table)
    if any(finding.level == PROBLEM for finding in found):
        raise typer.Exit(FOUND)


def check_root(root: Path) -> None:
    """`ConfigError` unless there is a folder to look at."""
    try:
        if root.is_dir():
            return
        what = "is a file, and a root is a folder" if root.exists() else "is not there"
    except OSError as error:
        what = f"cannot be reached ({error.strerror})"
    raise ConfigError(f"{root} {what}.", hint="Name the folder that was given to kvwal.open or kvwal put.")


def look(root: Path, namespace: str, cluster: str, node: str | None) -> tuple[list[Seen], list[Finding]]:
    """The logs that are meant, and what is to be said of them and of the way to them."""
    surveyed = survey(root)
    found, seen = list(surveyed.findings), []
    if not surveyed.places and not found:
        found.append(Finding(NOTE, str(root), "it holds no log: nothing was ever written here."))
    wanted = [
        place
        for place in surveyed.places
        if namespace in (ALL, place.namespace) and cluster in (ALL, place.cluster) and node in (None, place.node)
    ]
    with show.progress() as report:
        for place in wanted:
            folder = log_folder(root, place)
            try:
                one = look_at(root, place, report)
                seen.append(one)
                found += [*check_log(one), *check_owners(one.about, folder)]
            except OSError as error:
                todo = "Run doctor as the user that runs the store, or mend owner, mode or disk."
                found.append(
                    Finding(PROBLEM, "/".join(place), f"{folder}: it cannot be read ({error.strerror}).", todo)
                )
    return seen, [*found, *glanced(seen)]


def look_at(root: Path, place: Place, report: show.Report) -> Seen:
    """One log, without touching it."""
    folder = log_folder(root, place)
    names = OS_DISK.names(folder)
    files = examine(OS_DISK, root, place, report, glance_above=GLANCE_ABOVE)
    return Seen(place, files, names, lock_holder(root, folder), time.time_ns() // 1_000_000)


def glanced(seen: list[Seen]) -> Iterator[Finding]:
    """A word on what was not read."""
    files = [file for one in seen for file in one.files if file.glanced]
    if files:
        total = size(sum(file.bytes for file in files))
        text = f"of {len(files):,} large files, {total}, only header and seal were looked at."
        yield Finding(NOTE, "files", text, "kvwal log verify reads them whole.")


def check_archive(where: Where, seen: list[Seen]) -> Iterator[Finding]:
    """Whether the archive answers, whose names are in it, and how far it is behind."""
    if where.archive == "none":
        text = "there is none: the log is the only copy, and checkpoints end its history."
        yield Finding(NOTE, "archive", text)
        return
    url = where.archive or str(where.root / ARCHIVE_FOLDER)
    if where.archive is None:
        text = f"it is the folder {url}, and does not survive this disk."
        yield Finding(
            NOTE, "archive", text, "Give the store's own, if it has another: --archive URL. Or move it there."
        )
    try:
        objects = open_objects(url)
        for one in seen:
            yield from archived(where.root, objects, one)
    except ArchiveError as error:
        yield Finding(PROBLEM, "archive", error.what, error.hint)


def archived(root: Path, objects: Objects, seen: Seen) -> list[Finding]:
    """A log beside its archive. One that is at work is looked at again as long as its files change under a problem."""
    folder = log_folder(root, seen.place)
    for _ in range(LOOKS):
        found = list(check_archived(OS_DISK, folder, objects, seen))
        if not any(finding.level == PROBLEM for finding in found) or OS_DISK.names(folder) == seen.names:
            break
        seen = look_at(root, seen.place, lambda done, total, what: None)
    return found
