"""Questions about the events of a business, answered from the files of its logs.

Events stand in files of events, in the segments that no checkpoint has covered yet and, of a log that was restored or merged, in
the snapshot. The files are kept open between questions; the others are read for each question.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from kvwal.entry import Entry
from kvwal.history.provenance.files import OpenEventFile, event_files
from kvwal.history.provenance.unreadable import readable_events
from kvwal.history.reads.tail_reader import LOOKS, open_range
from kvwal.key_class import EVENTS
from kvwal.log.files.names import EVENT_FILES, EventFile, log_folder
from kvwal.ports.disk import Disk
from kvwal.ports.locks import Lock
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.lineage import ItemId
from kvwal.structures.provenance.query import Question, ends, has_item, item_term
from kvwal.structures.provenance.record import BY_HAND
from kvwal_archive.layout import Place

_RANGE = (EVENTS, b""), (EVENTS + "\0", b"")


class LogEvents:
    """The events of the logs of a business, an `EventSource`. Any number of threads may use it."""

    def __init__(self, disk: Disk, root: Path, find: Callable[[], Sequence[Place]]) -> None:
        """`find` gives the logs that are read."""
        self._disk = disk
        self._root = root
        self._find = find
        self._lock = Lock()
        self._opened: dict[tuple[Path, EventFile], OpenEventFile] = {}

    def search(self, question: Question) -> Iterator[Event]:
        """See `EventSource.search`."""
        logs = [self._of_log(place, question) for place in self._find()]
        yield from heapq.merge(*logs, key=lambda event: event.place, reverse=True)

    def made(self, item: ItemId) -> list[Event]:
        """See `EventSource.made`."""
        key_class, key, timestamp = item
        asked = Question(identity=(key_class, key), after=timestamp, before=timestamp)
        found = self.search(asked)
        return [event for event in found if event.type not in BY_HAND and has_item(event.record.after, item)]

    def ended(self, item: ItemId) -> list[Event]:
        """See `EventSource.ended`."""
        found = (self._ended_in_log(place, item) for place in self._find())
        first = min((event for event in found if event is not None), key=lambda event: event.place, default=None)
        return [] if first is None else [first]

    def _ended_in_log(self, place: Place, item: ItemId) -> Event | None:
        """The first event of a log that ended an item. Files are looked at from the one on that has its timestamp."""
        files, newer = self._files(place, item[1])
        term = item_term(*item[:2])
        for file in files:
            if file.last_timestamp < item[2]:
                continue
            for row in file.rows_of(term).to_pylist():
                if ends((event := file.event(row)).record, item):
                    return event
        return next((event for event in newer if ends(event.record, item)), None)

    def _of_log(self, place: Place, question: Question) -> Iterator[Event]:
        """The answers in one log, newest first."""
        holding = EVENTS.encode() if question.identity is None else question.identity[1]
        files, newer = self._files(place, holding)
        in_time = [event for event in newer if question.is_within(event.timestamp)]
        yield from sorted(filter(question.fits, in_time), key=lambda event: event.place, reverse=True)
        for file in reversed(files):
            if question.after is not None and file.last_timestamp < question.after:
                return
            if question.before is None or file.first_timestamp <= question.before:
                yield from _answers(file, question)

    def _files(self, place: Place, holding: bytes) -> tuple[list[OpenEventFile], list[Event]]:
        """The files of events of a log, in order, and the events that are in none, of blocks that have the bytes `holding`.

        A checkpoint may move events from segments to a file meanwhile: then both are read again.
        """
        folder = log_folder(self._root, place)
        for _ in range(LOOKS):
            before = event_files(self._disk, folder)
            try:
                files = [self._open(folder, file) for file in before]
            except FileNotFoundError:
                continue
            newer = self._in_no_file(place, holding, files[-1].last_timestamp if files else 0)
            if event_files(self._disk, folder) == before:
                return files, newer
        raise FileNotFoundError(f"{folder / EVENT_FILES}: the files change faster than they can be read")

    def _in_no_file(self, place: Place, holding: bytes, last: int) -> list[Event]:
        """The events of a snapshot, and those of segments after the timestamp `last`, in order."""
        with ExitStack() as opened:
            scan = open_range(self._disk, self._root, place, *_RANGE, holding, opened)
            found: Iterable[Entry] = scan.snapshot
            kept = [entry for entry in found if _is_event(entry)]
            kept += [entry for entry in scan.newer if entry.timestamp > last and _is_event(entry)]
        return sorted(readable_events(kept, log_folder(self._root, place)), key=lambda event: event.place)

    def _open(self, folder: Path, file: EventFile) -> OpenEventFile:
        """A file of events, which stays open. Files that are gone are let go."""
        with self._lock:
            opened = self._opened.get((folder, file))
        if opened is not None:
            return opened
        opened = OpenEventFile(self._disk, folder, file)
        there = set(event_files(self._disk, folder))
        with self._lock:
            self._opened = {
                (where, known): each
                for (where, known), each in self._opened.items()
                if where != folder or known in there
            }
            self._opened[folder, file] = opened
        return opened


def _is_event(entry: Entry) -> bool:
    return entry.key_class == EVENTS and not entry.deleted


def _answers(file: OpenEventFile, question: Question) -> Iterator[Event]:
    """The answers in one file, newest first."""
    within = file.rows_within(question.after, question.before)
    rows = file.rows_of_all(question.terms) if question.has_conditions else within
    for row in reversed(rows):
        if row in within and question.fits(event := file.event(row)):
            yield event
