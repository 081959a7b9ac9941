"""The order of time along a log: from which segment on to look for the entries after a timestamp.

A writer stamps each entry above all entries before it. A merge of nodes appends entries with the timestamps that they have. So
an entry may stand after younger ones, and only an entry that the log's own writer stamped says that all before it are older.
All segments of one epoch are of one writer, or of one merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from kvwal.entry import TIMESTAMP_SHIFT, Entry
from kvwal.log.files.format import Header

LOOKED_AT = 2
"""Blocks at the beginning of a segment that are looked at. A group that begins a segment was stamped just before that."""


class SegmentStart(NamedTuple):
    """The beginning of a segment: its epoch, its first timestamp, and whether the log's own writer is known to have made it."""

    epoch: int
    first: int
    is_stamped: bool


def start_of(header: Header, blocks: Sequence[list[Entry]]) -> SegmentStart | None:
    """The beginning of a segment with these first blocks; None if it has no entry.

    A merge says so in the header. Merges did not say so before: then entries that are older than their file may be merged.
    """
    entries = list(chain.from_iterable(blocks))
    if not entries:
        return None
    youngest = max(entry.timestamp for entry in entries) >> TIMESTAMP_SHIFT
    is_stamped = header.merged is not True and youngest >= header.created_ms
    return SegmentStart(header.epoch, entries[0].timestamp, is_stamped)


def stamped_before(newest_first: Iterable[SegmentStart | None], timestamp: int) -> int | None:
    """The number of the segment, counted from the newest one, before which every entry of the log is at most `timestamp`.

    None if no segment shows that. No more segments are looked at than needed.
    """
    stamped: set[int] = set()
    candidates: dict[int, int] = {}
    for number, start in enumerate(newest_first):
        if start is None:
            continue
        if start.is_stamped:
            stamped.add(start.epoch)
        if start.first <= timestamp:
            candidates.setdefault(start.epoch, number)
        if start.epoch in stamped and start.epoch in candidates:
            return candidates[start.epoch]
    return None
