"""The data source `kvwal`: an archive or another store as a DataFrame, by PySpark's Python DataSource API. Its writers are in
`kvwal.spark.sink`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from kvwal.config import Settings
from kvwal.entry import timestamps_within
from kvwal.history.reads.map_rows import dropped_rows, expired_rows, marks_of, rows_of_map
from kvwal.history.reads.structure_rows import is_of_queues, place_columns, selected_rows
from kvwal.key_class import OWN_MAP
from kvwal.ports.clock import SYSTEM
from kvwal.spark.datasource.cluster_stream import ClusterChangesReader
from kvwal.spark.datasource.filters import wanted
from kvwal.spark.datasource.items import PLACE_FIELDS
from kvwal.spark.datasource.options import ReadOptions, read_options, read_structure
from kvwal.spark.datasource.stores import stored_rows
from kvwal.spark.datasource.stream_options import check_options, stream_options
from kvwal.spark.datasource.stream_reader import ChangesReader, StreamReader
from kvwal.spark.datasource.worker_python import check_workers
from kvwal.spark.sink.marks import without_marks
from kvwal.spark.sink.writers import BatchWriter, StreamWriter, batch_writer, stream_writer
from kvwal.spark.values import ValueColumns, ValueReader, value_columns
from kvwal.sql.text import json_text, key_label
from kvwal.structures.destroyed import Marks
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.contents.values import archived_values, with_values
from kvwal_archive.objects import open_objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.spark.plan import Partition, plan
from kvwal_archive.spark.scan import all_rows, latest_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SCHEMA = StructType([
    StructField("key", StringType()),
    StructField("value", StringType()),
    StructField("key_class", StringType()),
    StructField("value_class", StringType()),
    StructField("timestamp", LongType()),
    StructField("deleted", BooleanType()),
    StructField("node", StringType()),
    StructField("sequence", LongType()),
])  # fmt: skip


def schema_of(structure: str) -> StructType:
    """The columns of a structure. Items of queues have their place, too."""
    return StructType([*PLACE_FIELDS, *SCHEMA.fields]) if is_of_queues(structure) else SCHEMA


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("kvwal")` known to a session: docs/spark-archive.md has its options, columns and errors.

    If the session does not set `spark.sql.python.filterPushdown.enabled`, this sets it to true: then a query for some keys
    reads only the parts of the archive that can hold them. If it is false, it stays so, and queries read all parts. Register
    again after you change it: Spark refuses a source that takes filters while it is false.

    Raises `ConfigError` if the session's workers run on this machine with a Python that cannot import kvwal.
    """
    check_workers(spark)
    if spark.conf.get(PUSHDOWN, None) is None:
        spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PushdownSource if spark.conf.get(PUSHDOWN) == "true" else KvwalSource)


class KvwalSource(DataSource):
    """The source, without a pushdown of filters."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "kvwal"

    def schema(self) -> StructType:
        """See DataSource.schema. Raises ConfigError for wrong options."""
        check_options(self.options)
        return schema_of(read_structure(self.options))

    def reader(self, schema: StructType) -> KvwalReader:
        """See DataSource.reader. Raises ConfigError for wrong options and for a schema that no value can have."""
        return KvwalReader(*self._wanted(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """See DataSource.writer, and `batch_writer`."""
        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - the name is Spark's
        """See DataSource.streamWriter, and `stream_writer`."""
        return stream_writer(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - the name is Spark's
        """See DataSource.streamReader, `ChangesReader` and `ClusterChangesReader`."""
        options = stream_options(self.options)
        columns = _columns(schema, options.read)
        of_cluster = options.archive is None and options.root is None
        structure = options.read.structure
        reader = ClusterChangesReader if of_cluster else ChangesReader
        return reader(options, columns, partial(rows_of, structure=structure), partial(_shown, structure=structure))

    def _wanted(self, schema: StructType) -> tuple[ReadOptions, ValueColumns | None]:
        """The options, and the columns of a query that has given its schema."""
        options = read_options(self.options)
        return options, _columns(schema, options)


class PushdownSource(KvwalSource):
    """The source for sessions in which filters are pushed down."""

    def reader(self, schema: StructType) -> PushdownReader:
        """See KvwalSource.reader."""
        return PushdownReader(*self._wanted(schema))


class ScanPartition(InputPartition):
    """A partition of the archive's plan, with the moment of the query (unix ms) and the marks of a destroyed map."""

    def __init__(self, partition: Partition, now_ms: int, marks: Marks) -> None:
        super().__init__(None)
        self.partition = partition
        self.now_ms = now_ms
        self.marks = marks


class StorePartition(InputPartition):
    """All of a store that is not an archive, at this location, as far as its identities are in the ranges."""

    def __init__(self, store: str, ranges: tuple[KeyRange, ...]) -> None:
        super().__init__(None)
        self.store = store
        self.ranges = ranges


class KvwalReader(DataSourceReader):
    """The reader of one business. Of an archive, ranges of keys are partitions, each merged by its own task."""

    def __init__(self, options: ReadOptions, columns: ValueColumns | None) -> None:
        """`columns` are those of a query that has given its schema, else the rows have those of `schema_of`."""
        self._options = options
        self._columns = columns
        self._wanted = wanted([], options.structure)

    def partitions(self) -> list[InputPartition]:
        """See DataSourceReader.partitions. Raises ConfigError, ArchiveGap, ArchiveDamaged, ArchiveError."""
        options, limits = self._options, self._wanted
        if options.archive is None:
            return [StorePartition(str(options.store), limits.ranges)]
        objects = open_objects(options.archive).for_one_look()
        until = limits.until if options.history else None  # an older entry is only the latest if no younger one is
        partitions = plan(
            objects, *options.where, ranges=limits.ranges, since=limits.since, until=until, latest=not options.history
        )
        marks = Marks({}, 0) if options.history else marks_of(objects, options.where)
        now_ms = SYSTEM.wall_ms()
        return [ScanPartition(partition, now_ms, marks) for partition in partitions or [Partition((), [])]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See DataSourceReader.read. It runs on a worker. Raises ArchiveDamaged, ObjectMissing, CodecError; see `stored_rows`."""
        structure = self._options.structure
        values = None if self._columns is None else ValueReader(self._columns, self._options.business)
        for found in self._rows(partition):
            rows = rows_of(found, structure)
            if rows.num_rows:
                shown = _shown(rows, structure)
                yield shown if values is None else values.columns(shown, rows.column("value"))

    def _rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        options = self._options
        if isinstance(partition, StorePartition):
            yield from stored_rows(partition.store, options.where, partition.ranges, options.structure)
            return
        if not isinstance(partition, ScanPartition) or options.archive is None:
            raise TypeError(f"no partition of this reader: {partition!r}")
        objects = open_objects(options.archive)
        read = archived_values(ArchivedContents(objects, *options.where))
        for batch in (all_rows if options.history else latest_rows)(objects, partition.partition):
            rows = batch if options.history else _live(batch, partition.now_ms, partition.marks)
            yield from with_values(read, rows)


class PushdownReader(KvwalReader):
    """The reader that leaves out what the filters of a query rule out. Spark fails on it if its configuration says false."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 - the name is Spark's
        """See DataSourceReader.pushFilters. All filters are given back: Spark applies them to the rows that are read."""
        self._wanted = wanted(filters, self._options.structure)
        return filters


def _columns(schema: StructType, options: ReadOptions) -> ValueColumns | None:
    """The columns of a query that has given its schema; None if it has the source's own."""
    own = schema_of(options.structure)
    return None if schema == own else value_columns(schema, own, options.mode)


def rows_of(rows: pa.RecordBatch, structure: str) -> pa.RecordBatch:
    """The rows of a structure; of the own map without the marks of its Spark writers."""
    return without_marks(rows_of_map(rows)) if structure == OWN_MAP else selected_rows(rows, structure)


def _live(rows: pa.RecordBatch, now_ms: int, marks: Marks) -> pa.RecordBatch:
    """The rows that are neither deleted, nor expired at `now_ms`, nor void because their map was destroyed."""
    import pyarrow.compute as pc

    gone = pc.or_(rows.column("deleted"), expired_rows(rows, now_ms))
    if marks.own:
        gone = pc.or_(gone, dropped_rows(rows, marks, timestamps_within(Settings().max_skew_seconds)))
    return rows.filter(pc.invert(gone))


def _shown(rows: pa.RecordBatch, structure: str) -> pa.RecordBatch:
    """The rows as columns of `schema_of`: the key as text, the value as JSON text."""
    import pyarrow as pa

    columns = {name: rows.column(name) for name in ("timestamp", "deleted", "node", "sequence")}
    texts = {
        "key": _text(rows, "key", "str", key_label),
        "value": _text(rows, "value", "json", json_text),
        "key_class": rows.column("key_class"),
        "value_class": rows.column("value_class"),
    }
    places = _places(rows) if is_of_queues(structure) else {}
    return pa.RecordBatch.from_pydict({**places, **texts, **columns})


def _places(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    return place_columns(rows.column("key").to_pylist(), rows.column("key_class").to_pylist())


def _text(rows: pa.RecordBatch, name: str, as_it_is: str, convert: Any) -> pa.Array:
    """A column as text. The bytes of rows whose class is `as_it_is` are text already."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data, classes = rows.column(name), rows.column(f"{name}_class")
    if pc.all(pc.equal(classes, as_it_is)).as_py():
        try:
            return data.cast(pa.string())
        except pa.ArrowInvalid:
            pass  # damaged text: the conversion row by row names it
    pairs = zip(data.to_pylist(), classes.to_pylist(), strict=True)
    return pa.array([convert(*pair) for pair in pairs], pa.string())
