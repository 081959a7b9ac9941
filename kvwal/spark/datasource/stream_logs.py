"""The logs of a streamed business, as the driver sees them: where they begin and end, and which files have which sequences."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from kvwal.errors import BeforeHistory, ConfigError
from kvwal.history.feeds.archived_rows import compacted_up_to, last_up_to, not_kept
from kvwal.history.feeds.segment_cursor import NotInLog, SegmentCursor
from kvwal.log.files.names import find_places, log_folder
from kvwal.log.reader import log_files
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.stream_options import StreamOptions
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.rows import ObjectInfo
from kvwal_archive.reader import covered, live_objects
from kvwal_archive.registry import registered

TASK_BYTES = 32 << 20
"""Compressed bytes of objects that one task reads, if there are several."""


class NodeOffset(NamedTuple):
    """How far a node's log was read. Up to the sequence `thinned` compaction had removed rows when the stream began.

    A stream that began at a timestamp leaves out what a log brings later from up to it: that timestamp is `since`.
    The names of the fields are those in the checkpoints of streams.
    """

    sequence: int
    thinned: int = 0
    since: int = 0


class ObjectRange(NamedTuple):
    """Rows of one object: those after `position`, up to `last`."""

    info: ObjectInfo
    position: int
    last: int


class LogRange(NamedTuple):
    """Rows of one node's log after `position`, up to `last`: of these objects, or without any of the log's files."""

    place: Place
    position: int
    last: int
    compacted: int
    since: int
    objects: tuple[ObjectRange, ...] = ()


class StreamLogs:
    """The logs of one business. Used by one thread."""

    def __init__(self, options: StreamOptions) -> None:
        self._where = options.read.where
        self.archive = _archive_of(options)
        self._objects: Objects | None = None if self.archive is None else open_objects(self.archive)
        self._root = None if options.root is None else Path(options.root)
        self._cursors: dict[str, SegmentCursor] = {}
        self._known: dict[str, ObjectInfo] = {}
        self._checked: set[str] = set()

    def places(self) -> list[Place]:
        """The logs of the business, sorted. Raises ConfigError if there is none."""
        found = set(find_places(OS_DISK, self._root, *self._where) if self._root is not None else ())
        if self._objects is not None:
            found |= set(registered(self._objects, *self._where))
        if not found:
            looked = self._root if self._objects is None else self._objects.url
            raise ConfigError(
                f"{looked}: there is no map {self._where[2]!r} in {'/'.join(self._where[:2])}.",
                hint="Check the location and the names of the namespace, the cluster and the map.",
            )
        return sorted(found)

    def beginning(self, place: Place) -> NodeOffset:
        """The offset before all that is kept of a log. Raises BeforeHistory if its first changes are only in a snapshot."""
        infos = self._live(place)
        if not infos and self._root is not None:
            cursor = SegmentCursor(OS_DISK, self._root, place, 0, acknowledged_only=True)
            try:
                cursor.read()
            except NotInLog as error:
                raise BeforeHistory(
                    f"{'/'.join(place)}: the changes before sequence {error.first} are in no archive.",
                    hint="Give the option 'after', or the 'archive' of the store.",
                ) from error
        return NodeOffset(0, compacted_up_to(infos))

    def after(self, place: Place, timestamp: int) -> NodeOffset:
        """The offset of the last change up to a timestamp. Raises BeforeHistory if later changes are not kept."""
        if self._root is not None:
            cursor = SegmentCursor(OS_DISK, self._root, place, 0, acknowledged_only=True)
            if (sequence := cursor.at_or_before(timestamp)) is not None and place in self._here():
                return NodeOffset(sequence, since=timestamp)
        if self._objects is None:
            raise BeforeHistory(
                f"{'/'.join(place)}: without an archive the past ends at the last checkpoint.",
                hint="Give a later time, or the 'archive' of the store.",
            )
        return NodeOffset(last_up_to(self._objects, place, timestamp), since=timestamp)

    def check_position(self, place: Place, position: int) -> None:
        """Raise ConfigError if the log ends before the position where a stream goes on. Looks once at each log that is here."""
        if place.node in self._checked or place not in self._here():
            return
        self._checked.add(place.node)
        if position > (archived := covered(self._live(place)).last):
            last = max(archived, self._cursor(place, 0).last_sequence())
            if position > last:
                raise ConfigError(
                    f"{'/'.join(place)}: the stream's offset is sequence {position}, and the log ends with {last}.",
                    hint="The checkpoint is of another log, as one before a restore: begin anew with a new checkpoint.",
                )

    def end(self, place: Place, position: int) -> int:
        """The last sequence up to which every change of a log is at hand, and acknowledged by its writer."""
        archived = covered(self._live(place)).last
        if place not in self._here():
            return max(archived, position)
        cursor = self._cursors.get(place.node)
        if cursor is None or cursor.position < archived:
            start = max(archived, position)
            cursor = self._cursors[place.node] = self._cursor(place, start)
        while True:
            try:
                return max(archived, cursor.acknowledged_end())
            except NotInLog as error:  # `ranges` looks at what is in between
                cursor.position = error.first - 1
                cursor.reset()

    def ranges(self, place: Place, start: NodeOffset, last: int) -> list[LogRange]:
        """The work of the tasks that read a log after `start`, up to `last`. Raises ArchiveGap if a part of it is not kept."""
        found: list[LogRange] = []
        held: list[ObjectRange] = []
        position = start.sequence
        for info in self._live(place):
            if position < last and info.span.first <= position + 1 <= info.span.last:
                held.append(ObjectRange(info, position, min(last, info.span.last)))
                position = held[-1].last
                if sum(item.info.size for item in held) >= TASK_BYTES:
                    found.append(_of_objects(place, start, held))
                    held = []
        if held:
            found.append(_of_objects(place, start, held))
        if position < last:
            if place not in self._here():
                raise not_kept(place, position + 1, last)
            found += self._of_segments(place, position, last, start)
        return found

    def _of_segments(self, place: Place, position: int, last: int, start: NodeOffset) -> list[LogRange]:
        """A range for each segment that the log has now. If the segments are gone, the tasks find their rows in the archive."""
        segments, _ = log_files(OS_DISK, log_folder(Path(str(self._root)), place))
        ends = [file.number - 1 for file in segments if position < file.number - 1 < last]
        parts = pairwise([position, *ends, last])
        return [LogRange(place, first, end, start.thinned, start.since) for first, end in parts]

    def bytes_of_change(self, place: Place, position: int) -> int:
        """About how many bytes a change of a log has after this position, in its key and value."""
        for info in self._live(place):
            if info.span.last > position:
                return max(1, info.footer.data_bytes // info.footer.rows)
        try:
            rows = self._cursor(place, position, acknowledged_only=False).read()
        except NotInLog as gone:
            raise not_kept(place, position + 1, gone.first - 1) from gone
        return max(1, sum(len(entry.key) + len(entry.value) for _, entry in rows) // max(1, len(rows)))

    def _cursor(self, place: Place, position: int, *, acknowledged_only: bool = True) -> SegmentCursor:
        return SegmentCursor(OS_DISK, Path(str(self._root)), place, position, acknowledged_only=acknowledged_only)

    def _live(self, place: Place) -> list[ObjectInfo]:
        return [] if self._objects is None else live_objects(self._objects, place, self._known)

    def _here(self) -> list[Place]:
        return [] if self._root is None else find_places(OS_DISK, self._root, *self._where)


def _of_objects(place: Place, start: NodeOffset, held: list[ObjectRange]) -> LogRange:
    return LogRange(place, held[0].position, held[-1].last, start.thinned, start.since, tuple(held))


def _archive_of(options: StreamOptions) -> str | None:
    """The archive that is named, or the one that a folder has by default."""
    if options.archive is not None or options.root is None:
        return options.archive
    default = Path(options.root) / "_archive"
    return str(default) if OS_DISK.is_folder(default) else None
