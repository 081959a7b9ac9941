"""The files of events of a log: a checkpoint writes those of the segments that it is about to cover, and leaves them out of the
snapshot.

The events of a range of the log are in one file, whose name is the range, and the terms of these events in another one, which is
written first. So a checkpoint that was killed can be run again: the ranges that have a file are passed over, and no event is
lost, or there twice. Adjacent files are merged into larger ones; a file whose range is within that of another one is superfluous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvwal.entry import TIMESTAMP_SHIFT, Decode, Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.history.provenance.files import OpenEventFile, aside_files, event_files, whole_files
from kvwal.history.provenance.tables import joined, tables_of, to_parquet
from kvwal.history.provenance.terms import encoded_terms
from kvwal.history.provenance.unreadable import UNREADABLE, sorted_out
from kvwal.key_class import EVENTS
from kvwal.log.files.atomic_file import atomic_file, delete_abandoned
from kvwal.log.files.names import EVENT_FILES, EventFile, parse_event_file
from kvwal.log.files.segment import SealedSegment
from kvwal.log.overflow.read import sealed_blocks
from kvwal.log.reader import log_files
from kvwal.ports.clock import Clock
from kvwal.ports.disk import Disk
from kvwal.ports.logger import get_logger
from kvwal.structures.provenance.event import events_of
from kvwal.structures.provenance.state import ProvenanceOptions

if TYPE_CHECKING:
    import pyarrow as pa

ROUND_BYTES = 32 << 20
"""Bytes of segments whose events are in memory at a time."""
MERGED_EVENTS = 1 << 18
"""About the most events of a merged file, which are all in memory while it is made."""
MERGED_FILES = 4
"""The number of small files, one after the other, that are merged into one."""


def write_events(disk: Disk, clock: Clock, folder: Path, segments: Sequence[SealedSegment], decode: Decode) -> None:
    """Write the events of these sealed segments, which are in order, to files of events in the folder of the log.

    Segments before the end of the last file of events, or of the snapshot, are passed over. Raises `CorruptLog` and `OSError`.
    """
    covered = max([file.last for file in event_files(disk, folder)], default=0)
    snapshots = log_files(disk, folder)[1]
    covered = max(covered, snapshots[-1].number if snapshots else 0)
    batch: list[SealedSegment] = []
    for segment in segments:
        if segment.last <= covered:
            continue
        if batch and sum(each.size for each in batch) + segment.size > ROUND_BYTES:
            _write_range(disk, clock, folder, batch, decode)
            batch = []
        batch.append(segment)
    if batch:
        _write_range(disk, clock, folder, batch, decode)


def _write_range(disk: Disk, clock: Clock, folder: Path, segments: Sequence[SealedSegment], decode: Decode) -> None:
    file = EventFile(segments[0].first, segments[-1].last)
    try:
        tables = tables_of(event for entry in _entries(disk, segments, decode) for event in events_of(entry))
    except UNREADABLE:
        readable, aside = sorted_out(_entries(disk, segments, decode))
        if aside:  # before the others: an entry is somewhere, whenever this is killed
            _write_aside(disk, clock, folder, file, aside)
        tables = tables_of(event for entry in readable for event in events_of(entry))
    if tables[0].num_rows:
        _write_file(disk, clock, folder, file, *tables)


def _write_aside(disk: Disk, clock: Clock, folder: Path, file: EventFile, entries: list[Entry]) -> None:
    """Write the entries that cannot be decoded to a file of their own, as they are."""
    path = folder / EVENT_FILES / file.aside
    disk.make_folders(path.parent)
    with atomic_file(disk, path, tag=f"{clock.random_bits(64):016x}") as written:
        written.write_at(0, [encode_entries(entries)])
    get_logger(__name__).warning(
        "events of provenance cannot be decoded and were set aside; kvwal doctor lists the file", path=str(path),
        entries=len(entries), timestamp=str(entries[0].timestamp), key=entries[0].key.hex(),
    )  # fmt: skip


def _entries(disk: Disk, segments: Sequence[SealedSegment], decode: Decode) -> Iterator[Entry]:
    for segment in segments:
        for _, entries in sealed_blocks(disk, segment, decode):
            yield from (entry for entry in entries if entry.key_class == EVENTS)


def _write_file(disk: Disk, clock: Clock, folder: Path, file: EventFile, events: pa.Table, terms: pa.Table) -> None:
    """Write the two files of a range. It counts as written when the file with the events has its name.

    An archiver that outlived its killed parent may write the same files: each has partial files of its own.
    """
    target = folder / EVENT_FILES
    disk.make_folders(target)
    tag = f"{clock.random_bits(64):016x}"
    parts = ((file.terms, list(encoded_terms(terms, events.column("timestamp")))), (file.events, [to_parquet(events)]))
    for name, data in parts:
        with atomic_file(disk, target / name, tag=tag) as written:
            written.write_at(0, data)


def tidy_events(disk: Disk, clock: Clock, folder: Path, options: ProvenanceOptions) -> None:
    """Drop the files of events that are too old or too many, merge small ones, and delete what a killed process left.

    A damaged file stays as it is.
    """
    target = folder / EVENT_FILES
    if not disk.exists(target):
        return
    delete_abandoned(disk, target)
    _delete_superfluous(disk, target)
    _drop(disk, folder, options, clock.wall_ms())
    _merge(disk, clock, folder)


def _delete_superfluous(disk: Disk, target: Path) -> None:
    """Delete files whose range is within that of another one, and terms without events."""
    names = disk.names(target)
    kept = whole_files(names)
    asides = aside_files(names)
    for name in names:
        file = parse_event_file(name)
        if file is not None and file not in (asides if name == file.aside else kept):
            disk.unlink(target / name)


def _drop(disk: Disk, folder: Path, options: ProvenanceOptions, now_ms: int) -> None:
    target = folder / EVENT_FILES
    files = event_files(disk, folder)
    sizes = {file: sum(disk.size(path) for path in _paths(disk, target, file)) for file in files}
    left = sum(sizes.values())
    for file in files:
        if not (_is_old(disk, folder, file, options, now_ms) or 0 < (options.keep_bytes or left) < left):
            return
        for path in _paths(disk, target, file):
            disk.unlink(path)
        left -= sizes[file]


def _paths(disk: Disk, target: Path, file: EventFile) -> list[Path]:
    """The files of a range that are there, that of the events first: without it the others do not count."""
    return [path for name in file.all_names if disk.exists(path := target / name)]


def _is_old(disk: Disk, folder: Path, file: EventFile, options: ProvenanceOptions, now_ms: int) -> bool:
    if options.keep_seconds is None:
        return False
    try:
        last = OpenEventFile(disk, folder, file).last_timestamp
    except CorruptLog:
        return False
    return last >> TIMESTAMP_SHIFT < now_ms - options.keep_seconds * 1000


def _merge(disk: Disk, clock: Clock, folder: Path) -> None:
    """Merge neighbours while there are `MERGED_FILES` of them that have few events together."""
    run: list[OpenEventFile] = []
    for file in event_files(disk, folder):
        try:
            opened = OpenEventFile(disk, folder, file)
        except CorruptLog:
            run = []
            continue
        if sum(each.count for each in run) + opened.count > MERGED_EVENTS:
            run = []
        run.append(opened)
        if len(run) == MERGED_FILES and _merged(disk, clock, folder, run):
            _merge(disk, clock, folder)
            return


def _merged(disk: Disk, clock: Clock, folder: Path, run: Sequence[OpenEventFile]) -> bool:
    """Merge these files. False if one of them is damaged."""
    try:
        tables = joined([each.tables() for each in run])
    except CorruptLog:
        return False
    _write_file(disk, clock, folder, EventFile(run[0].file.first, run[-1].file.last), *tables)
    for each in run:  # after a power cut they may be there again, within the range of the new file
        for path in _paths(disk, folder / EVENT_FILES, each.file):
            disk.unlink(path)
    return True
