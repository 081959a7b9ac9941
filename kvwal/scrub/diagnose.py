"""What `kvwal doctor` says of a log: findings, each with what to do next. Pure, but for the reading of one segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from archive.layout import Place
from archive.objects import Objects
from archive.reader import Coverage, list_spans, read_info, unsuperseded
from archive.registry import owner
from kvwal.config import Settings
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveDamaged, KvwalError
from kvwal.hlc import to_text
from kvwal.log.files.names import FileKind, parse_name
from kvwal.log.reader import SegmentReader, entry_decoder
from kvwal.ports.disk import Disk
from kvwal.scrub.compare_archive import BEHIND, forks, gaps, missing, seals_of, whose
from kvwal.scrub.inspect import Inspection, snapshot_of
from kvwal.scrub.units import age, size

OK, NOTE, PROBLEM = "ok", "note", "problem"
LATE_SECONDS = 900
"""An open store that has archived nothing for so long, with something to archive, has a problem; the timer is a minute."""
LONG_BYTES = 512 << 20
"""Log behind the last snapshot that is worth a word: a store makes a checkpoint at half of it."""


class Finding(NamedTuple):
    """One thing seen: `level` is `ok`, `note` or `problem`; `about` is a log, the disk, the archive or the root; `todo` says
    what to do.
    """

    level: str
    about: str
    text: str
    todo: str = ""


class Seen(NamedTuple):
    """What was seen of one log: its files as `examine` found them, the names that stood in its folder before, who holds it, and
    the time.
    """

    place: Place
    files: list[Inspection]
    names: list[str]
    holder: str
    now_ms: int

    @property
    def about(self) -> str:
        """The log's name in a finding."""
        return "/".join(self.place)

    @property
    def last(self) -> int:
        """The last sequence that was logged."""
        return max((file.last for file in self.files), default=0)

    @property
    def log_id(self) -> str:
        """The log's id, as its newest file says it."""
        return next((file.log_id for file in reversed(self.files) if file.log_id), "")


def check_log(seen: Seen) -> Iterator[Finding]:
    """Who holds it, its files, what a crash left, and its clock."""
    newest = max((file.newest for file in seen.files), default=0)
    total = size(sum(file.bytes for file in seen.files))
    written = f", the last one at {to_text(newest)}" if newest else ""
    holder = f"held by {seen.holder}" if seen.holder else "held by nobody"
    text = f"{seen.last:,} entries were logged{written}; {len(seen.files)} files, {total}; {holder}."
    yield Finding(OK, seen.about, text)
    for file in seen.files:
        if file.problem:
            todo = f"kvwal log verify ROOT {seen.place.business}, then kvwal log repair"
            yield Finding(PROBLEM, seen.about, f"{file.name}: {file.problem}", todo)
    yield from _check_end(seen)
    yield from _check_snapshot(seen)
    yield from _check_names(seen)
    ahead = (newest >> TIMESTAMP_SHIFT) / 1000 - seen.now_ms / 1000
    if ahead > Settings().max_skew_seconds:
        todo = "Mend the clock of this machine, or accept it once with --accept-clock."
        yield Finding(PROBLEM, seen.about, f"its last entry lies {ahead:,.0f} s in the future.", todo)


def _check_end(seen: Seen) -> Iterator[Finding]:
    end = seen.files[-1] if seen.files else None
    if end is None or seen.holder or end.state not in ("open", "torn"):
        return
    if end.state == "torn":
        text = f"{end.name} ends with a group that was not finished: the next open cuts it, and keeps it as .torn."
        yield Finding(NOTE, seen.about, text, "Nothing. After `sync`, nobody was told that it was written.")
    elif end.entries:
        yield Finding(NOTE, seen.about, "it was not closed.", "Nothing: the next open recovers it.")


def _check_snapshot(seen: Seen) -> Iterator[Finding]:
    """How much log an open would read, and when the last checkpoint was."""
    snapshot = snapshot_of(seen.files)
    covered = snapshot.last if snapshot else 0
    behind = sum(file.bytes for file in seen.files if not file.is_snapshot and file.last > covered)
    if behind < LONG_BYTES:
        return
    made = f"the snapshot of {to_text(snapshot.created_ms << TIMESTAMP_SHIFT)}" if snapshot else "no snapshot"
    text = f"an open reads {size(behind)} of log behind {made}."
    if seen.holder:
        todo = "See `maintenance` in the store's stats and `maintenance failed` in its log: checkpoints fail."
        yield Finding(PROBLEM, seen.about, text, todo)
    else:
        yield Finding(NOTE, seen.about, text, "kvwal checkpoint ROOT")


def _check_names(seen: Seen) -> Iterator[Finding]:
    """Unfinished files, kept evidence, and what is nobody's."""
    for name in seen.names:
        kind = parse_name(name).kind
        if kind is FileKind.TORN:
            text = f"{name} keeps what was cut or set aside after a crash or damage."
            yield Finding(NOTE, seen.about, text, "Delete it once nobody needs to look at it.")
        elif kind is FileKind.PARTIAL and not seen.holder:
            yield Finding(NOTE, seen.about, f"{name} was not finished.", "Nothing: the next open removes it.")
        elif kind is FileKind.OTHER:
            yield Finding(NOTE, seen.about, f"{name} is no file of kvwal; nothing reads it.", "Move it elsewhere.")


def check_archived(disk: Disk, folder: Path, objects: Objects, seen: Seen) -> Iterator[Finding]:
    """How far the archive is behind a log, and what is in neither, by the names of the objects; and by the seal in the last
    object, whether it is of this log.

    Raises `ArchiveError` if the archive does not answer.
    """
    try:
        registration = owner(objects, seen.place)
    except ArchiveDamaged as error:
        yield Finding(PROBLEM, seen.about, error.what, error.hint)
        return
    if registration is not None and seen.log_id and (stranger := whose(registration, seen.log_id)):
        todo = "Open it under another node name or with another archive; or open the log that took over."
        yield Finding(PROBLEM, seen.about, stranger, todo)
        return
    listed = list_spans(objects, seen.place)
    spans = unsuperseded(listed)
    holes = list(missing([(span.first, span.last) for span in spans], max((s.last for s in spans), default=0)))
    reached = holes[0][0] - 1 if holes else max((span.last for span in spans), default=0)
    for found in gaps(Coverage(reached, spans, holes, 0, 0, 0), seen.files) if spans else ():
        todo = "kvwal log repair --take-over" if found.state == BEHIND else "kvwal archive verify, kvwal log verify"
        yield Finding(PROBLEM, seen.about, f"sequences {found.first} to {found.last}: {found.problem}", todo)
    newest = [read_info(objects, *listed[span]) for span in spans if span.last == reached]
    for found in forks(seals_of(newest, seen.log_id), seen.files):
        todo = "Use one folder only, the one that the archive has. See operations.md, An older copy of a log."
        yield Finding(PROBLEM, seen.about, found.problem, todo)
    yield _lag(disk, folder, seen, reached)


def _lag(disk: Disk, folder: Path, seen: Seen, reached: int) -> Finding:
    behind = max(0, seen.last - reached)
    if not behind:
        return Finding(OK, seen.about, f"all of it is archived, up to sequence {reached:,}.")
    since = timestamp_of(disk, folder, seen.files, reached + 1)
    seconds = max(0, seen.now_ms // 1000 - (since >> TIMESTAMP_SHIFT) // 1000) if since else 0
    oldest = f", the oldest {age(seconds)} old" if since else ""
    text = f"archived up to sequence {reached:,}; {behind:,} entries behind{oldest}."
    if not seen.holder:
        return Finding(NOTE, seen.about, text, "kvwal archive run")
    if seconds > LATE_SECONDS:
        todo = "See `maintenance` and `archive_error` in the store's stats and its log: the archive takes nothing."
        return Finding(PROBLEM, seen.about, text, todo)
    return Finding(OK, seen.about, text)


def timestamp_of(disk: Disk, folder: Path, files: Sequence[Inspection], sequence: int) -> int:
    """The timestamp of an entry that is in a segment here; 0 if it is in none that can be read."""
    holding = next((f for f in files if not f.is_snapshot and f.first <= sequence <= f.last), None)
    if holding is None:
        return 0
    path = folder / holding.name
    try:
        # One that is sealed never changes; the last one may be cut short while it is looked at, and is read.
        with disk.view(path) if holding.state == "sealed" else nullcontext(disk.read(path)) as buffer:
            reader = SegmentReader(path, buffer)
            for entries in reader.entries(entry_decoder()):
                if sequence < reader.next_sequence:
                    return entries[sequence - reader.next_sequence].timestamp
    except (KvwalError, OSError):
        return 0  # gone meanwhile, or damaged: that is said elsewhere
    return 0
