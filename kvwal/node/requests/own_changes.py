"""Own changes: what this member tells of its logs for the watches of clients, and what it reads for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kvwal.cluster.clock_bounds import ClockBounds
from kvwal.cluster.requests import (
    Begin,
    BeginQuestion,
    CompactedRowsQuestion,
    LogRows,
    LowWatermark,
    LowWatermarkQuestion,
    RowsQuestion,
    StructureRowsQuestion,
    WatchAnswer,
    WatchQuestion,
)
from kvwal.entry import DataEntry, Entry, time_mark
from kvwal.errors import ClusterUnreachable, CorruptLog, KvwalError, LogFailed
from kvwal.history.feeds.log_feed import LogFeed
from kvwal.history.feeds.merged_feed import OneLog
from kvwal.history.feeds.page_cursor import PageCursor, PageCursors
from kvwal.history.feeds.segment_cursor import Rows
from kvwal.history.reads.structure_rows import is_part_of
from kvwal.key_class import OWN_MAP
from kvwal.ports.tasks import Workers
from kvwal.store.engine import Engine
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects


class OwnChanges:
    """The changes of this member's logs. Used on the node's event loop."""

    def __init__(self, engine: Engine, bounds: ClockBounds, objects: Callable[[], Objects], readers: Workers) -> None:
        """`bounds` are those of the clocks of all logs here. `objects` opens the archive. `readers` read logs and archive."""
        self._engine = engine
        self._bounds = bounds
        self._objects = objects
        self._readers = readers
        self._cursors = PageCursors()

    async def answer(self, question: WatchQuestion) -> WatchAnswer:
        """The answer of this member. `LogFailed` if its log cannot be read, `ArchiveGap`, `BeforeHistory`, `ArchiveError`."""
        try:
            if isinstance(question, LowWatermarkQuestion):
                return await self._low_watermark(question)
            if isinstance(question, BeginQuestion):
                return Begin(await self._readers.run(partial(self._begin, question)))
            return await self._rows(question)
        except (CorruptLog, OSError) as error:
            raise unreadable_log(self._engine.node, question.business, error) from error

    async def page(
        self, place: Place, open_feed: Callable[[], OneLog], position: int, last: int, limit: int, compacted: int = 0
    ) -> tuple[Rows, bool]:
        """A page of one log: see `PageCursor.page`. `open_feed` opens its feed after `position` if no cursor goes on there; up
        to the sequence `compacted` the feed may lack rows."""
        kept = self._cursors.take(place, position, compacted)

        def read() -> tuple[PageCursor, tuple[Rows, bool]]:
            cursor = PageCursor(open_feed()) if kept is None else kept
            return cursor, cursor.page(position, last, limit)

        cursor, page = await self._readers.run(read)
        self._cursors.keep(place, cursor, compacted)
        return page

    async def _low_watermark(self, question: LowWatermarkQuestion) -> LowWatermark:
        """The low watermark of the log. The clock rises first, then the writer is asked between two groups: a group that was
        stamped before is written by then."""
        lowest = self._bounds.settle(self._engine.options.clock.wall_ms(), question.least)
        business = self._engine.businesses.get(question.business)
        if business is None or business.closed:
            end = await self._readers.run(partial(self._engine.end_of, question.business))
            return LowWatermark(lowest, *((None, 0) if end is None else (end.last_sequence, end.last_timestamp)))
        log = business.log

        async def look() -> LowWatermark:
            log.hybrid.advance(lowest)
            return LowWatermark(log.hybrid.last, log.writer.applied, log.writer.timestamp)

        try:
            told: LowWatermark = await log.ring.command(look)
        except KvwalError as error:
            raise ClusterUnreachable(f"{self._engine.node} closes its log: {error}", hint="Ask again.") from error
        return told

    async def _rows(self, question: RowsQuestion) -> LogRows:
        place = self._engine.place(question.business)
        compacted = question.compacted if isinstance(question, CompactedRowsQuestion) else 0
        structure = question.structure if isinstance(question, StructureRowsQuestion) else OWN_MAP
        open_feed = partial(self._feed, place, question.position, compacted)
        rows, more = await self.page(place, open_feed, question.position, question.last, question.limit, compacted)
        return LogRows([(sequence, _told(entry, structure)) for sequence, entry in rows], more)

    def _begin(self, question: BeginQuestion) -> int:
        feed = self._feed(self._engine.place(question.business), 0)
        feed.begin_after(question.timestamp, exactly=True)
        return feed.position

    def _feed(self, place: Place, position: int, compacted: int = 0) -> LogFeed:
        options = self._engine.options
        return LogFeed(options.disk, options.root, place, self._archive, position, compacted=compacted, own=True)

    def _archive(self) -> Objects | None:
        return None if self._engine.options.archive_url is None else self._objects()


def _told(entry: Entry, structure: str) -> DataEntry:
    return (entry if is_part_of(entry.key_class, structure) else time_mark(entry.timestamp)).public()


def unreadable_log(node: str, business: str, error: Exception) -> LogFailed:
    """The error of a request for which a member cannot read its own log."""
    return LogFailed(
        f"{node}: its log of {business} could not be read ({error}).",
        hint="`kvwal log verify` there says what is damaged.",
    )
