"""Questions about the events of a business, answered from the files of its logs.

Events stand in files of events, in the segments that no checkpoint has covered yet and, of a log that was restored or merged, in
the snapshot. What a question asks of the files is their directories and the row groups that have answers, which a bounded cache
keeps. Segments are read for each question that may have answers in them, and a question about a time that the files have is none.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvwal.entry import Entry
from kvwal.history.bounded_cache import BoundedCache
from kvwal.history.provenance.files import EventCache, OpenEventFile, whole_files
from kvwal.history.provenance.unreadable import readable_events
from kvwal.history.reads.tail_reader import LOOKS, open_range
from kvwal.key_class import EVENTS
from kvwal.log.files.names import EVENT_FILES, EventFile, log_folder
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.reader import entry_decoder, log_files
from kvwal.log.unlocked.known import KnownSegments
from kvwal.ports.disk import Disk
from kvwal.structures.provenance.event import Event, EventPlace
from kvwal.structures.provenance.query import ItemId, Question, ended_by, item_term, items_of, made_by
from kvwal.structures.provenance.record import EventKey
from kvwal_archive.layout import Place

if TYPE_CHECKING:
    import pyarrow as pa

_MOST = (1 << 64) - 1
_FILES = 1 << 10
"""Files whose directories are kept in memory: some kilobytes each."""
_STEP = 256
"""Rows that are looked at at a time, from the newest on."""


class _Look(NamedTuple):
    """The files of events of a log at a moment. `covered` is the timestamp of their last event, 0 without one."""

    ranges: list[EventFile]
    files: list[OpenEventFile]
    covered: int


class LogEvents:
    """The events of the logs of a business, an `EventSource`. Any number of threads may use it."""

    def __init__(
        self, disk: Disk, root: Path, find: Callable[[], Sequence[Place]], known: KnownSegments | None = None
    ) -> None:
        """`find` gives the logs that are read. `known` is that of a reader that stays open."""
        self._disk = disk
        self._root = root
        self._find = find
        self._known = known
        self._cache = EventCache()
        self._opened: BoundedCache[tuple[Path, EventFile], OpenEventFile] = BoundedCache(_FILES)
        self._listed: dict[Path, tuple[list[str], list[EventFile]]] = {}

    def search(self, question: Question) -> Iterator[Event]:
        """See `EventSource.search`."""
        logs = [self._of_log(place, question) for place in self._find()]
        yield from heapq.merge(*logs, key=lambda event: event.place, reverse=True)

    def made(self, items: Sequence[ItemId]) -> list[Event]:
        """See `EventSource.made`. It is at the timestamp of the item, so one file may have it."""
        found = [self._about_items(place, items, made_by, spans=False) for place in self._find()]
        return [event for each in found for events in each.values() for event in events]

    def ended(self, items: Sequence[ItemId]) -> list[Event]:
        """See `EventSource.ended`. Files are looked at from the one on that has the timestamp of the item."""
        found = [self._about_items(place, items, ended_by, spans=True) for place in self._find()]
        told = ([event for each in found for event in each.get(item, [])] for item in items)
        return [min(events, key=attrgetter("place")) for events in told if events]

    def _about_items(
        self, place: Place, items: Sequence[ItemId], tells: Callable[[Event, ItemId], bool], *, spans: bool
    ) -> dict[ItemId, list[Event]]:
        """The events of a log that tell of items, in order: at the timestamps of these, and with `spans` the first later ones."""
        for _ in self._looks(place):
            with suppress(FileNotFoundError):
                look = self._look(place)
                found: dict[ItemId, list[Event]] = {}
                for item in items:
                    before = None if spans else item[2]
                    in_files = (_of_item(file, item, before) for file in look.files)
                    told = ([event for event in events if tells(event, item)] for events in in_files)
                    found[item] = next(filter(None, told), [])
                missing = {item: list[Event]() for item in items if not found[item]}
                for event in self._in_no_file_of(place, look, list(missing), spans=spans) if missing else []:
                    for item in missing.keys() & set(items_of(event)):
                        if tells(event, item):
                            missing[item].append(event)
                return found | missing
        return {}

    def _in_no_file_of(self, place: Place, look: _Look, items: Sequence[ItemId], *, spans: bool) -> list[Event]:
        """The events that are in no file and may tell of items. Raises `FileNotFoundError` if a checkpoint moves events."""
        question = Question(
            identity=items[0][:2] if len(items) == 1 else None,
            after=min(item[2] for item in items),
            before=None if spans else max(item[2] for item in items),
        )
        return self._others(place, look, question)

    def _of_log(self, place: Place, question: Question) -> Iterator[Event]:
        """The answers in one log, newest first. If a checkpoint moves them meanwhile, the older ones are looked for again."""
        last: EventPlace | None = None
        for _ in self._looks(place):
            told = last
            try:
                for event in self._answers(place, question):
                    if told is None or event.place < told:
                        last = event.place
                        yield event
            except FileNotFoundError:
                continue
            return

    def _answers(self, place: Place, question: Question) -> Iterator[Event]:
        """The answers in one log, newest first. Raises `FileNotFoundError` if a file went meanwhile."""
        look = self._look(place)
        others = self._others(place, look, question)
        in_files = chain.from_iterable(_in_file(file, question) for file in reversed(look.files))
        wanted = [event for event in others if question.is_within(event.timestamp) and question.fits(event)]
        yield from heapq.merge(reversed(wanted), in_files, key=lambda event: event.place, reverse=True)

    def _others(self, place: Place, look: _Look, question: Question) -> list[Event]:
        """The events that are in no file and may answer a question, in order. Raises `FileNotFoundError` as `_answers`."""
        if question.before is not None and question.before <= look.covered:
            return self._in_snapshot(place, question)
        found = self._in_no_file(place, question, look.covered)
        if self._ranges(log_folder(self._root, place)) != look.ranges:
            raise FileNotFoundError(f"{log_folder(self._root, place)}: a checkpoint moved events meanwhile")
        return found

    def _looks(self, place: Place) -> Iterator[int]:
        """Looks at a log whose files change. Raises `FileNotFoundError` if they change faster than they can be read."""
        folder = log_folder(self._root, place)
        for number in range(LOOKS):
            yield number
            self._opened.keep_only(lambda key: key[0] != folder)
        raise FileNotFoundError(f"{folder / EVENT_FILES}: the files change faster than they can be read")

    def _look(self, place: Place) -> _Look:
        folder = log_folder(self._root, place)
        ranges = self._ranges(folder)
        files = [self._open(folder, file) for file in ranges]
        return _Look(ranges, files, files[-1].last_timestamp if files else 0)

    def _ranges(self, folder: Path) -> list[EventFile]:
        """The files of a log that count, in order. Names are parsed only if there are others than before."""
        names = self._disk.names(folder / EVENT_FILES)
        known, ranges = self._listed.get(folder, ([], []))
        if known != names:
            ranges = whole_files(names)
            self._listed[folder] = names, ranges
            there = set(ranges)
            self._opened.keep_only(lambda key: key[0] != folder or key[1] in there)
        return ranges

    def _open(self, folder: Path, file: EventFile) -> OpenEventFile:
        return self._opened.get((folder, file), lambda: OpenEventFile(self._disk, folder, file, self._cache))

    def _in_no_file(self, place: Place, question: Question, last: int) -> list[Event]:
        """The events of a snapshot, and those of segments after the timestamp `last`, that may answer a question; in order."""
        with ExitStack() as opened:
            holding = _holding(question)
            scan = open_range(self._disk, self._root, place, *_range(question), holding, opened, self._known)
            kept = [entry for entries in scan.snapshot for entry in entries if _is_event(entry)]
            kept += [entry for entry in scan.newer if entry.timestamp > last and _is_event(entry)]
        return sorted(readable_events(kept, log_folder(self._root, place)), key=lambda event: event.place)

    def _in_snapshot(self, place: Place, question: Question) -> list[Event]:
        """The events of a snapshot, of the time that is asked for; in order."""
        folder = log_folder(self._root, place)
        snapshot = open_snapshot(self._disk, folder, log_files(self._disk, folder)[1])
        found: Iterable[Entry] = () if snapshot is None else snapshot.between(entry_decoder(), *_range(question))
        kept = [entry for entry in found if _is_event(entry)]
        return sorted(readable_events(kept, folder), key=lambda event: event.place)


def _range(question: Question) -> tuple[tuple[str, bytes], tuple[str, bytes]]:
    """The range of keys of events of the time that is asked for: they begin with the timestamp."""
    after, before = question.after, question.before
    low = b"" if after is None else _first_key(after)
    return (EVENTS, low), (EVENTS + "\0", b"") if before is None else (EVENTS, _first_key(before + 1))


def _first_key(timestamp: int) -> bytes:
    return EventKey(min(max(timestamp, 0), _MOST), 0, "").to_bytes()


def _is_event(entry: Entry) -> bool:
    return entry.key_class == EVENTS and not entry.deleted


def _holding(question: Question) -> bytes:
    """Bytes that each block of the log with an answer has."""
    if question.identity is not None:
        return question.identity[1]
    return (EVENTS if question.type is None else question.type).encode()


def _of_item(file: OpenEventFile, item: ItemId, before: int | None) -> Iterator[Event]:
    """The events of a file that may tell of an item, from its timestamp on, in order."""
    if file.last_timestamp >= item[2] and (before is None or file.first_timestamp <= before):
        yield from map(file.event, file.rows_of([item_term(*item[:2])], item[2], before).to_pylist())


def _in_file(file: OpenEventFile, question: Question) -> Iterator[Event]:
    """The answers in one file, newest first."""
    if question.after is not None and file.last_timestamp < question.after:
        return
    if question.before is not None and file.first_timestamp > question.before:
        return
    span = question.after, question.before
    rows = (
        _newest_first(file.rows_of(question.terms, *span))
        if question.has_conditions
        else reversed(file.rows_within(*span))
    )
    yield from filter(question.fits, map(file.event, rows))


def _newest_first(rows: pa.Array) -> Iterator[int]:
    """The numbers of a column from its end on. Few of them are Python's objects at a time."""
    for end in range(len(rows), 0, -_STEP):
        yield from reversed(rows[max(0, end - _STEP) : end].to_pylist())
