"""Questions about the events of a business, answered from an archive.

Events are rows of the ordinary objects until a compaction takes them apart, and then of objects of their own (see
`kvwal_archive.maintenance.events`). Both are sorted by time. There is no index of terms: what a question does not limit in time
is read, newest first, a window of time after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from struct import Struct
from typing import TYPE_CHECKING

from kvwal.history.provenance.unreadable import readable_events
from kvwal.history.reads.entry_rows import entries_of
from kvwal.key_class import EVENTS
from kvwal.structures.provenance.event import Event
from kvwal.structures.provenance.query import ItemId, Question, ended_by, made_by
from kvwal_archive.layout import MAX_NUMBER
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.reader import listed_again
from kvwal_archive.view import NodePart, latest_of, latest_parts

if TYPE_CHECKING:
    import pyarrow as pa

_TIME = Struct(">Q")
_Window = tuple[int, int]


class ArchivedEvents:
    """The events of a business in an archive, an `EventSource`. Each question lists its objects anew."""

    def __init__(self, objects: Objects, where: tuple[str, str, str], nodes: Iterable[str]) -> None:
        """`where` is its namespace, its cluster and its name."""
        self._objects = objects
        self._where = where
        self._nodes: dict[str, int | None] = dict.fromkeys(nodes)

    def search(self, question: Question) -> Iterator[Event]:
        """See `EventSource.search`. Raises `ArchiveError`, `ArchiveDamaged`."""
        look = self._objects.for_one_look()
        for window in reversed(self._windows(look, question)):
            yield from reversed(self._within(look, window, question))

    def made(self, items: Sequence[ItemId]) -> list[Event]:
        """See `EventSource.made`."""
        asked = ((item, Question(identity=item[:2], after=item[2], before=item[2])) for item in items)
        return [event for item, question in asked for event in self.search(question) if made_by(event, item)]

    def ended(self, items: Sequence[ItemId]) -> list[Event]:
        """See `EventSource.ended`."""
        found = map(self._ended, items)
        return [event for event in found if event is not None]

    def _ended(self, item: ItemId) -> Event | None:
        look = self._objects.for_one_look()
        question = Question(identity=item[:2], after=item[2])
        in_order = chain.from_iterable(self._within(look, window, question) for window in self._windows(look, question))
        return next((event for event in in_order if ended_by(event, item)), None)

    def _parts(self, objects: Objects) -> list[NodePart]:
        return latest_parts(objects, *self._where, self._nodes, events=True)

    def _windows(self, objects: Objects, question: Question) -> list[_Window]:
        """Windows of time, in order, that together have the time of a question. About one object of events is in each."""
        parts = listed_again(lambda: self._parts(objects))
        cuts = sorted({info.footer.min_timestamp for part in parts for info in part.events})
        first = 0 if question.after is None else question.after
        end = MAX_NUMBER if question.before is None else question.before + 1
        windows = ((max(low, first), min(high, end)) for low, high in pairwise([0, *cuts, MAX_NUMBER]))
        return [(low, high) for low, high in windows if low < high]

    def _within(self, objects: Objects, window: _Window, question: Question) -> list[Event]:
        """The answers in a window of time, in order."""
        low, high = (_TIME.pack(timestamp) for timestamp in window)
        ranges = [KeyRange((EVENTS, low), (EVENTS, high))]

        def read() -> list[Event]:
            rows = latest_of(objects, self._parts(objects), ranges=ranges)
            entries = (entry for batch in rows for entry in entries_of(_holding(batch, question)))
            return [event for event in readable_events(entries, objects.url) if question.fits(event)]

        return sorted(listed_again(read), key=lambda event: event.place)


def _holding(batch: pa.RecordBatch, question: Question) -> pa.RecordBatch:
    """The rows that may have an event of the item that is asked for: its key is among their bytes."""
    import pyarrow.compute as pc

    if question.identity is None or not question.identity[1]:
        return batch
    return batch.filter(pc.match_substring(batch.column("value"), question.identity[1]))
