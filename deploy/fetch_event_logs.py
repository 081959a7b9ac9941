"""Fetch the event logs that Spark's own tests read, and the answers that they expect, into `.cache/jars/event-logs`.

They are in the published test jars of Spark, 25 MB, which deploy/event-log-jars.txt lists by SHA-256. Only
`tests/integration/history_server` reads them. Without a network the script prints so and exits with 0: those tests are skipped.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pinned_jars

TABLE = Path(__file__).resolve().parent / "event-log-jars.txt"
FOLDER = pinned_jars.FOLDER / "event-logs"


def main() -> int:
    """Fetch or check the jars. 0 if they are there or cannot be had; 1 if a fetched jar has another SHA-256."""
    return pinned_jars.bring(
        FOLDER,
        TABLE,
        "Only the tests of Spark's published event logs need them: with a network,"
        " `python deploy/fetch_event_logs.py` fetches them.",
        offline=0,
    )


if __name__ == "__main__":
    sys.exit(main())
