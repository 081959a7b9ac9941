"""The input goes on growing, and each order is counted once: progress, with a watermark for orders that come late.

    python examples/state/increments.py LOCATION UNTIL [CLUSTER]

It counts the orders up to number UNTIL, from where it stopped last, some at a time. The totals, the position and the watermark
are committed together. Kill it and run it again: it goes on from the last position that was committed.
"""

from __future__ import annotations

import sys

from orders import open_store, orders, session
from pyspark.sql import functions as f

from kvwal.spark.state import Progress

STEP = 250
LATENESS_SECONDS = 30


def main(location: str, until: str, cluster: str = "local") -> int:
    """Count the orders that are new, and print each position."""
    spark = session("orders since the last time")
    with open_store(location, cluster) as store:
        totals = store.map("order-totals")
        progress = Progress(totals, "orders", lateness=LATENESS_SECONDS)
        while (progress.position or 0) < int(until):
            with progress.step() as step:
                begin = step.position or 0
                step.position = min(begin + STEP, int(until))
                found = orders(spark, begin, step.position)
                late = f.col("second") < f.lit(-1 if step.watermark is None else step.watermark)
                for row in (
                    found.groupBy(f.when(late, "late").otherwise(f.col("product")).alias("name")).count().collect()
                ):
                    step[row["name"]] = totals.get(row["name"], 0) + row["count"]
                step.saw(found.agg(f.max("second")).first()[0])
            print(progress.position, progress.watermark, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
