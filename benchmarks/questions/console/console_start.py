"""A console from its start to the list of all applications, beside Spark's History Server over the same event logs."""

from __future__ import annotations

import statistics
import time
from functools import partial

import kvwal
from benchmarks.console.process import client, console, timed, until_listed
from benchmarks.harness import Question, Row, Run, absolute_row, ratio_row
from benchmarks.nodes import CLUSTER, nodes
from benchmarks.questions.spark.history_server import FEW, LOGS, seconds_of_history_server, write_logs
from benchmarks.questions.spark.history_server import kvwal as command

QUESTION = Question(
    "console_start",
    "How long is it from the start of a console to the list of 2,600 applications?",
    "Spark's History Server, from its start with an empty memory. Both are asked for GET /api/v1/applications until it has all.",
    "recording the event logs, which is done once, when they are written. The logs are copies of one that Spark wrote, in a"
    " folder; the archive is a folder, too. The History Server's page asks for its list with JavaScript; the console's page has"
    " it, and is noted.",
)
TIMES_FASTER = 20
LIMITS = {"a root": 1.0, "a cluster of three nodes": 1.5, "an archive alone": 5.0}
"""Seconds, by the location of the store."""


def seconds_of_console(run: Run, count: int, *location: str) -> tuple[float, float]:
    """Seconds from its start until its REST API lists all applications, and those of the page of them after that."""
    started = time.perf_counter()
    with console(run.folder / "console.log", *location) as served:
        until_listed(served, count)
        seconds = time.perf_counter() - started
        with client(served.port) as asking:
            return seconds, timed(partial(asking.get, "/"))[0]


def measure(run: Run) -> list[Row]:
    """Four rows: a root beside the History Server, and the seconds for a root, a cluster and an archive."""
    count, logs, root, archive = run.size(LOGS, FEW), run.root(), run.root(), run.root()
    write_logs(logs, count)
    command("record", str(root), str(logs), "--archive", str(archive))
    with kvwal.open(root, archive=archive) as store:
        store.archive()
    with nodes(run.root(), 3, run.root()) as cluster:
        command("record", cluster.location, str(logs), "--cluster", CLUSTER)
        asked = {
            "a root": (str(root), "--archive", "none"),
            "a cluster of three nodes": (cluster.location, "--cluster", CLUSTER),
            "an archive alone": (archive.as_uri(),),
        }
        ours: dict[str, list[float]] = {name: [] for name in asked}
        pages: dict[str, list[float]] = {name: [] for name in asked}
        baselines = []
        for _ in range(run.rounds(3)):
            baselines.append(seconds_of_history_server(logs, count, run.folder / "history-server.log"))
            for name, location in asked.items():
                seconds, page = seconds_of_console(run, count, *location)
                ours[name].append(seconds)
                pages[name].append(page)
    return [
        ratio_row(
            "A console's list of 2,600 applications, from a root", "s", baselines, ours["a root"], "at most", 1 / TIMES_FASTER
        ),
        *(
            absolute_row(
                f"A console over {name}, to its list of 2,600", "s", baselines, seconds, "at most", LIMITS[name],
                {"the page of the list, after that, s": statistics.median(pages[name])},
            )
            for name, seconds in ours.items()
        ),
    ]  # fmt: skip
