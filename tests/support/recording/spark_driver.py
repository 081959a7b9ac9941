"""A real driver in a process of its own, recorded into a cluster, and the comparison of its records with its event log.

The application is `tests.support.programs.recorded`. Its own event log, read into a root by a plain `kvwal record`, says what
must be recorded.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kvwal
from kvwal.spark import record_event_logs
from kvwal.spark.tables.catalogue import TABLES
from tests.support.cli import kvwal as command
from tests.support.cluster.nodes import CLUSTER
from tests.support.recording.one_sided import differences
from tests.support.recording.rest_rows import different_from_spark
from tests.support.recording.same_records import application_records
from tests.support.recording.stepped import SteppedDriver, stepped_process


class SparkDriver(SteppedDriver):
    """The application, which is recorded into the cluster at `location`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, location: str) -> None:
        super().__init__(process, folder)
        self.location = location
        self.spool = folder / "spool"

    def reach(self, point: str) -> None:
        """Wait until the application stands at a point."""
        assert self.line() == point

    def end(self) -> dict[str, Any]:
        """Wait for its end; what its recorder's `stats` said last."""
        stats: dict[str, Any] = json.loads(self.line())
        assert self.exit_code() == 0
        return stats


@contextmanager
def spark_driver(location: str, folder: Path, *more: str) -> Iterator[SparkDriver]:
    """The application, recorded into the cluster."""
    words = ["-m", "tests.support.programs.recorded", location, str(folder / "spool"), str(folder / "out"), *more]
    with stepped_process(words, folder) as process:
        yield SparkDriver(process, folder, location)


def check(ran: SparkDriver, *, was_killed: bool = False, is_later: bool = False) -> None:
    """What the spool has left goes into the cluster, and then its records are those of Spark's event log, in every table too.

    If the application came to its last job, all values of its jobs, stages and SQL are those of Spark's REST API, too.
    A recorder that started later (`is_later`) has the settings as they were then: Spark had added to them.
    """
    names = ("--cluster", CLUSTER)
    finished = command("record", ran.location, *names, "--spool", ran.spool)
    assert finished.code == 0 or "No driver left anything" in finished.err, finished.err
    assert command("record", ran.location, *names, "--spool", ran.spool).code == 2
    root = ran.folder / "by-log"
    with kvwal.open(root, archive=None, flush="os") as store:
        record_event_logs(store, [ran.folder / "out" / "logs"])
        log = application_records(store.map("spark"), ran.app)
    with kvwal.connect(ran.location.removeprefix("kvwal://"), cluster=CLUSTER) as store:
        live = application_records(dict(store.map("spark").items()), ran.app)
    assert len({value["kind"] for value in live.values()}) > (2 if was_killed else 5)
    if is_later:
        del live[f"{ran.app}/env"], log[f"{ran.app}/env"]
    found = differences(live, log, was_killed=was_killed)
    if (answers := ran.folder / "out" / "rest").exists() and not is_later:
        found += different_from_spark(live, ran.app, answers)
    assert found == [], "\n".join(found)
    for table in TABLES.keys() - ({"spark_settings"} if is_later else set()):
        asked = f"SELECT key FROM {table} WHERE app = '{ran.app}' ORDER BY ALL"
        there, here = (
            command("query", place, asked, "--json", *name) for place, name in ((ran.location, names), (root, ()))
        )
        assert (there.code, there.out) == (here.code, here.out), f"{table}: {there} and {here}"
