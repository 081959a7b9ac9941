"""The archive as DataFrames. A task needs nothing but this package, pyarrow and the filesystem of the URL on its worker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.contents.values import archived_values, with_values
from kvwal_archive.layout import check_name
from kvwal_archive.objects import open_objects
from kvwal_archive.parquet.key_ranges import KeyRange, structure_ranges
from kvwal_archive.spark.plan import Partition, plan
from kvwal_archive.spark.scan import all_rows, latest_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("key", "value", "key_class", "value_class", "timestamp", "deleted", "node", "sequence")
_SCANNED = (
    "key BINARY, key_class STRING, value BINARY, value_class STRING, deleted BOOLEAN, timestamp BIGINT, expires BIGINT,"
    " sequence BIGINT, node STRING"
)
PLACES = ("structure", "priority", "position")
_QUEUE, _OF_ITEMS = "queue", ":int"
_NUMBER = (
    "CAST(conv(lpad(substring(hex(key), 3), 16, IF(substring(hex(key), 1, 2) < '80', 'F', '0')), 16, -10) AS BIGINT)"
)
"""The key of an item as a number: a byte with its length, and the bytes of the number; a negative one as two's complement."""
_BITS = 58
"""Bits of the position of an item. Those above them are its priority."""
_LIVE = "NOT deleted AND (expires = 0 OR expires > unix_millis(current_timestamp()))"


def merge(
    spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str, structure: str = ""
) -> DataFrame:
    """The latest row of every key that is neither deleted nor expired, over all registered nodes.

    The columns are `COLUMNS`: `key` and `value` are bytes, `timestamp` is of the hybrid clock. A row expires by the clock of
    the driver when the query starts. Rows of every class of keys come, those of kvwal's own marks too. The objects are those
    that the archive has during this call.

    With `structure` only the rows of that structure are read and come: `queue/NAME`, `queue` for the business's own queue,
    `queue/*` for all queues, `map/NAME`. Rows of queues are those of items, and have the columns `PLACES` before the others: the
    structure, and the priority and the position in the queue.

    Raises InvalidName for a wrong structure, ConfigError for a wrong URL and an unknown business, ArchiveGap if a range of a log
    is missing, ArchiveDamaged and ArchiveError. What a task finds later comes as Spark's PythonException, with the same sentence.
    """
    frame = _frame(spark, url, (namespace, cluster, business), structure, latest=True)
    return _shown(frame.where(_LIVE), structure)


def history(
    spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str, structure: str = ""
) -> DataFrame:
    """Every row that the archive has of a business, deletes included, each (node, sequence) of a key once.

    Rows that compaction removed below a horizon are missing. Structure, columns and errors are those of `merge`.
    """
    return _shown(_frame(spark, url, (namespace, cluster, business), structure, latest=False), structure)


def _shown(frame: DataFrame, structure: str) -> DataFrame:
    """The frame with its columns; of items with their places."""
    if structure.partition("/")[0] != _QUEUE:
        return frame.select(*COLUMNS)
    places = (
        "substring_index(key_class, ':', 1) AS structure",
        f"CAST(shiftright({_NUMBER}, {_BITS}) AS INT) AS priority",
        f"{_NUMBER} & {(1 << _BITS) - 1}L AS position",
    )
    return frame.where(f"key_class LIKE '%{_OF_ITEMS}'").selectExpr(*places, *COLUMNS)


def _frame(spark: SparkSession, url: str, where: tuple[str, str, str], structure: str, *, latest: bool) -> DataFrame:
    for part in structure.split("/", 1) if structure else ():
        if part != "*":
            check_name("structure", part)
    ranges = structure_ranges(structure) if structure else (KeyRange(),)
    partitions = plan(open_objects(url).for_one_look(), *where, ranges=ranges, latest=latest)
    numbers = spark.range(0, len(partitions), 1, max(1, len(partitions)))
    return numbers.mapInArrow(partial(_scan, url, where, partitions, latest), _SCANNED)


def _scan(
    url: str, where: tuple[str, str, str], partitions: list[Partition], latest: bool, numbers: Iterator[Any]
) -> Iterator[pa.RecordBatch]:
    """The rows of the partitions with these numbers, with the bytes of large values. It runs on a worker."""
    objects, rows = open_objects(url), latest_rows if latest else all_rows
    read = archived_values(ArchivedContents(objects, *where))
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            for found in rows(objects, partitions[number]):
                yield from with_values(read, found)
