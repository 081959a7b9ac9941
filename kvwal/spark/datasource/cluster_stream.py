"""The streaming read of a running cluster. The driver reads the changes when it plans a batch, and the tasks decode them.

So a node that is killed between the planning and the tasks takes nothing with it. The offsets are those of `ChangesReader`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from kvwal.cluster.requests import POLL_SECONDS, WatchStarted
from kvwal.history.reads.entry_rows import from_bytes, to_bytes, to_table
from kvwal.location.cluster import ClusterMaps
from kvwal.location.connect import connect
from kvwal.location.parse import ClusterLocation, parse_location
from kvwal.log.submission import cut
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.spark.datasource.cluster_batches import ClusterBatches, Limits, data_bytes
from kvwal.spark.datasource.stream_logs import NodeOffset
from kvwal.spark.datasource.stream_options import StreamOptions
from kvwal.spark.datasource.stream_reader import Offset, Show, StreamReader, decoded, encoded
from kvwal.spark.values import ValueColumns
from kvwal.structures.watch import Change, Positions

if TYPE_CHECKING:
    import pyarrow as pa

    from kvwal.client.store import ClusterStore

BATCH_BYTES = 32 << 20
"""Keys and values of a batch if no limit is given: the driver has them in memory."""
TASK_BYTES = 512 << 10
"""Keys and values of one task: with more than 1 MB Spark warns of a large task."""


class RowsPartition(InputPartition):
    """Changes, as an Arrow stream."""

    def __init__(self, rows: bytes) -> None:
        super().__init__(None)
        self.rows = rows


class ClusterChangesReader(StreamReader):
    """The reader of a stream of the changes of a cluster's map."""

    _store: ClusterStore | None = None
    _batches: ClusterBatches | None = None
    _target: Positions | None = None
    _dry: float | None = None
    """When a question last found no change."""

    def __init__(self, options: StreamOptions, columns: ValueColumns | None, of_map: Show, shown: Show) -> None:
        """See `StreamReader`."""
        super().__init__(options, columns, of_map, shown)
        self._held: dict[tuple[str, str], list[Change]] = {}
        """The changes of the batches that are not committed, by their offsets."""

    def initialOffset(self) -> Offset:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. Raises ConfigError, BeforeHistory, ClusterUnreachable."""
        source, after = self._opened().source, self._options.after
        return _offset(source.begin_with_all() if after is None else source.begin(after))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. The reader keeps to both of its limits, and Spark can be told of one."""
        if self._options.rows is not None:
            return ReadMaxRows(self._options.rows)
        return ReadMaxBytes(self._options.bytes or BATCH_BYTES)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. Members are asked five times a second at most.

        Raises ConfigError, ArchiveGap, ArchiveError, ClusterUnreachable.
        """
        batches, target = self._opened(), self._target
        if target is None and self._dry is not None and SYSTEM.elapsed() - self._dry < POLL_SECONDS:
            return start
        limits = Limits(self._options.rows, self._options.bytes or BATCH_BYTES)
        changes, at = batches.read(_place(start), Limits() if isinstance(limit, ReadAllAvailable) else limits, target)
        self._dry = None if changes else SYSTEM.elapsed()
        if not changes:
            return start
        end = _offset(at)
        self._held[_name(start, end)] = changes
        return end

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - the name is Spark's
        """See DataSourceStreamReader. Not told: Spark asks before each batch, and members would be asked twice as often."""
        return None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - the name is Spark's
        """See SupportsTriggerAvailableNow: what comes later is left to the next run."""
        self._target = self._opened().source.begin(None).positions

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """See DataSourceStreamReader. Raises ArchiveGap if a batch of an earlier run cannot be read again now."""
        name = _name(start, end)
        if name not in self._held:
            self._held[name] = self._opened().replay(_place(start), _place(end).positions)
        return [RowsPartition(_rows(piece)) for piece in cut(self._held[name], TASK_BYTES, data_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceStreamReader. It runs on a worker. Raises CodecError."""
        if not isinstance(partition, RowsPartition):
            raise TypeError(f"no partition of this reader: {partition!r}")
        yield from self.columns_of(from_bytes(partition.rows).combine_chunks().to_batches())

    def commit(self, end: Offset) -> None:
        """See DataSourceStreamReader. The rows up to the committed offset are not kept any more."""
        wanted = json.dumps(end)
        names = list(self._held)
        for number, name in enumerate(names):
            if name[1] == wanted:
                for done in names[: number + 1]:
                    del self._held[done]

    def stop(self) -> None:
        """See DataSourceStreamReader. The connection is closed."""
        if self._store is not None:
            self._store.close()

    def _opened(self) -> ClusterBatches:
        if self._batches is None:
            self._batches = self._open()
        return self._batches

    def _open(self) -> ClusterBatches:
        """Connect. A business that is not there is refused, because Hazelcast would make it."""
        read = self._options.read
        location = parse_location(OS_DISK, str(read.store))
        if not isinstance(location, ClusterLocation):
            raise TypeError(f"{location!r} is no cluster")
        store = self._store = connect(location.addresses, cluster=read.cluster, namespace=read.namespace)
        maps = ClusterMaps(store)
        maps.check_there(read.business)
        return ClusterBatches(maps.map(read.business).logged_changes(), "/".join(read.where))


def _place(offset: Offset) -> WatchStarted:
    nodes = decoded(offset)
    since = max((at.since for at in nodes.values()), default=0)
    compacted = {node: at.thinned for node, at in nodes.items() if at.thinned}
    return WatchStarted({node: at.sequence for node, at in nodes.items()}, since, compacted)


def _offset(at: WatchStarted) -> Offset:
    return encoded({
        node: NodeOffset(sequence, at.compacted.get(node, 0), at.since) for node, sequence in at.positions.items()
    })  # fmt: skip


def _name(start: Offset, end: Offset) -> tuple[str, str]:
    return json.dumps(start), json.dumps(end)


def _rows(changes: list[Change]) -> bytes:
    import pyarrow as pa

    rows = to_table([(change.sequence, change.entry) for change in changes])
    return to_bytes(rows.append_column("node", pa.array([change.node for change in changes], pa.string())))
