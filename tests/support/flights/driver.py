"""The flights of the examples, run twice and recorded, with Spark's own answers: `python -m tests.support.flights.driver FOLDER`.

Under FOLDER it leaves `root`, what kvwal recorded; `logs`, Spark's event logs; `work`, what the application read and wrote; and
for each application a folder of its id: the answers of Spark's REST API and the pages of its live UI, asked when all jobs had
ended. It prints the ids in their order.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from urllib.request import urlopen

from pyspark.sql import SparkSession

from examples.flights.app import local_settings, once
from kvwal.spark import JobRecorder
from tests.support.java.drivers import prepare_drivers
from tests.support.recording.rest_rows import REST_SETTINGS, ask, write_answers

RUNS = 2
"""The second run has one before it: so there is one to compare it with."""
STAGES = "/stages?withSummaries=true&quantiles=0.0,0.25,0.5,0.75,0.95,1.0"
STREAMS = "/StreamingQuery/"
"""The page of streaming queries: the REST API has no word for them."""


def run(folder: Path) -> str:
    """Run the application once; its id."""
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "work", ignore_errors=True)
    builder = SparkSession.builder.appName("flights")
    for setting, value in {
        **local_settings(str(folder / "work")), **REST_SETTINGS, "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": logs.as_uri(), "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
    }.items():  # fmt: skip
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    app: str = spark.sparkContext.applicationId
    with JobRecorder(spark, folder / "root", archive=None):
        once(spark, str(folder / "work"))
        ask_spark(spark, folder / app)
        spark.stop()
    return app


def ask_spark(spark: SparkSession, answers: Path) -> None:
    """Write down what Spark says of the application while it is alive."""
    context = spark.sparkContext
    write_answers(spark, answers)
    (answers / "stages.json").write_bytes(ask(context, STAGES))
    (answers / "rdds.json").write_bytes(ask(context, "/storage/rdd"))
    tasks = {}
    for stage in json.loads((answers / "stages.json").read_text()):
        if stage["status"] != "SKIPPED":
            name = f"{stage['stageId']}/{stage['attemptId']}"
            tasks[name] = json.loads(ask(context, f"/stages/{name}/taskList?length=100000"))
    (answers / "tasks.json").write_text(json.dumps(tasks))
    with urlopen(f"{context.uiWebUrl}{STREAMS}") as page:
        (answers / "streams.html").write_bytes(page.read())


def main(folder: Path) -> None:
    """Run the application, and run it again."""
    prepare_drivers()
    for _ in range(RUNS):
        print(run(folder), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
