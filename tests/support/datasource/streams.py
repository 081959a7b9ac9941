"""Queries that read a stream of kvwal: to their end, from a checkpoint, and on a machine that is busy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import DataStreamWriter


def patiently(run: Callable[[], object]) -> None:
    """Run a query, again from its checkpoint if a busy machine did not start Spark's Python within Spark's ten seconds."""
    while True:
        try:
            run()
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return


def finish(stream: DataStreamWriter) -> None:
    """Read all that is there now, then stop."""
    patiently(lambda: stream.trigger(availableNow=True).start().awaitTermination())


class Stream:
    """A streaming query with a checkpoint. `batches` are the rows of each batch, by its number."""

    def __init__(self, spark: SparkSession, checkpoint: Path, **options: str) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._options = {"business": "jobs", **options}
        self.batches: dict[int, list[Row]] = {}
        self.fails_at: int | None = None

    def run(self) -> None:
        """Read all that is there now, then stop."""
        frame = self._spark.readStream.format("kvwal").options(**self._options).load()
        finish(frame.writeStream.foreachBatch(self._take).option("checkpointLocation", str(self._checkpoint)))

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = sorted(batch.collect(), key=lambda row: (row.node, row.sequence))
        assert self.batches.get(number, rows) == rows, "a batch that is planned again has the same rows"
        self.batches[number] = rows
        if number == self.fails_at:
            raise RuntimeError("the sink failed")

    @property
    def rows(self) -> list[Row]:
        """The rows of all batches, in the order of the batches."""
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    @property
    def sequences(self) -> list[int]:
        """The sequences of all rows."""
        return [row.sequence for row in self.rows]
