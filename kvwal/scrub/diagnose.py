"""The diagnosis of a log, as `kvwal doctor` prints it: findings, each with a next step. Only `timestamp_of` reads a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from kvwal.config import Settings
from kvwal.counted import counted
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveDamaged, KvwalError
from kvwal.hlc import to_text
from kvwal.log.files.maintenance_failures import JobFailure
from kvwal.log.files.names import CONTENT_FOLDER, EVENT_FILES, OVERFLOW, FileKind, parse_name
from kvwal.log.overflow.read import open_segment
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import Disk
from kvwal.scrub.compare_archive import BEHIND, forks, gaps, missing, seals_of, why_foreign
from kvwal.scrub.event_files import EventFault
from kvwal.scrub.inspect import Inspection, snapshot_of
from kvwal.scrub.next_steps import NextSteps
from kvwal.scrub.units import age, size
from kvwal_archive.layout import Place
from kvwal_archive.lost_tails import lost_tails, sentence
from kvwal_archive.objects import Objects
from kvwal_archive.reader import Coverage, list_spans, read_info, unsuperseded
from kvwal_archive.registry import owner

OK, NOTE, PROBLEM = "ok", "note", "problem"
LATE_SECONDS = 900
"""An open store has a problem if an entry waits longer than this for the archive. The archive timer is a minute."""
LONG_BYTES = 512 << 20
"""Size of the log after the last snapshot that is worth a finding. A store makes a checkpoint at half of it."""


class Finding(NamedTuple):
    """One finding of the diagnosis.

    `level` is `ok`, `note` or `problem`. `about` is a log, the disk, the archive or the root. `todo` is the next step, or "".
    """

    level: str
    about: str
    text: str
    todo: str = ""


class Seen(NamedTuple):
    """The facts about one log that the diagnosis starts from.

    `files` are those that `examine` returned, `names` the names in the log's folder before that. `holder` is the process that
    holds the log's lock, "" if none does. `failures` are the maintenance jobs that fail, by name, as the log's folder notes them.
    `steps` makes the lines that a person is to type. `events` are the files of events that are not sound.
    """

    place: Place
    files: list[Inspection]
    names: list[str]
    holder: str
    now_ms: int
    failures: Mapping[str, JobFailure]
    steps: NextSteps
    events: Sequence[EventFault] = ()

    def typed(self, command: str, *more: str) -> str:
        """The line that runs a command on this log."""
        return self.steps.line(command, self.place, *more)

    @property
    def about(self) -> str:
        """The log's name in a finding."""
        return "/".join(self.place)

    @property
    def last(self) -> int:
        """The last sequence of the log."""
        return max((file.last for file in self.files), default=0)

    @property
    def log_id(self) -> str:
        """The log_id in the log's newest file, or ""."""
        return next((file.log_id for file in reversed(self.files) if file.log_id), "")


def check_log(seen: Seen) -> Iterator[Finding]:
    """The findings about a log's holder, its files, the traces of a crash, and its clock."""
    newest = max((file.newest for file in seen.files), default=0)
    total = size(sum(file.bytes for file in seen.files))
    written = f", the last one at {to_text(newest)}" if newest else ""
    holder = f"held by {seen.holder}" if seen.holder else "not held by any process"
    logged, files = counted(seen.last, "entry was logged", "entries were logged"), counted(len(seen.files), "file")
    text = f"{logged}{written}; {files}, {total}; {holder}."
    yield Finding(OK, seen.about, text)
    for file in seen.files:
        if file.problem:
            todo = f"{seen.typed('log verify')}; {seen.typed('log repair')}"
            if file.state == "unreadable":
                todo = "Mend its owner and mode, or the disk; the log itself may be whole."
            yield Finding(PROBLEM, seen.about, f"{file.name}: {file.problem}", todo)
    yield from _check_end(seen)
    yield from _check_snapshot(seen)
    yield from _check_names(seen)
    yield from _check_event_files(seen)
    yield from _check_maintenance(seen)
    ahead = (newest >> TIMESTAMP_SHIFT) / 1000 - seen.now_ms / 1000
    if ahead > Settings().max_skew_seconds:
        todo = f"Mend the clock of this machine, or accept it once: `{seen.typed('checkpoint', '--accept-clock')}`."
        yield Finding(PROBLEM, seen.about, f"its last entry lies {ahead:,.0f} s in the future.", todo)


def _check_end(seen: Seen) -> Iterator[Finding]:
    end = seen.files[-1] if seen.files else None
    if end is None or seen.holder or end.state not in ("open", "torn"):
        return
    if end.state == "torn":
        text = f"{end.name} ends with a group that was not finished: the next open cuts it, and keeps it as .torn."
        yield Finding(NOTE, seen.about, text, "Nothing. With flush `sync`, no write in it was acknowledged.")
    elif end.entries:
        yield Finding(NOTE, seen.about, "it was not closed.", "Nothing: the next open recovers it.")


def _check_snapshot(seen: Seen) -> Iterator[Finding]:
    """A finding if an open would read much log after the last checkpoint."""
    snapshot = snapshot_of(seen.files)
    covered = snapshot.last if snapshot else 0
    behind = sum(file.bytes for file in seen.files if not file.is_snapshot and file.last > covered)
    if behind < LONG_BYTES:
        return
    made = f"the snapshot of {to_text(snapshot.created_ms << TIMESTAMP_SHIFT)}" if snapshot else "no snapshot"
    text = f"an open reads {size(behind)} of log after {made}."
    if seen.holder:
        todo = "See `maintenance` in the store's stats and `maintenance failed` in its log: checkpoints fail."
        yield Finding(PROBLEM, seen.about, text, todo)
    else:
        yield Finding(NOTE, seen.about, text, seen.typed("checkpoint"))


def _check_names(seen: Seen) -> Iterator[Finding]:
    """Findings about unfinished files, kept evidence, and foreign files."""
    for name in seen.names:
        kind = parse_name(name).kind
        if kind is FileKind.TORN:
            text = f"{name} keeps what was cut or set aside after a crash or damage."
            yield Finding(NOTE, seen.about, text, "Delete it when it is no longer needed as evidence.")
        elif kind is FileKind.PARTIAL and not seen.holder:
            yield Finding(NOTE, seen.about, f"{name} was not finished.", "Nothing: the next open removes it.")
        elif kind is FileKind.OTHER and name not in (OVERFLOW, CONTENT_FOLDER, EVENT_FILES):
            yield Finding(NOTE, seen.about, f"{name} is no file of kvwal; nothing reads it.", "Move it elsewhere.")


def _check_event_files(seen: Seen) -> Iterator[Finding]:
    """Findings about files of events: nothing but a search of provenance reads them."""
    for fault in seen.events:
        if fault.is_aside:
            todo = (
                "A newer kvwal may read it: keep it. `kvwal log repair` puts its entries into the new log, as they are."
            )
            yield Finding(NOTE, seen.about, f"{fault.name}: {fault.text}", todo)
        else:
            todo = "Put it back from a backup, or move it away: then its events are lost, and the others are found."
            yield Finding(PROBLEM, seen.about, f"{fault.name}: {fault.text}", todo)


def _check_maintenance(seen: Seen) -> Iterator[Finding]:
    """A finding for each maintenance job that fails, or that failed until the log was closed."""
    for job, failure in sorted(seen.failures.items()):
        if seen.holder:
            told = failing(seen.about, job, failure)
            yield told._replace(todo=seen.steps.whole(told.todo, seen.place))
            continue
        text = f"when it was closed, its {job} had failed since {to_text(failure.since_ms << TIMESTAMP_SHIFT)}: {failure.what}"
        todo = seen.typed("archive run") if job == "archive" else ""
        yield Finding(NOTE, seen.about, text, todo or "Nothing: an open store does it again, and says if it fails.")


def failing(about: str, job: str, failure: JobFailure) -> Finding:
    """The finding that a maintenance job of an open log fails."""
    since = f" since {to_text(failure.since_ms << TIMESTAMP_SHIFT)}" if failure.since_ms else ""
    text = f"its {job} fails{since}: {failure.what}"
    todo = failure.hint or "See `maintenance failed` in the log of its process. The job is tried again by itself."
    return Finding(PROBLEM, about, text, todo)


def check_archived(disk: Disk, folder: Path, objects: Objects, seen: Seen) -> Iterator[Finding]:
    """The findings about a log's archive: its owner, missing ranges, forks, and its lag.

    Ranges are taken from the objects' names. A fork is detected by the seal in the last object. Raises `ArchiveError` if the
    archive does not answer.
    """
    try:
        registration = owner(objects, seen.place)
    except ArchiveDamaged as error:
        yield Finding(PROBLEM, seen.about, error.what, seen.steps.whole(error.hint, seen.place))
        return
    if registration is not None and seen.log_id and (stranger := why_foreign(registration, seen.log_id)):
        todo = "Open it under another node name or with another archive; or open the log that took over."
        yield Finding(PROBLEM, seen.about, stranger, todo)
        return
    listed = list_spans(objects, seen.place)
    spans = unsuperseded(listed)
    holes = list(missing([(span.first, span.last) for span in spans], max((s.last for s in spans), default=0)))
    reached = holes[0][0] - 1 if holes else max((span.last for span in spans), default=0)
    for gap in gaps(Coverage(reached, spans, holes, 0, 0, 0), seen.files) if spans else ():
        todo = (
            _older_copy(seen) if gap.state == BEHIND else f"{seen.typed('archive verify')}; {seen.typed('log verify')}"
        )
        yield Finding(PROBLEM, seen.about, f"sequences {gap.first} to {gap.last}: {gap.problem}", todo)
    newest = [read_info(objects, *listed[span]) for span in spans if span.last == reached]
    for fork in forks(seals_of(newest, seen.log_id), seen.files):
        todo = "Use one folder only, the one that the archive has. See operations.md, An older copy of a log."
        yield Finding(PROBLEM, seen.about, fork.problem, todo)
    for tail in lost_tails(objects, *seen.place[:3], [seen.place.node]):
        yield Finding(NOTE, seen.about, sentence(tail), "See operations.md, ArchiveGap.")
    yield _lag(disk, folder, seen, reached)


def _older_copy(seen: Seen) -> str:
    into = f"{seen.steps.root.absolute()}-repaired"
    line = seen.typed("log repair", "--into", into, "--take-over")
    return f"Put the newer folder back if it is still there. If it is lost: `{line}`."


def _lag(disk: Disk, folder: Path, seen: Seen, reached: int) -> Finding:
    behind = max(0, seen.last - reached)
    if not behind:
        return Finding(OK, seen.about, f"all of it is archived, up to sequence {reached:,}.")
    since = timestamp_of(disk, folder, seen.files, reached + 1)
    seconds = max(0, seen.now_ms // 1000 - (since >> TIMESTAMP_SHIFT) // 1000) if since else 0
    oldest = f", the oldest {age(seconds)} old" if since else ""
    text = f"archived up to sequence {reached:,}; {counted(behind, 'entry', 'entries')} behind{oldest}."
    if not seen.holder:
        return Finding(NOTE, seen.about, text, seen.typed("archive run"))
    if seconds > LATE_SECONDS:
        todo = "See `maintenance` and `archive_error` in the store's stats and its log: the archive takes nothing."
        return Finding(PROBLEM, seen.about, text, todo)
    return Finding(OK, seen.about, text)


def timestamp_of(disk: Disk, folder: Path, files: Sequence[Inspection], sequence: int) -> int:
    """The timestamp of the entry with this sequence; 0 if no readable segment has it."""
    holding = next((f for f in files if not f.is_snapshot and f.first <= sequence <= f.last), None)
    if holding is None:
        return 0
    path = folder / holding.name
    try:
        # A sealed segment never changes and can be mapped. The last one may be cut short meanwhile, so it is read.
        with disk.view(path) if holding.state == "sealed" else nullcontext(disk.read(path)) as buffer:
            reader = open_segment(disk, path, buffer)
            for entries in reader.entries(entry_decoder()):
                if sequence < reader.next_sequence:
                    return entries[sequence - reader.next_sequence].timestamp
    except (KvwalError, OSError):
        return 0  # the file vanished, or is damaged, which is another finding
    return 0
