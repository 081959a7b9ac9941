"""An application that is recorded into a folder and into a cluster at once: `python -m … NAME FOLDER ADDRESS`.

It leaves Spark's own event log under FOLDER/logs and the records of a folder under FOLDER/root, and prints its id.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from examples.flights.app import once
from kvwal.spark import JobRecorder
from tests.support.cluster.nodes import CLUSTER
from tests.support.recording.truth import streaming
from tests.support.spark import session

APPLICATIONS: dict[str, Callable[[SparkSession, Path], None]] = {"flights": once, "streaming": streaming}


def main(name: str, folder: Path, address: str) -> None:
    """Run one application."""
    logs = folder / "logs"
    logs.mkdir(parents=True)
    spark = session(name, **{
        "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": logs.as_uri(), "spark.sql.warehouse.dir": str(folder / "warehouse"),
    })  # fmt: skip
    print(spark.sparkContext.applicationId, flush=True)
    in_cluster = JobRecorder(spark, f"kvwal://{address}", cluster=CLUSTER, spool=folder / "spool", strict=True)
    with JobRecorder(spark, folder / "root", strict=True), in_cluster:
        APPLICATIONS[name](spark, folder)
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
