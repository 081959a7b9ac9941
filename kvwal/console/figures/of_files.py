"""Figures of a folder: what the files of its logs tell, also while processes write to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from kvwal.console.figures.examinations import Beside
from kvwal.console.figures.rows import Figures, LogRow
from kvwal.content.folder import all_claim_files
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import ArchiveError, ContentDamaged
from kvwal.log.files.names import LOCK, log_folder
from kvwal.ports.disk import settled_before
from kvwal.ports.posix.file_locks import held_by
from kvwal.ports.space import space_stats
from kvwal.scrub.diagnose import timestamp_of
from kvwal.scrub.inspect import Inspection, examine, snapshot_of
from kvwal.scrub.progress import NotesInMemory
from kvwal.store.options import Options
from kvwal.store.reading.figures import FileStates, states_of_log
from kvwal_archive.layout import Place, parse_object_key
from kvwal_archive.objects import open_objects

_GLANCE_ABOVE = 1 << 20
"""Bytes of the largest finished file that is read whole, once."""
_MOST_NOTES = 10_000
_SHARE = 10
"""The console waits this many times as long as the last reading of a log took, before it reads a log that changes again."""
_CLOSED = "Its folder may not be read by the user of this console."
_NO_ARCHIVE = "It has no archive: checkpoints end its history."
_OTHER_ARCHIVE = (
    "It has archived nothing under its root: if it has another archive, start the console with --archive URL."
)


class _Read(NamedTuple):
    """A reading of a log: its files as they were, whether their next change shows in their times, and when it is read again."""

    states: FileStates
    settled: bool
    due: float
    files: list[Inspection]


class FileFigures:
    """The figures of the logs of folders, look by look. Not for several threads at once.

    A finished file is read once, and an entry that waits for the archive once. The last segment of a log is read when it has
    changed, and for a tenth of the time at most; all that have changed are read after a new examination.
    """

    def __init__(self) -> None:
        self._notes = _Notes()
        self._waiting: dict[Place, tuple[int, int | None]] = {}
        self._read: dict[Place, _Read] = {}
        self._beside: Beside | None = None

    def look(self, options: Options, beside: Beside) -> Figures:
        """The figures now. `beside` is what the last examination looked up."""
        closed: set[str] = set()
        places = options.places(closed=closed)
        is_new, self._beside = beside is not self._beside, beside
        self._read = {place: self._reading(options, place, is_new=is_new) for place in places}
        logs = [self._log(options, place, beside) for place in places]
        logs += [LogRow(name, "", trouble=[_CLOSED]) for name in sorted(closed)]
        self._waiting = {place: self._waiting[place] for place in places if place in self._waiting}
        disk = space_stats(options.disk, options.root, options.settings.reserve_bytes) or {}
        return Figures(
            "folder", logs=logs, usable=disk.get("usable_bytes"), capacity=disk.get("capacity_bytes"),
            note=beside.why_not,
        )  # fmt: skip

    def _log(self, options: Options, place: Place, beside: Beside) -> LogRow:
        folder = log_folder(options.root, place)
        files = self._read[place].files
        snapshot, last = snapshot_of(files), max((file.last for file in files), default=0)
        archived = None if beside.archived is None else beside.archived.get(place, 0)
        lag = None if archived is None else max(0, last - archived)
        return LogRow(
            place.business, place.node, last, sum(file.bytes for file in files), beside.contents.get(place, 0),
            snapshot.last if snapshot else 0, snapshot.created_ms if snapshot else None, archived, lag,
            self._oldest(options, place, files, archived or 0) if lag else None, held_by(folder / LOCK),
            [f"{file.name}: {file.problem}" for file in files if file.problem],
        )  # fmt: skip

    def _reading(self, options: Options, place: Place, *, is_new: bool) -> _Read:
        began, last = options.clock.elapsed(), self._read.get(place)
        if last is not None and not is_new and began < last.due:
            return last
        settled_ns = settled_before(options.clock.wall_ms())
        try:
            states = states_of_log(options, place)
            if last is not None and last.settled and states == last.states:
                return last
            files = examine(options.disk, options.root, place, notes=self._notes, glance_above=_GLANCE_ABOVE)
        except OSError as error:
            states, why = FileStates((), 0), f"it cannot be read: {error.strerror}."
            files = [Inspection(str(log_folder(options.root, place)), 0, 0, 0, 0, "unreadable", why)]
        now = options.clock.elapsed()
        return _Read(states, 0 < states.changed_ns < settled_ns, now + _SHARE * (now - began), files)

    def _oldest(self, options: Options, place: Place, files: list[Inspection], archived: int) -> int | None:
        """The time of the first entry after `archived`, in unix ms; None if it is not known."""
        known = self._waiting.get(place)
        if known is None or known[0] != archived:
            at = timestamp_of(options.disk, log_folder(options.root, place), files, archived + 1)
            known = self._waiting[place] = archived, (at >> TIMESTAMP_SHIFT) or None
        return known[1]


class _Notes(NotesInMemory):
    """Notes of the finished files, some thousands of them at most."""

    def add(self, name: str, mark: str, record: list[object]) -> None:
        """See `NotesInMemory.add`."""
        if len(self._known) >= _MOST_NOTES:
            self._known.clear()
        super().add(name, mark, record)


def look_beside(options: Options) -> Beside:
    """What an examination of a folder looks up: its archive is listed once, and the sizes of all claim files are summed."""
    places = options.places(closed=set())
    contents = {place: _content_bytes(options, place) for place in places}
    url = options.archive_url
    if url is None:
        return Beside(None, contents, _NO_ARCHIVE)
    try:
        archived = _archived(url, options)
    except ArchiveError as error:
        return Beside(None, contents, f"{error.what} {error.hint}".strip())
    if not archived and not options.archive_named and places:
        return Beside(None, contents, _OTHER_ARCHIVE)
    return Beside(archived, contents)


def _archived(url: str, options: Options) -> Mapping[Place, int]:
    """The last sequence that is archived of each log."""
    found: dict[Place, int] = {}
    objects = open_objects(url, options.storage_options)
    for item in objects.list(f"{options.namespace}/{options.cluster}/"):
        if (parsed := parse_object_key(item.key)) is not None:
            place, span = parsed
            found[place] = max(span.last, found.get(place, 0))
    return found


def _content_bytes(options: Options, place: Place) -> int:
    size = 0
    with suppress(ContentDamaged, OSError):  # which is a finding of `kvwal doctor`
        for file in all_claim_files(options.disk, log_folder(options.root, place)):
            size += options.disk.size(file.path)
    return size
