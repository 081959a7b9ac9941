"""A client of Spark Connect that reads, writes, streams, and maintains an archive; what it found goes to standard output as JSON.

`python -m tests.support.datasource.connect FOLDER`: the folder has a store `store`, whose business `jobs` is archived.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kvwal.spark
from kvwal_archive.spark import base, merge, rewrite, verify

WHERE = {"namespace": "default", "cluster": "local", "business": "jobs"}


def found_by(spark: Any, folder: Path) -> dict[str, Any]:
    """What each use of the data source and of `kvwal_archive.spark` gives."""
    store, archive = str(folder / "store"), str(folder / "store" / "_archive")
    kvwal.spark.register(spark)
    source = spark.read.format("kvwal").options(archive=archive, business="jobs")
    found: dict[str, Any] = {
        "one key": [list(row) for row in source.load().where("key = 'job-7'").select("key", "value").collect()]
    }
    typed = spark.read.format("kvwal").options(store=store, business="jobs").schema("key STRING, ms BIGINT").load()
    found["typed"] = sorted(list(row) for row in typed.where("ms > 97").collect())
    spark.sql(f"CREATE TEMPORARY VIEW jobs USING kvwal OPTIONS (archive '{archive}', business 'jobs')").collect()
    found["view"] = spark.sql("SELECT count(*) AS n FROM jobs").collect()[0].n
    typed.write.format("kvwal").options(store=str(folder / "copy"), business="batch").mode("append").save()
    changes = (
        spark.readStream.format("kvwal").options(store=store, business="jobs").schema("key STRING, ms BIGINT").load()
    )
    sink = changes.writeStream.format("kvwal").options(store=str(folder / "copy"), business="stream")
    sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    found["merge"] = merge(spark, archive, **WHERE).count()
    found["base"] = sum(part.footer.rows for part in base(spark, archive, **WHERE).parts)
    found["rewrite"] = len(rewrite(spark, archive, **WHERE, force=True))
    found["verify"] = verify(spark, archive, **WHERE).findings
    found["restore"] = kvwal.spark.restore(spark, archive, str(folder / "restored")).entries
    return found


def main() -> None:
    """Begin a server of Spark Connect in a process of its own, and be its client."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    print(json.dumps(found_by(spark, Path(sys.argv[1]))))
    spark.stop()


if __name__ == "__main__":
    main()
