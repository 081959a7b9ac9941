"""Each part of an input is counted once: a ledger of runs.

    python examples/state/parts.py LOCATION DAY [CLUSTER]

It sums the orders of a day by product, a part of them at a time. A part is done together with its sums. Kill the program and
run it again: it does the parts that are missing. Or run two at once on one cluster: each part is committed by one of the two.
"""

from __future__ import annotations

import sys

from orders import open_store, orders, session
from pyspark.sql import functions as f

from kvwal.spark.state import Ledger

ORDERS = 6_000
PARTS = 12


def main(location: str, day: str, cluster: str = "local") -> int:
    """Do the parts that are missing, and print each."""
    spark = session("orders in parts")
    size = ORDERS // PARTS
    with open_store(location, cluster) as store:
        sums = store.map("order-sums")
        ledger = Ledger(sums)
        for part in ledger.missing(day, range(PARTS)):
            with ledger.run(day, part) as run:
                some = orders(spark, int(part) * size, (int(part) + 1) * size)
                for row in (
                    some.groupBy("product").agg(f.count("*").alias("orders"), f.sum("amount").alias("sum")).collect()
                ):
                    run[f"{day}/{row.product}/{part}"] = {"orders": row.orders, "sum": row.sum}
            print(part, run.is_committed, flush=True)
        total = sum(value["orders"] for _, value in sums.scan(f"{day}/"))
        print(f"{total} orders in {PARTS} parts", flush=True)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
