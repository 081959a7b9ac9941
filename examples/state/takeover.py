"""One driver works at a time, and another takes over when it is gone: a fenced lease, and progress under it.

    python examples/state/takeover.py kvwal://host:port UNTIL CLUSTER [SECONDS]

Run two of them. One counts orders, the other waits. Kill the first, or stop it with Ctrl-Z: after SECONDS the other goes on from
the last position. A driver that was stopped and goes on later has its writes refused by the store, and ends with exit code 3.
"""

from __future__ import annotations

import sys

from orders import open_store, orders, session
from pyspark.sql import functions as f

from kvwal.spark.state import Lease, LeaseLost, Progress

STEP = 100


def main(location: str, until: str, cluster: str, seconds: str = "60") -> int:
    """Count orders while this driver holds the lease, and print each position with the token."""
    spark = session("orders, by one driver at a time")
    code = 0
    with open_store(location, cluster) as store:
        state = store.map("order-count")
        try:
            with Lease(state, "orders", seconds=float(seconds)) as lease:
                progress = Progress(lease, "orders")
                position = progress.position or 0
                # By its own last step: what is read again may be the next holder's work, which ends the loop without a word.
                while position < int(until):
                    with progress.step() as step:
                        begin = step.position or 0
                        step.position = min(begin + STEP, int(until))
                        for row in (
                            orders(spark, begin, step.position)
                            .groupBy("product")
                            .agg(f.count("*").alias("n"))
                            .collect()
                        ):
                            step[row.product] = state.get(row.product, 0) + row.n
                        step[f"token/{step.position}"] = lease.token
                    position = step.position
                    print(position, lease.token, flush=True)
        except LeaseLost as error:
            print(f"refused: {error}", flush=True)
            code = 3
    spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
