"""A restore on Spark: the workers merge the archive, and write to a target of the caller or send the rows to the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kvwal_archive.faults import ObjectMissing
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import listed_again
from kvwal_archive.restore import RestoreResult, restored_by
from kvwal_archive.spark.plan import Partition, check_business, partitions_of
from kvwal_archive.spark.scan import latest_rows
from kvwal_archive.spark.tasks import run_tasks
from kvwal_archive.view import latest_parts

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

R = TypeVar("R")
Write = Callable[[Iterator["pa.RecordBatch"]], R]
"""Writes the latest rows of one range of keys to a target, and returns what is known of them. It runs on a worker."""


def restore(
    spark: SparkSession,
    url: str,
    write: Write[R],
    kind: type[R],
    *,
    namespace: str,
    cluster: str,
    business: str,
    at: int | None = None,
) -> list[R]:
    """Write the latest row of every key of a business to a target, in parallel, and return what `write` returned for each range.

    `write` is called on the workers with batches of one range of keys: the columns of `node_schema`
    (`kvwal_archive.parquet.rows`), deletes and expired rows too. It returns values of the type `kind`, which msgspec encodes.
    Spark may call it again with the same rows: a second time must do no harm. With `at`, rows up to that timestamp count.
    The call may be made again after any error. Raises as `kvwal_archive.spark.merge`; what a task finds comes as Spark's
    PythonException, with the same sentence.
    """
    objects = open_objects(url).for_one_look()
    check_business(objects, namespace, cluster, business)

    def restored() -> list[R]:
        partitions = partitions_of(objects, latest_parts(objects, namespace, cluster, business, at=at))
        return run_tasks(spark, partial(_write, url, write, at), partitions, kind)

    return listed_again(restored)


def _write(url: str, write: Write[R], at: int | None, partition: Partition) -> R:
    return write(latest_rows(open_objects(url), partition, at))


def restore_batches(
    spark: SparkSession,
    objects: Objects,
    namespace: str,
    cluster: str,
    business: str,
    *,
    nodes: Mapping[str, None] | None = None,
    at: int | None = None,
) -> RestoreResult:
    """`kvwal_archive.restore.restore_batches` whose objects are read and merged by the workers of the session.

    The merged rows wait on the workers, in memory and on their disks, until the driver has taken them. Every object was read and
    checked when this returns. Raises as `restore`.
    """

    def read() -> RestoreResult:
        look = objects.for_one_look()
        node_parts = latest_parts(look, namespace, cluster, business, nodes, at, events=True)
        partitions = partitions_of(look, node_parts)
        return restored_by(objects, node_parts, at, _merged(spark, objects.address, partitions, at))

    return listed_again(read)


def _merged(spark: SparkSession, url: str, partitions: list[Partition], at: int | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    if not partitions:
        return
    numbers = spark.range(0, len(partitions), 1, len(partitions))
    frame = numbers.mapInArrow(partial(_scan, url, partitions, at), "failed STRING, rows BINARY").persist()
    try:
        for failed in frame.where("failed IS NOT NULL").limit(1).collect():
            raise ObjectMissing(failed["failed"])
        for row in frame.toLocalIterator():
            with pa.ipc.open_stream(bytes(row["rows"])) as stream:
                yield from stream
    finally:
        frame.unpersist()


def _scan(url: str, partitions: list[Partition], at: int | None, numbers: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """The merged rows of the partitions, each batch as a stream of Arrow in one value; a sentence if an object has gone."""
    objects = open_objects(url)
    for batch in numbers:
        for number in batch.column("id").to_pylist():
            try:
                for rows in latest_rows(objects, partitions[number], at):
                    yield _row(None, _stream_of(rows))
            except ObjectMissing as error:
                yield _row(str(error), None)


def _stream_of(rows: pa.RecordBatch) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def _row(failed: str | None, rows: bytes | None) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict(
        {"failed": pa.array([failed], pa.string()), "rows": pa.array([rows], pa.binary())}
    )
