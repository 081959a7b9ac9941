"""`make spark-api`: the answers that Spark's tests expect, and those of a real History Server, beside the console's.

Prints a table, and ends with 1 if a field differs that docs/history-server.md gives no reason for.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.support.history_server import published
from tests.support.spark_api.comparison import kind_of
from tests.support.spark_api.measured import Compared, beside_expectations, beside_history_server


def main() -> int:
    """Compare all versions whose jars are here. 2 if none is."""
    versions = [version for version in published.versions() if list(published.JARS.glob(f"*-{version}-tests.jar"))]
    if not versions:
        print("No jar of event logs is here, and none could be fetched: see deploy/fetch_event_logs.py.")
        return 2
    different = 0
    for version in versions:
        with tempfile.TemporaryDirectory() as name:
            work = Path(name)
            folder = published.unpack(version, work / "jar")
            logs = folder / published.LOGS
            count = len(list(logs.iterdir()))
            compared = {
                f"what the tests of Spark {version} expect": beside_expectations(folder, version, work),
                f"a History Server of Spark 4.3 over the logs of {version}": beside_history_server(logs, count, work),
            }
        for title, each in compared.items():
            print(f"\n{title}\n")
            _print(each)
            different += len(each.different)
    return 1 if different else 0


def _print(compared: Compared) -> None:
    wrong = Counter(kind for kind, _ in {(kind_of(each.question), each.question) for each in compared.different})
    print(f"{'question':40} {'asked':>6} {'equal':>6}")
    for kind, count in sorted(compared.asked.items()):
        print(f"{kind:40} {count:>6} {count - wrong[kind]:>6}")
    print(f"{'all':40} {compared.asked.total():>6} {compared.asked.total() - wrong.total():>6}")
    for each in compared.different[:40]:
        print(f"  {each.question} {each.field}: Spark {str(each.theirs)[:100]!r}, kvwal {str(each.ours)[:100]!r}")


if __name__ == "__main__":
    sys.exit(main())
