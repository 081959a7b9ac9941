"""The changes of one log after a position: from its segments, and where these are gone, from the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kvwal.errors import BeforeHistory, ConfigError
from kvwal.history.feeds.archived_rows import archived_rows, first_position, last_up_to, not_kept
from kvwal.history.feeds.segment_cursor import NotInLog, Rows, SegmentCursor
from kvwal.hlc import to_text
from kvwal.ports.disk import Disk
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects
from kvwal_archive.reader import live_objects

OpenArchive = Callable[[], Objects | None]


def not_in_log(place: Place, position: int, last: int) -> ConfigError:
    """The error for a position after the end of a log, whose last sequence is `last`."""
    return ConfigError(
        f"{'/'.join(place)}: the position is sequence {position}, and the log ends with {last}.",
        hint="Give a position that a watch of this map had, or a timestamp.",
    )


def rows_after(since: int, rows: Rows) -> Rows:
    """The rows after a timestamp. In a log into which nodes were merged, older rows may come at any place."""
    return [row for row in rows if row[1].timestamp > since] if since else rows


class LogFeed:
    """The feed of one log. Used by one thread at a time. `position` is the last sequence that was given or passed."""

    def __init__(
        self,
        disk: Disk,
        root: Path,
        place: Place,
        archive: OpenArchive,
        position: int = 0,
        *,
        since: int = 0,
        compacted: int = 0,
        own: bool,
    ) -> None:
        """Begin after the sequence `position`; entries up to the timestamp `since` are left out, and up to the sequence
        `compacted` compaction may have removed some.

        `own`: this process writes the log, and `read` is told how much of it is acknowledged.
        """
        self.position = position
        self.place = place
        self._disk = disk
        self._archive = archive
        self._since = since
        self._compacted = compacted
        self._cursor = SegmentCursor(disk, root, place, position, acknowledged_only=not own)
        self._archived: Iterator[Rows] | None = None

    def begin_after(self, timestamp: int, *, exactly: bool = False) -> None:
        """Begin with the first entry after `timestamp`. Raises BeforeHistory if log and archive do not reach back so far.

        With `exactly`, `position` is that of the last entry before, and not only of an object that begins before.
        """
        self._since = timestamp
        position = self._cursor.at_or_before(timestamp)
        if position is None:
            objects = self._archive()
            if objects is None:
                raise BeforeHistory(
                    f"{'/'.join(self.place)}: without an archive the past ends at the last checkpoint, and changes after"
                    f" {to_text(timestamp)} were asked.",
                    hint="Ask for a later time, or open the store with an archive.",
                )
            position = (last_up_to if exactly else first_position)(objects, self.place, timestamp)
        self._go_to(position)

    def begin_at_end(self) -> None:
        """Begin after the last entry of the log, as its files are now."""
        self._go_to(self._cursor.last_sequence())

    def check_position(self) -> None:
        """Raise ConfigError if the position is after the end of the log: it is a position of another one."""
        last = self._cursor.last_sequence()
        if self.position > last:
            raise not_in_log(self.place, self.position, last)
        self._go_to(self.position)

    def read(self, until: int | None = None) -> Rows:
        """The next rows, none if there are none yet, or none up to the sequence `until`. Raises ArchiveGap, CorruptLog."""
        while True:
            rows = self._next(until)
            if not rows:
                return []
            self.position = rows[-1][0]
            if wanted := rows_after(self._since, rows):
                return wanted

    def _next(self, until: int | None) -> Rows:
        if self._archived is not None:
            rows = next(self._archived, None)
            if rows is not None:
                return rows
            self._archived = None
            self._cursor.position = self.position
        try:
            return self._cursor.read(until)
        except NotInLog:
            pass
        self._cursor.reset()
        self._archived = self._open_archive()
        rows = next(self._archived, None)
        if rows is not None:
            return rows
        self._archived = None
        try:
            return self._cursor.read(until)
        except NotInLog as gone:
            raise not_kept(self.place, self.position + 1, gone.first - 1) from gone

    def _open_archive(self) -> Iterator[Rows]:
        objects = self._archive()
        if objects is None:
            return iter(())
        return archived_rows(
            self._disk, objects, self.place, self.position, since=self._since, compacted=self._compacted
        )

    def _go_to(self, position: int) -> None:
        self.position = self._cursor.position = position
        self._cursor.reset()
        self._archived = None


class ArchivedLogFeed:
    """The feed of a log of which only the archive is at hand. `position`, `since` and `compacted` are as in `LogFeed`."""

    def __init__(self, disk: Disk, objects: Objects, place: Place, position: int = 0, *, compacted: int = 0) -> None:
        self.position = position
        self.place = place
        self._disk = disk
        self._objects = objects
        self.since = 0
        self._compacted = compacted
        self._archived: Iterator[Rows] = iter(())

    def begin_after(self, timestamp: int) -> None:
        """See `LogFeed.begin_after`."""
        self.since = timestamp
        self.position = first_position(self._objects, self.place, timestamp)

    def begin_at_end(self) -> None:
        """Begin after the last entry that is archived."""
        self.position = max((info.span.last for info in live_objects(self._objects, self.place)), default=0)

    def read(self, until: int | None = None) -> Rows:
        """The next rows, none if the archive has no further ones. Each answer of none is followed by a new look at it."""
        rows = next(self._archived, None)
        if rows is None:
            self._archived = archived_rows(
                self._disk, self._objects, self.place, self.position, since=self.since, compacted=self._compacted
            )
            rows = next(self._archived, [])
        if rows:
            self.position = rows[-1][0]
        return rows
