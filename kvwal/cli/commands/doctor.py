"""kvwal doctor: the findings about a folder or a cluster, and what to do about each. It changes nothing, and reads little.

It reads header and seal of large files, and the names of the archive's objects. `log verify` and `archive verify` read the rest.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection, WholeStoreSelection
from kvwal.cli.options import ALL, Json, LogSelection
from kvwal.cli.survey import check_disk, check_folders, check_owners, lock_holder, survey
from kvwal.errors import ArchiveError, ConfigError, CorruptLog
from kvwal.location.diagnose import diagnose_cluster
from kvwal.location.parse import ClusterLocation
from kvwal.log.files.maintenance_failures import read_failures
from kvwal.log.files.names import log_folder
from kvwal.log.reader import Progress
from kvwal.ports.disk import OS_DISK
from kvwal.scrub.beside.contents import check_contents
from kvwal.scrub.diagnose import NOTE, PROBLEM, Finding, Seen, check_archived, check_log
from kvwal.scrub.event_files import event_faults
from kvwal.scrub.inspect import examine
from kvwal.scrub.next_steps import NextSteps
from kvwal.scrub.units import size
from kvwal.store.absent import check_folder_there, no_such_log
from kvwal.store.options import ARCHIVE_FOLDER
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects

FOUND = 1
"""Exit code when a finding is a problem."""
MAX_CHECKS = 5
"""How often the log of a running store is compared with its archive, while its files change."""
GLANCE_ABOVE = 1 << 20
"""Bytes of the largest file that is read whole."""


def doctor(selection: WholeStoreSelection, json: Json = False) -> None:
    """Examine everything in a folder, even while a process holds it, or a cluster, and say what to do. Exit code 1 if there is a
    problem.
    """
    findings = findings_of(selection)
    show.table_or_json(["level", "about", "found", "what to do"], findings, json)
    if any(finding.level == PROBLEM for finding in findings):
        raise typer.Exit(FOUND)


def findings_of(selection: StoreSelection) -> list[Finding]:
    """The findings about a location. Raises `ConfigError` for an archive."""
    location, logs = selection.parsed(), selection.folder()
    if logs is not None:
        return examined(logs)
    if isinstance(location, ClusterLocation):
        cluster = "local" if selection.cluster == ALL else selection.cluster
        namespace = "default" if selection.namespace == ALL else selection.namespace
        return list(diagnose_cluster(location.addresses, cluster, namespace))
    raise ConfigError(
        f"{selection.location} is an archive, and doctor examines a folder or a cluster.",
        hint="`kvwal archive verify` checks an archive.",
    )


def examined(logs: LogSelection) -> list[Finding]:
    """The findings about a folder, its logs and its archive."""
    check_folder_there(OS_DISK, logs.root)
    seen, findings = look(logs)
    if not seen and (logs.namespace, logs.cluster, logs.node) != (ALL, ALL, None):
        raise no_such_log(
            OS_DISK, logs.root, namespace=_name(logs.namespace), cluster=_name(logs.cluster), node=logs.node
        )
    return [*check_disk(logs.root), *check_folders(logs.root), *findings, *check_archive(logs, seen)]


def _name(selected: str) -> str | None:
    return None if selected == ALL else selected


def look(selection: LogSelection) -> tuple[list[Seen], list[Finding]]:
    """The selected logs, and the findings about them and about the folders on the way to them."""
    root, namespace, cluster, node = selection.root, selection.namespace, selection.cluster, selection.node
    surveyed, steps = survey(root), NextSteps(root, selection.archive)
    findings, seen = list(surveyed.findings), []
    if not surveyed.places and not findings:
        findings.append(Finding(NOTE, str(root), "it holds no log: nothing was ever written here."))
    wanted = [
        place
        for place in surveyed.places
        if namespace in (ALL, place.namespace) and cluster in (ALL, place.cluster) and node in (None, place.node)
    ]
    with show.progress() as report:
        for place in wanted:
            folder = log_folder(root, place)
            try:
                one = look_at(steps, place, report)
                seen.append(one)
                findings += [*check_log(one), *check_owners(one.about, folder)]
            except OSError as error:
                todo = "Run doctor as the user that runs the store, or mend owner, mode or disk."
                findings.append(
                    Finding(PROBLEM, "/".join(place), f"{folder}: it cannot be read ({error.strerror}).", todo)
                )
    return seen, [*findings, *glanced(seen)]


def look_at(steps: NextSteps, place: Place, report: Progress) -> Seen:
    """The state of one log of the folder of `steps`. Nothing is changed."""
    folder = log_folder(steps.root, place)
    names = OS_DISK.names(folder)
    files = examine(OS_DISK, steps.root, place, report, glance_above=GLANCE_ABOVE)
    failures = read_failures(OS_DISK, folder)
    events = list(event_faults(OS_DISK, folder, whole=False))
    return Seen(place, files, names, lock_holder(folder), time.time_ns() // 1_000_000, failures, steps, events)


def glanced(seen: list[Seen]) -> Iterator[Finding]:
    """A note on the files of which only header and seal were read."""
    glanced_at = [one for one in seen if any(file.glanced for file in one.files)]
    files = [file for one in glanced_at for file in one.files if file.glanced]
    if files:
        total = size(sum(file.bytes for file in files))
        text = f"of {len(files):,} large files, {total}, only header and seal were looked at."
        lines = dict.fromkeys(one.typed("log verify") for one in glanced_at)
        yield Finding(NOTE, "files", text, "; ".join(lines))


def check_archive(selection: LogSelection, seen: list[Seen]) -> Iterator[Finding]:
    """Findings about the archive: whether it answers, which names it holds, and how far it lags behind."""
    if selection.archive == "none":
        text = "there is none: the log is the only copy, and checkpoints end its history."
        yield Finding(NOTE, "archive", text)
        for one in seen:
            yield from check_claim_files(None, one)
        return
    url = selection.archive or str(selection.root / ARCHIVE_FOLDER)
    if selection.archive is None:
        text = f"it is the folder {url}, and does not survive this disk."
        line = NextSteps(selection.root).line("doctor", None, "--archive", "URL")
        yield Finding(NOTE, "archive", text, f"If the store has another one: `{line}`. Else move it to another disk.")
    try:
        objects = open_objects(url)
        for one in seen:
            yield from archived(objects, one)
            yield from check_claim_files(objects, one)
    except ArchiveError as error:
        yield Finding(PROBLEM, "archive", error.what, error.hint)


def archived(objects: Objects, seen: Seen) -> list[Finding]:
    """Findings of a log's comparison with its archive. A problem is checked again while a running store changes its files."""
    folder = log_folder(seen.steps.root, seen.place)
    for _ in range(MAX_CHECKS):
        findings = list(check_archived(OS_DISK, folder, objects, seen))
        if not any(finding.level == PROBLEM for finding in findings) or OS_DISK.names(folder) == seen.names:
            break
        seen = look_at(seen.steps, seen.place, lambda done, total, what: None)
    return findings


def check_claim_files(objects: Objects | None, seen: Seen) -> list[Finding]:
    """Findings about the files with the bytes of contents. No byte of them is read: `kvwal log verify` does that.

    A problem is checked again: in a running store a file goes when its content was replaced meanwhile. A log that cannot be read
    has findings of its own.
    """
    findings: list[Finding] = []
    for _ in range(MAX_CHECKS):
        try:
            files = check_contents(OS_DISK, seen.steps.root, seen.place, seen.now_ms, objects, whole=False)
            problems = [file for file in files if file.problem]
        except (CorruptLog, OSError):
            return []
        todo = seen.typed("log verify")
        findings = [Finding(PROBLEM, seen.about, f"{file.name}: {file.problem}", todo) for file in problems]
        if not findings:
            break
    return findings
