"""Writes of Spark that a test kills: a batch, or the changes of another store as a stream.

Arguments: the kind, the store, and a folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import kvwal.spark
from tests.support.datasource.streams import finish
from tests.support.recording.truth import start_cluster
from tests.support.spark import session

ROWS = 200_000


def batch(store: str, folder: Path) -> None:
    """Write many rows: some transactions."""
    spark = session("batch")
    kvwal.spark.register(spark)
    frame = spark.range(0, ROWS, 1, 4).selectExpr("concat('job-', id) AS key", "repeat('x', 180) AS v")
    frame.write.format("kvwal").options(store=store, business="jobs").mode("append").save()


def stream(store: str, folder: Path) -> None:
    """Write each change of the store `in` under a key of its own, until all of them are written."""
    spark = session("stream")
    kvwal.spark.register(spark)
    source = spark.readStream.format("kvwal").options(store=str(folder / "in"), business="jobs", maxRowsPerTrigger="20")
    changes = source.schema("key STRING, sequence BIGINT, n BIGINT").load()
    written = changes.selectExpr("concat(key, '-', sequence) AS key", "n")
    sink = written.writeStream.format("kvwal").options(store=store, business="jobs")
    finish(sink.option("checkpointLocation", str(folder / "checkpoint")))


def executors(store: str, folder: Path) -> None:
    """Write by two executors of a standalone cluster, one of which is killed by its own task."""
    master = start_cluster(folder)
    spark = session("executors", **{
        "spark.master": master, "spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    })  # fmt: skip
    kvwal.spark.register(spark)
    frame = spark.range(0, 4000, 1, 4).selectExpr("concat('job-', id) AS key", "repeat('x', 100) AS v")
    once = folder / "killed"

    def killing(rows):  # type: ignore[no-untyped-def]
        import os
        import signal

        yield from rows
        try:
            once.touch(exist_ok=False)
        except FileExistsError:
            return
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        os.kill(int(daemon.rpartition(")")[2].split()[1]), signal.SIGKILL)  # the executor's JVM
        signal.pause()

    written = frame.mapInArrow(killing, frame.schema)
    written.write.format("kvwal").options(store=store, business="jobs").mode("append").save()


if __name__ == "__main__":
    {"batch": batch, "stream": stream, "executors": executors}[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
