"""The rows that an archive has of one log, in the order of the log, with bounded memory.

An object is sorted by key. So each object is sorted anew by sequence when its turn comes: in memory, or a large one by temporary
files (`TimeOrder`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvwal.entry import time_mark
from kvwal.errors import ArchiveGap
from kvwal.history.feeds.segment_cursor import Rows
from kvwal.history.reads.entry_rows import entries_of
from kvwal.history.reads.sort_by_time import TimeOrder
from kvwal.ports.disk import Disk, scratch_folder
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects
from kvwal_archive.parquet.columns import open_columns
from kvwal_archive.parquet.rows import COLUMNS, ObjectInfo, schema
from kvwal_archive.reader import LISTINGS, listed_again, live_objects, without_gaps

if TYPE_CHECKING:
    import pyarrow as pa

PAGE_ROWS = 2_000
_BATCH_ROWS = 16_384


def first_position(objects: Objects, place: Place, timestamp: int) -> int:
    """The sequence before the first object that has an entry after `timestamp`: where to begin to read.

    Raises BeforeHistory if compaction has removed entries after `timestamp`, ArchiveGap if a range of the log is missing.
    """
    infos = without_gaps(place, live_objects(objects, place), at=timestamp)
    for info in infos:
        if info.footer.max_timestamp > timestamp:
            return info.span.first - 1
    return max((info.span.last for info in infos), default=0)


def last_up_to(objects: Objects, place: Place, timestamp: int) -> int:
    """The sequence before the first archived entry after this timestamp. Raises as `first_position`."""
    import pyarrow.compute as pc

    position = first_position(objects, place, timestamp)
    following = [info for info in live_objects(objects, place) if info.span.first == position + 1]
    if not following:
        return position
    with open_columns(objects, following[-1], ("timestamp", "sequence")) as opened:
        later = [
            batch.filter(pc.greater(batch.column("timestamp"), timestamp)) for batch in opened.batches(_BATCH_ROWS)
        ]
        opened.check()
    firsts = [pc.min(batch.column("sequence")).as_py() - 1 for batch in later if batch.num_rows]
    return min(firsts, default=following[-1].span.last)


def compacted_up_to(infos: Iterable[ObjectInfo]) -> int:
    """The last sequence of those of a log's objects from which compaction has removed rows; 0 if it has removed none."""
    return max((info.span.last for info in infos if info.span.horizon), default=0)


def archived_rows(
    disk: Disk, objects: Objects, place: Place, position: int, *, since: int = 0, compacted: int = 0
) -> Iterator[Rows]:
    """The rows after the sequence `position`, in pages, as far as the archive has them without a gap.

    Rows up to the timestamp `since` are left out. Up to the sequence `compacted` rows may be missing. If the last rows of an
    object are left out or missing, a time mark stands at its end, so that a reader comes past it. Raises ArchiveGap if compaction
    has removed other rows after `position` and `since`, ArchiveDamaged, ArchiveError.
    """
    missed = 0
    while True:
        infos = listed_again(lambda: live_objects(objects, place))
        try:
            for info in infos:
                if info.span.first <= position + 1 <= info.span.last:
                    last = position
                    for batch in rows_in_order(disk, objects, info, position, since=since, compacted=compacted):
                        last = batch.column("sequence")[-1].as_py()
                        yield from pages(batch)
                    position, missed = info.span.last, 0
                    if last < position and (since or position <= compacted):
                        yield [(position, time_mark(info.footer.max_timestamp))]
        except ObjectMissing:  # compaction removed it; nothing of it was given
            missed += 1
            if missed == LISTINGS:
                raise
        else:
            return


def rows_in_order(
    disk: Disk,
    objects: Objects,
    info: ObjectInfo,
    position: int,
    last: int | None = None,
    *,
    since: int = 0,
    compacted: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The rows of one object after the sequence `position`, up to the sequence `last` if given, sorted by sequence.

    Every byte is checked before the first row comes. Raises ArchiveGap if compaction has removed rows that are younger than
    `since` and after the sequence `compacted`; ObjectMissing, ArchiveDamaged.
    """
    import pyarrow.compute as pc

    end = info.span.last if last is None else min(last, info.span.last)
    begin = max(position, compacted)
    count = 0
    with scratch_folder() as scratch:
        order = TimeOrder(disk, scratch, "sequence")
        with open_columns(objects, info, COLUMNS) as opened:
            for batch in opened.batches(_BATCH_ROWS):
                rows = _within(batch, position, end)
                count += pc.sum(pc.greater(rows.column("sequence"), begin)).as_py() or 0
                rows = rows.filter(pc.greater(rows.column("timestamp"), since))
                if rows.num_rows:
                    order.add(rows)
            opened.check()
        if info.span.horizon > since and end > begin and count != end - begin:
            raise compacted_away(info, begin, end, count)
        yield from order.in_order()


def _within(batch: pa.RecordBatch, position: int, end: int) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [batch.column(name).cast(schema().field(name).type) for name in COLUMNS]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema())
    numbers = rows.column("sequence")
    return rows.filter(pc.and_(pc.greater(numbers, position), pc.less_equal(numbers, end)))


def pages(batch: pa.RecordBatch) -> Iterator[Rows]:
    """Rows as entries with their sequences, some thousand at a time."""
    for start in range(0, len(batch), PAGE_ROWS):
        part = batch.slice(start, PAGE_ROWS)
        yield list(zip(part.column("sequence").to_pylist(), entries_of(part), strict=True))


def compacted_away(info: ObjectInfo, position: int, end: int, count: int) -> ArchiveGap:
    """The error of a reader that fell behind the history that is kept."""
    return ArchiveGap(
        f"{info.footer.place.prefix}: of sequences {position + 1}–{end} the archive has kept {count}: compaction has removed"
        " changes that this reader has not seen.",
        hint="Read the latest state, then go on from a later position; the setting `history_seconds` says how long every"
        " change is kept.",
    )


def not_kept(place: Place, first: int, last: int) -> ArchiveGap:
    """The error of a reader whose next changes are neither in the log nor in the archive."""
    return ArchiveGap(
        f"{'/'.join(place)}: the changes of sequences {first}–{last} are neither in the log nor in the archive.",
        hint="Read the latest state, then go on from a later position. Without an archive, changes are kept until the next"
        " checkpoint.",
    )
