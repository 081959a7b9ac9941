"""The archive as DataFrames. A task needs nothing but this package, pyarrow and the filesystem of the URL on its worker."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from kvwal_archive.objects import open_objects
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
_LIVE = "NOT deleted AND (expires = 0 OR expires > unix_millis(current_timestamp()))"


def merge(spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str) -> DataFrame:
    """The latest row of every key that is neither deleted nor expired, over all registered nodes.

    The columns are `COLUMNS`: `key` and `value` are bytes, `timestamp` is of the hybrid clock. A row expires by the clock of
    the driver when the query starts. Rows of every class of keys come, those of kvwal's own marks too. The objects are those
    that the archive has during this call.

    Raises ConfigError for a wrong URL and an unknown business, ArchiveGap if a range of a log is missing, ArchiveDamaged and
    ArchiveError. What a task finds later comes as Spark's PythonException, with the same sentence.
    """
    return _frame(spark, url, (namespace, cluster, business), latest=True).where(_LIVE).select(*COLUMNS)


def history(spark: SparkSession, url: str, *, namespace: str, cluster: str, business: str) -> DataFrame:
    """Every row that the archive has of a business, deletes included, each (node, sequence) of a key once.

    Rows that compaction removed below a horizon are missing. Columns and errors are those of `merge`.
    """
    return _frame(spark, url, (namespace, cluster, business), latest=False).select(*COLUMNS)


def _frame(spark: SparkSession, url: str, where: tuple[str, str, str], *, latest: bool) -> DataFrame:
    partitions = plan(open_objects(url).for_one_look(), *where, latest=latest)
    numbers = spark.range(0, len(partitions), 1, max(1, len(partitions)))
    return numbers.mapInArrow(partial(_scan, url, partitions, latest), _SCANNED)


def _scan(url: str, partitions: list[Partition], latest: bool, numbers: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """The rows of the partitions with these numbers. It runs on a worker."""
    objects, rows = open_objects(url), latest_rows if latest else all_rows
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            yield from rows(objects, partitions[number])
