"""The streaming read of the data source `kvwal`: the changes of a business, each once, in batches that a checkpoint repeats.

An offset has, for each node, the last sequence of its log that was read. The rows of a range of sequences are the same whether
the log, an object of the archive or a compacted object has them. So a batch that is planned again has the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kvwal.history.feeds.archived_rows import not_kept, rows_in_order
from kvwal.history.feeds.log_feed import LogFeed
from kvwal.history.reads.entry_rows import to_table
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.stream_logs import LogRange, NodeOffset, StreamLogs
from kvwal.spark.datasource.stream_options import StreamOptions
from kvwal.spark.values import ValueColumns, ValueReader
from kvwal.store.contents.sources import StoredSource, archived_contents
from kvwal.values.reader import StoredValues
from kvwal_archive.contents.values import with_values
from kvwal_archive.faults import ObjectMissing
from kvwal_archive.layout import Place
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.rows import with_node
from kvwal_archive.reader import LISTINGS, live_objects

if TYPE_CHECKING:
    import pyarrow as pa

Offset = dict[str, Any]
Show = Callable[["pa.RecordBatch"], "pa.RecordBatch"]


class ChangesPartition(InputPartition):
    """A range of one node's log."""

    def __init__(self, changes: LogRange) -> None:
        super().__init__(None)
        self.changes = changes


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What the readers of streams of a folder, an archive and a cluster share: the columns that they show."""

    def __init__(self, options: StreamOptions, columns: ValueColumns | None, of_map: Show, shown: Show) -> None:
        """`of_map` leaves out rows that kvwal keeps for itself, and `shown` makes the columns of the source.

        `columns` are those of a query that has given its schema.
        """
        self._options = options
        self._columns = columns
        self._of_map = of_map
        self._shown = shown

    def columns_of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of logs with their nodes as columns of the query."""
        values = None if self._columns is None else ValueReader(self._columns, self._options.read.business)
        for batch in batches:
            rows = self._of_map(batch)
            if rows.num_rows:
                shown = self._shown(rows)
                yield shown if values is None else values.columns(shown, rows.column("value"))


class ChangesReader(StreamReader):
    """The reader of a stream of the changes in a folder, an archive, or both."""

    _logs: StreamLogs | None = None
    _target: dict[str, int] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. Raises ConfigError, BeforeHistory."""
        logs, after = self._opened(), self._options.after
        begun = {}
        for place in logs.places():
            if isinstance(after, dict):
                begun[place.node] = NodeOffset(after.get(place.node, 0))
            else:
                begun[place.node] = logs.beginning(place) if after is None else logs.after(place, after)
        return encoded(begun)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. The reader keeps to both of its limits, and Spark can be told of one."""
        if self._options.rows is not None:
            return ReadMaxRows(self._options.rows)
        return ReadAllAvailable() if self._options.bytes is None else ReadMaxBytes(self._options.bytes)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. Raises ConfigError, ArchiveGap, ArchiveError, CorruptLog."""
        begun = decoded(start)
        ends = self._ends(begun)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._limited(begun, ends)
        found = {node: begun.get(node, NodeOffset(0))._replace(sequence=end) for node, end in ends.items()}
        return (
            start if all(begun.get(node, NodeOffset(0)) == at for node, at in found.items()) else encoded(begun | found)
        )

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader."""
        logs = self._opened()
        return encoded({place.node: NodeOffset(logs.end(place, 0)) for place in logs.places()})

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """See SupportsTriggerAvailableNow: what comes later is left to the next run."""
        logs = self._opened()
        self._target = {place.node: logs.end(place, 0) for place in logs.places()}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """See DataSourceStreamReader. Raises ArchiveGap if a part of the range is not kept any more."""
        logs, begun = self._opened(), decoded(start)
        places = {place.node: place for place in logs.places()}
        found: list[InputPartition] = []
        for node, until in sorted(decoded(end).items()):
            at = begun.get(node, NodeOffset(0))
            if until.sequence > at.sequence and node not in places:
                raise not_kept(Place(*self._options.read.where, node), at.sequence + 1, until.sequence)
            if until.sequence > at.sequence:
                found += [ChangesPartition(part) for part in logs.ranges(places[node], at, until.sequence)]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceStreamReader. It runs on a worker. Raises ArchiveGap, ArchiveDamaged, CorruptLog, CodecError."""
        if not isinstance(partition, ChangesPartition):
            raise TypeError(f"no partition of this reader: {partition!r}")
        yield from self.columns_of(self._rows(partition.changes))

    def _rows(self, changes: LogRange) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        read = self._values(changes.place).read
        found = self._archived(changes) if changes.objects else self._logged(changes)
        for batch in chain.from_iterable(with_values(read, rows) for rows in found):
            yield from with_node(pa.Table.from_batches([batch]), changes.place.node).combine_chunks().to_batches()

    def _archived(self, changes: LogRange) -> Iterator[pa.RecordBatch]:
        objects = open_objects(str(self._archive()))
        for item in changes.objects:
            try:
                yield from rows_in_order(
                    OS_DISK,
                    objects,
                    item.info,
                    item.position,
                    item.last,
                    since=changes.since,
                    compacted=changes.compacted,
                )
            except ObjectMissing:  # compaction removed it since the plan was made; nothing of it was given
                part = changes._replace(position=item.position, last=item.last)
                yield from _compacted(objects, part)

    def _logged(self, changes: LogRange) -> Iterator[pa.RecordBatch]:
        """The rows of the log's files; of the archive where they are gone since the plan was made."""
        archive = self._archive()
        feed = LogFeed(
            OS_DISK, Path(str(self._options.root)), changes.place,
            lambda: None if archive is None else open_objects(archive), changes.position, since=changes.since, own=True,
        )  # fmt: skip
        while feed.position < changes.last:
            rows = feed.read(changes.last)
            if not rows and feed.position < changes.last:
                raise not_kept(changes.place, feed.position + 1, changes.last)
            yield from to_table([row for row in rows if row[0] <= changes.last]).combine_chunks().to_batches()

    def _values(self, place: Place) -> StoredValues:
        """The large values of a log, beside it and in the archive."""
        root, archive = self._options.root, self._archive()
        folders = [] if root is None else [log_folder(Path(str(root)), place)]
        objects = None if archive is None else open_objects(archive)
        source = StoredSource(OS_DISK, lambda: folders, lambda: archived_contents(objects, *place[:3]))
        return StoredValues(place.business, lambda: source)

    def _archive(self) -> str | None:
        return self._opened().archive

    def _ends(self, begun: dict[str, NodeOffset]) -> dict[str, int]:
        """The last sequence of each node that may be read now."""
        logs, target = self._opened(), self._target
        ends = {}
        for place in logs.places():
            at = begun.get(place.node, NodeOffset(0)).sequence
            logs.check_position(place, at)
            end = logs.end(place, at) if target is None else target.get(place.node, at)
            ends[place.node] = max(at, end)
        return ends

    def _limited(self, begun: dict[str, NodeOffset], ends: dict[str, int]) -> dict[str, int]:
        """The ends within the limits of the options. What one node leaves is shared by those behind it."""
        logs = self._opened()
        places = {place.node: place for place in logs.places()}
        rows, size = self._options.rows, self._options.bytes
        waiting = {node: end - begun.get(node, NodeOffset(0)).sequence for node, end in ends.items()}
        limited = dict(ends)
        left = sum(count > 0 for count in waiting.values())
        for node, count in sorted(waiting.items(), key=lambda item: item[1]):
            if not count:
                continue
            at = begun.get(node, NodeOffset(0)).sequence
            each = 1 if size is None else logs.bytes_of_change(places[node], at)
            most = count if rows is None else min(count, max(1, rows // left) if rows else 0)
            most = most if size is None else min(most, max(1, size // left // each))
            limited[node] = at + most
            rows = None if rows is None else rows - most
            size = None if size is None else max(0, size - most * each)
            left -= 1
        return limited

    def _opened(self) -> StreamLogs:
        if self._logs is None:
            self._logs = StreamLogs(self._options)
        return self._logs


def _compacted(objects: Objects, changes: LogRange) -> Iterator[pa.RecordBatch]:
    """The rows of a range, from the objects that have it now."""
    position, missed = changes.position, 0
    while position < changes.last:
        infos = [i for i in live_objects(objects, changes.place) if i.span.first <= position + 1 <= i.span.last]
        if not infos:
            raise not_kept(changes.place, position + 1, changes.last)
        try:
            yield from rows_in_order(
                OS_DISK, objects, infos[0], position, changes.last, since=changes.since, compacted=changes.compacted
            )
        except ObjectMissing:
            missed += 1
            if missed == LISTINGS:
                raise
        else:
            position = min(changes.last, infos[0].span.last)


def encoded(offset: dict[str, NodeOffset]) -> Offset:
    """An offset as Spark keeps it. A `since` of 0 is left out, as earlier versions did not have it."""
    return {
        node: {name: value for name, value in at._asdict().items() if value or name != "since"}
        for node, at in sorted(offset.items())
    }


def decoded(offset: Offset) -> dict[str, NodeOffset]:
    """An offset that `encoded` wrote."""
    return {node: NodeOffset(**at) for node, at in offset.items()}
