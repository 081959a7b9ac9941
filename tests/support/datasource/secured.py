"""A driver that reads, writes and streams a cluster with a token, which is in its environment; the rows go to standard output.

Arguments: the location of the cluster, its name, and a folder for the checkpoint.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import kvwal.spark
from tests.support.datasource.streams import finish
from tests.support.spark import session


def main(location: str, cluster: str, checkpoint: str) -> None:
    """Write two rows from the workers, and show them as a batch and as a stream."""
    spark = session("secured")
    kvwal.spark.register(spark)
    of_jobs = {"store": location, "cluster": cluster, "business": "jobs"}
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "key STRING, n BIGINT")
    rows.write.format("kvwal").options(**of_jobs).mode("append").save()
    found: dict[str, Any] = {"batch": [], "stream": []}

    def take(frame: Any, kind: str) -> None:
        found[kind] += sorted([row.key, row.n] for row in frame.select("key", "n").collect())

    take(spark.read.format("kvwal").options(**of_jobs).schema("key STRING, n BIGINT").load(), "batch")
    changes = spark.readStream.format("kvwal").options(**of_jobs).schema("key STRING, n BIGINT").load()
    written = changes.writeStream.foreachBatch(lambda frame, _: take(frame, "stream"))
    finish(written.option("checkpointLocation", checkpoint))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
