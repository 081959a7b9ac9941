"""Work of one task each, on the workers of a Spark session: the pieces go out, and the results come back in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

W = TypeVar("W")
R = TypeVar("R")


def run_tasks(spark: SparkSession, work: Callable[[W], R], pieces: Sequence[W], kind: Any) -> list[R]:
    """The results, of the type `kind`, of the work on each piece, which is one task, in the order of the pieces."""
    if not pieces:
        return []
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    rows = numbers.mapInArrow(partial(_task, work, pieces), "number BIGINT, result BINARY").collect()
    decode = msgspec.msgpack.Decoder(kind).decode
    return [decode(result) for _, result in sorted((row.number, bytes(row.result)) for row in rows)]


def _task(work: Callable[[W], R], pieces: Sequence[W], numbers: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    """The results of the pieces with these numbers. It runs on a worker."""
    import pyarrow as pa

    for batch in numbers:
        for number in batch.column("id").to_pylist():
            result = msgspec.msgpack.encode(work(pieces[number]))
            yield pa.RecordBatch.from_pydict({"number": [number], "result": pa.array([result], pa.binary())})
