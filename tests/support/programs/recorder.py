"""A recorder of a stand-in for Spark, into a cluster, until it is killed: `python -m … ADDRESSES SPOOL`.

It writes one job after the other, and prints the number of each when Spark would have written it.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from typing import Any

from kvwal.spark.recording import recorder
from tests.support.cluster.nodes import CLUSTER
from tests.support.event_logs import job_events
from tests.support.recording.driver import Driver


def main(addresses: str, spool: Path) -> None:
    """Record."""
    spark: Any = None
    recorder.Driver = Driver  # type: ignore[assignment,misc]
    recording: Any = recorder.JobRecorder(
        spark, f"kvwal://{addresses}", cluster=CLUSTER, spool=spool, timeout=5.0
    ).start()
    for job in count():
        recording._driver.listener.write(*job_events(job))
        print(job, flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
