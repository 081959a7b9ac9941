"""Page cursors: open feeds of single logs that are read a page at a time, by readers that come back with a position.

To open a feed at a position, a segment is read from its beginning. So the cursors that were used last are kept. A reader is not
known by name: a cursor serves each reader whose position it has.
"""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Protocol

from kvwal.entry import Entry
from kvwal.history.feeds.merged_feed import PAGE_BYTES, PAGE_CHANGES
from kvwal.history.feeds.segment_cursor import Rows
from kvwal_archive.layout import Place

KEPT = 16
"""How many cursors are kept: each has one page in memory."""


class RowFeed(Protocol):
    """A feed of one log: see `LogFeed`."""

    position: int

    def read(self, until: int | None = None) -> Rows:
        """See `LogFeed.read`."""
        ...


class PageCursor:
    """A cursor of one log. Its rows stay in memory until its reader comes back with a later position.

    Used by one thread at a time. After an error it must not be used again.
    """

    def __init__(self, feed: RowFeed, most: int = PAGE_CHANGES) -> None:
        """A page has about `most` rows."""
        self._feed = feed
        self._most = most
        self._begin = feed.position
        self._rows: deque[tuple[int, Entry]] = deque()
        self._size = 0

    def has(self, position: int) -> bool:
        """Whether the cursor can serve rows after `position`."""
        return self._begin <= position <= self._feed.position

    def page(self, position: int, last: int, limit: int) -> tuple[Rows, bool]:
        """The rows after `position`, up to the sequence `last` and before the first row with a timestamp above `limit`;
        and whether more such rows follow. Raises the errors of the feed.
        """
        self._forget(position)
        found, ends = True, self._goes_beyond(limit)
        while self._has_room() and self._feed.position < last and not ends and found:
            found = self._load(last)
            ends = self._goes_beyond(limit)
        rows = takewhile(lambda row: row[0] <= last and row[1].timestamp <= limit, self._rows)
        return list(rows), found and self._feed.position < last and not ends

    def _goes_beyond(self, limit: int) -> bool:
        return any(entry.timestamp > limit for _, entry in self._rows)

    def _has_room(self) -> bool:
        return len(self._rows) < self._most and self._size < PAGE_BYTES

    def _load(self, last: int) -> bool:
        rows = self._feed.read(last)
        self._rows.extend(rows)
        self._size += sum(map(_size_of, rows))
        return bool(rows)

    def _forget(self, position: int) -> None:
        while self._rows and self._rows[0][0] <= position:
            self._size -= _size_of(self._rows.popleft())
        self._begin = position


def _size_of(row: tuple[int, Entry]) -> int:
    return len(row[1].key) + len(row[1].value)


class PageCursors:
    """The cursors that were used last. Used by one thread. `take` removes a cursor, and `keep` brings it back."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: deque[tuple[tuple[Place, int], PageCursor]] = deque()

    def take(self, place: Place, position: int, compacted: int = 0) -> PageCursor | None:
        """A cursor of this log that can serve rows after `position`, None if none is kept.

        `compacted`: up to this sequence compaction may have removed rows. A cursor is taken only if it was kept with the same
        `compacted`.
        """
        for kept in reversed(self._kept):
            if kept[0] == (place, compacted) and kept[1].has(position):
                self._kept.remove(kept)
                return kept[1]
        return None

    def keep(self, place: Place, cursor: PageCursor, compacted: int = 0) -> None:
        """Keep a cursor; the one that was used least recently goes if there are too many."""
        self._kept.append(((place, compacted), cursor))
        if len(self._kept) > self._most:
            self._kept.popleft()
