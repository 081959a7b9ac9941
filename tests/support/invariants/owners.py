"""The owner of each file of a store: a file without an owner stays for ever, and a month of them fills a disk.

In the folder of a log: its segments, and the overflow files that they name; the parts of its snapshot; its claim files and its
files of events; its lock; the note of the jobs that fail; a torn file, which is kept for people; and the unfinished file of a
living process. A killed process leaves unfinished files: their owner is the next opening, so they count only after a clean close.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path

from kvwal.cluster.membership import FOLDER as MEMBERS
from kvwal.content.folder import claim_files
from kvwal.history.provenance.files import aside_files, event_files
from kvwal.history.restore.restore import STAGE
from kvwal.log.files.chain import snapshot_parts
from kvwal.log.files.names import (
    CONTENT_FOLDER,
    EVENT_FILES,
    OVERFLOW,
    RETIRED,
    SCRATCH_MARK,
    FileKind,
    LogFile,
    is_scratch,
    parse_name,
)
from kvwal.log.reader import SegmentReader, log_files
from kvwal.node.requests.log_copies import FOLDER as COPY
from kvwal.ports.disk import Disk
from kvwal.scrub.repair import STAGE as SAVING
from kvwal.spark.recording.spool import FOLDER as SPOOLS
from kvwal.spark.sink.staging import FOLDER as STAGING
from kvwal.store.options import ARCHIVE_FOLDER
from kvwal.store.root_nodes.merge import MERGED
from kvwal_archive.layout import (
    parse_base_key,
    parse_claim_file_key,
    parse_events_key,
    parse_lost_tail_key,
    parse_object_key,
    parse_registration_key,
)
from kvwal_archive.objects import Listed

_KEPT = (FileKind.LOCK, FileKind.FAILURES, FileKind.TORN)
_OF_A_ROOT = (ARCHIVE_FOLDER, SPOOLS, STAGING, STAGE, SAVING, COPY)
"""The last three are a restore, a repair or a copy of logs. If it was killed, the next one removes what is there."""


class Ended(Enum):
    """How the last process that wrote to a log ended."""

    CLOSED = "closed, and all its jobs had succeeded"
    BESIDE_ORPHANS = "closed, and an archiver of an earlier process, which was killed, may have worked there meanwhile"
    KILLED = "killed, or closed while a job failed"


def strangers_of_log(disk: Disk, folder: Path, ended: Ended) -> Iterator[str]:
    """The files of a log's folder without an owner."""
    segments, snapshots = log_files(disk, folder)
    parts = snapshot_parts(snapshots) if ended is Ended.CLOSED else snapshots
    owned = {file.name for file in (*segments, *parts)}
    yield from _overflow_strangers(disk, folder, segments, ended)
    yield from _content_strangers(disk, folder, ended)
    yield from _event_strangers(disk, folder, ended)
    for file in map(parse_name, disk.names(folder)):
        if file.name in (OVERFLOW, CONTENT_FOLDER, EVENT_FILES):
            continue
        if file.name not in owned and file.kind not in _KEPT and not _is_unfinished(disk, folder, file, ended):
            yield f"{folder / file.name} has no owner"


def _overflow_strangers(disk: Disk, folder: Path, segments: Sequence[LogFile], ended: Ended) -> Iterator[str]:
    """The overflow files that no block names. What a killed process left there, the next opening collects."""
    if ended is Ended.KILLED:
        return
    named: set[str] = set()
    for file in segments if disk.names(folder / OVERFLOW) else ():
        with disk.view(folder / file.name) as buffer:
            reader = SegmentReader(folder / file.name, buffer)
            while (block := reader.next_block()) is not None:
                reader.advance(block, reader.count_of(block))
            named.update(reference.file for reference in reader.overflows)
    yield from (
        f"{folder / OVERFLOW / name} has no owner" for name in disk.names(folder / OVERFLOW) if name not in named
    )


def _content_strangers(disk: Disk, folder: Path, ended: Ended) -> Iterator[str]:
    """The files in the folder of claim files that are none. What nothing names any more, and what a killed process left
    unfinished, the next checkpoint collects.
    """
    known = {file.path for file in claim_files(disk, folder)}
    for section in disk.names(folder / CONTENT_FOLDER):
        for name in disk.names(folder / CONTENT_FOLDER / section):
            path = folder / CONTENT_FOLDER / section / name
            unfinished = name.endswith(".partial") and (ended is not Ended.CLOSED or disk.is_written(path))
            if path not in known and not unfinished:
                yield f"{path} has no owner"


def _event_strangers(disk: Disk, folder: Path, ended: Ended) -> Iterator[str]:
    """The files of events that do not count. What a killed archiver left there, the next checkpoint deletes."""
    if ended is not Ended.CLOSED:
        return
    owned = {name for file in event_files(disk, folder) for name in (file.events, file.terms)}
    names = disk.names(folder / EVENT_FILES)
    owned |= {file.aside for file in aside_files(names)}
    yield from (f"{folder / EVENT_FILES / name} has no owner" for name in names if name not in owned)


def _is_unfinished(disk: Disk, folder: Path, file: LogFile, ended: Ended) -> bool:
    if file.kind is not FileKind.PARTIAL:
        return False
    path = folder / file.name
    is_of_orphan = ended is Ended.BESIDE_ORPHANS and (is_scratch(file.name) or ".snapshot." in file.name)
    if ended is Ended.KILLED or is_of_orphan:
        return True
    return disk.is_written(path / SCRATCH_MARK if is_scratch(file.name) else path)


def strangers_of_root(disk: Disk, root: Path) -> Iterator[str]:
    """The files of kvwal's own in the root itself without an owner. Other programs may have theirs beside them."""
    yield from (f"{root / name} has no owner" for name in disk.names(root) if name[0] == "_" and name not in _OF_A_ROOT)


def strangers_of_cluster(disk: Disk, folder: Path) -> Iterator[str]:
    """The files of the folder `<root>/<namespace>/<cluster>` without an owner, also after a kill."""
    for business in disk.names(folder):
        if business == RETIRED:
            for node in disk.names(folder / RETIRED):
                yield from _without(disk, folder / RETIRED / node, (".snapshot", ".snapshot.partial", ".gone"))
        elif business == MEMBERS:
            yield from _without(disk, folder / MEMBERS, (".json", ".json.partial"))
        elif disk.is_folder(folder / business):
            yield from _strangers_of_business(disk, folder / business)
        else:
            yield f"{folder / business} has no owner"


def _without(disk: Disk, folder: Path, endings: tuple[str, ...]) -> Iterator[str]:
    yield from (f"{folder / name} has no owner" for name in disk.names(folder) if not name.endswith(endings))


def _strangers_of_business(disk: Disk, folder: Path) -> Iterator[str]:
    for node in disk.names(folder):
        if not disk.is_folder(folder / node):
            yield f"{folder / node} has no owner"
        elif node != MERGED:  # what a merge that was killed left there, the next one removes
            yield from strangers_of_log(disk, folder / node, Ended.KILLED)


def strangers_of_archive(listed: Sequence[Listed]) -> Iterator[str]:
    """The objects of an archive without an owner: objects of a log that is not registered, and names that are no object's."""
    keys = [item.key for item in listed]
    registered = {parsed[0] for key in keys if (parsed := parse_registration_key(key))}
    businesses = {place[:3] for place in registered}
    for key in keys:
        if (part := parse_object_key(key)) is not None:
            if part[0] not in registered:
                yield f"the object {key} is of a log that the archive does not know"
        elif (events := parse_events_key(key)) is not None:
            if events.place not in registered:
                yield f"the object {key} is of a log that the archive does not know"
        elif (base := parse_base_key(key)) is not None:
            if base[0][:3] not in businesses:
                yield f"{key} is of a business that the archive does not know"
        elif (claim_file := parse_claim_file_key(key)) is not None:
            if claim_file[:3] not in businesses:
                yield f"{key} is of a business that the archive does not know"
        elif parse_registration_key(key) is None and parse_lost_tail_key(key) is None:
            yield f"{key} has no owner"
