"""A job that works off a list: each part of the orders is taken from a queue, counted, and reported, in one transaction.

    python examples/state/worklist.py ROOT PARTS

The first run puts the numbers 0 to PARTS - 1 on the list. A part is in flight while Spark counts it. Kill the job and run it
again: the part that it was at is back at the head of the list, and no part counts twice.
"""

from __future__ import annotations

import sys
from queue import Empty

from orders import orders, session
from pyspark.sql import functions as f

import kvwal

SIZE = 200


def main(root: str, parts: str) -> int:
    """Count the parts that are on the list, and print each."""
    spark = session("a work list of orders")
    with kvwal.open(root) as store:
        work = store.business("orders")
        with work.transaction() as t:  # the list is put once: it, and that it was, are one transaction
            if "parts" not in work.map("plan"):
                t.queue("todo").put_many(range(int(parts)))
                t.map("plan")["parts"] = int(parts)
        while True:
            with work.transaction() as t:
                try:
                    part = t.queue("todo").take(timeout=0)
                except Empty:
                    break
                totals = t.map("totals")
                for row in orders(spark, part * SIZE, (part + 1) * SIZE).groupBy(f.col("product")).count().collect():
                    totals[row["product"]] = totals.get(row["product"], 0) + row["count"]
                t.queue("done").put(part)
            print(part, flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
