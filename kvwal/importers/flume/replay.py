"""The replay of a file channel: which events are committed and not taken, in the order of their commits.

It reads all log files side by side, in the write order that their records carry, as Flume's own full replay does. Memory holds a
place for each event of the queue and of open transactions, and no event.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kvwal.importers.flume.checkpoint import Checkpoint
from kvwal.importers.flume.folders import LogPath
from kvwal.importers.flume.records import (
    COMMIT,
    FILL,
    NO_RECORD,
    PUT,
    RECORD,
    TAKE,
    Event,
    committed,
    end_of,
    event_of,
    next_record,
    record_at,
    taken,
)
from kvwal.importers.source import EndsEarly, NotWhole, Progress, Report, SourceFile, Sources
from kvwal.ports.disk import Disk

_OFFSET_BITS = 32
_REPLAY_ORDER = {TAKE: 0, PUT: 1}
"""Of records with one write order and one transaction, takes and puts come before the commit."""


class QueuedEvent(NamedTuple):
    """An event of the queue: the write order of its put, the number of its file, the offset there, and the event."""

    order: int
    number: int
    path: Path
    offset: int
    event: Event


class Change(NamedTuple):
    """A record as the replay needs it. `place` is that of the put, or of the event that was taken; of a commit its kind."""

    order: int
    transaction: int
    rank: int
    kind: int
    place: int


class Replay:
    """The queue that a channel's logs leave."""

    def __init__(
        self,
        disk: Disk,
        logs: list[LogPath],
        report: Report,
        progress: Progress | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._paths = {log.number: log.path for log in logs}
        self._numbers = {log.number: index for index, log in enumerate(logs)}
        self._sources = Sources(disk, [log.path for log in logs])
        self._queue: dict[int, int] = {}
        """Places of the queued events, in the order of their commits, with the write order of each put."""
        self._checkpoint = checkpoint
        self._gone: set[int] = set()
        """Places of events that were committed before the checkpoint, and are not in it."""
        self._open: dict[int, list[tuple[int, int]]] = {}
        self._taken_early: set[int] = set()
        """Places whose take was committed before their put in the order of the replay."""
        changes = [_changes(SourceFile(disk, log.path, progress), log.number, report) for log in logs]
        for change in heapq.merge(*changes, key=lambda change: change[:3]):
            self._apply(change)
        if self._gone and checkpoint is not None and all(map(self._is_put, checkpoint.places)):
            for place in self._gone:
                self._queue.pop(place, None)

    def __len__(self) -> int:
        """Number of queued events."""
        return len(self._queue)

    def __iter__(self) -> Iterator[QueuedEvent]:
        """The queued events, in order."""
        for place, order in self._queue.items():
            number, offset = split(place)
            event = event_of(record_at(self._sources[self._numbers[number]], offset).about)
            yield QueuedEvent(order, number, self._paths[number], offset, event)

    def _is_put(self, place: int) -> bool:
        """Whether a put is at a place. A checkpoint has no checksum: if it names any other place, it is not believed."""
        number, offset = split(place)
        try:
            return number in self._numbers and record_at(self._sources[self._numbers[number]], offset).kind == PUT
        except NotWhole:
            return False

    def _apply(self, change: Change) -> None:
        if change.kind in (PUT, TAKE):
            self._open.setdefault(change.transaction, []).append((change.place, change.order))
            return
        changed = self._open.pop(change.transaction, [])
        if change.kind != COMMIT:
            return
        for place, order in changed:
            if change.place == TAKE:
                self._gone.discard(place)
                if self._queue.pop(place, None) is None and split(place)[0] in self._numbers:
                    self._taken_early.add(place)
            elif place in self._taken_early:
                self._taken_early.remove(place)
            else:
                self._queue[place] = order
                if (seen := self._checkpoint) is not None and change.order <= seen.order and place not in seen.places:
                    self._gone.add(place)


def split(place: int) -> tuple[int, int]:
    """The number of the file and the offset of a place."""
    return place >> _OFFSET_BITS, place & (1 << _OFFSET_BITS) - 1


def _changes(file: SourceFile, number: int, report: Report) -> Iterator[Change]:
    """The records of one file. After damage it goes on at the next whole record."""
    offset = 0
    while offset < file.size:
        first = file.read(offset, 1)[0]
        if first == FILL and file.skip(offset, FILL) == file.size:
            return
        try:
            if first == NO_RECORD:
                offset = end_of(file, offset)
                continue
            if first != RECORD:
                raise NotWhole(f"no record begins with the byte 0x{first:02x}")
            record = record_at(file, offset)
        except NotWhole as error:
            found = next_record(file, offset + 1)
            if found < 0 and (isinstance(error, EndsEarly) or _is_cut(file, offset)):
                report.torn(file.path, offset, "the last record is not complete")
                return
            end = file.size if found < 0 else found
            report.damaged(file.path, offset, end, error.what)
            offset = end
            continue
        place = number << _OFFSET_BITS | offset
        if record.kind == TAKE:
            taken_number, taken_offset = taken(record.about)
            place = taken_number << _OFFSET_BITS | taken_offset
        elif record.kind == COMMIT:
            place = committed(record.about)
        yield Change(record.order, record.transaction, _REPLAY_ORDER.get(record.kind, record.kind), record.kind, place)
        offset = record.end


def _is_cut(file: SourceFile, offset: int) -> bool:
    """Whether a record begins at an offset, and the fill of a file that was allocated ahead begins before it ends."""
    if file.read(offset, 1)[0] != RECORD:
        return False
    last = file.read(file.size - 1, 1)[0]
    try:
        end = end_of(file, offset)
    except NotWhole:
        return last == FILL and file.skip(offset + 1, FILL) == file.size
    return last == FILL and file.read(end - 1, 1)[0] == FILL and file.skip(end, FILL) == file.size
