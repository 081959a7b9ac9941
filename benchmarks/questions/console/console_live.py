"""The end of a job of an application that is recorded: how long until a console shows it."""

from __future__ import annotations

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import kvwal
from benchmarks.console.process import client, console, until_listed
from benchmarks.harness import Question, Row, Run, SteppedProcess
from kvwal.console.pages import addresses
from kvwal.spark import JobRecorder

QUESTION = Question(
    "console_live",
    "How long after the end of a job does a console show it?",
    "the driver's own Spark UI, whose REST API is asked in the same way.",
    "what a browser does with a page. From the time at which Spark says that the job ended, to that at which the last byte of an"
    " answer was there that shows it. The page is asked as its own script does, each 0.8 s, from a random moment on; the REST"
    " APIs each 0.05 s. Spark, the recorder, the console and those who ask share two cores.",
)
ENDS = 20
MOST_SECONDS = 2.0
PAGE_SECONDS, REST_SECONDS = 0.8, 0.05


@contextmanager
def driver(root: Path, folder: Path) -> Iterator[SteppedProcess]:
    """A Spark driver in a process of its own, recorded into a folder, which runs a job each time it is told to.

    It is killed afterwards.
    """
    running = SteppedProcess(["-m", __spec__.name, str(root)], folder / "stderr")
    try:
        yield running
    finally:
        running.kill()


def seen_at(port: int, path: str, wait: float, shows: Callable[[bytes], bool]) -> float:
    """When an answer shows it first, in seconds since 1970. It is asked for again and again from now on."""
    time.sleep(random.uniform(0, wait))
    with client(port) as asking:
        while not shows(asking.get(path)):
            time.sleep(wait)
        return time.time()


class Watched:
    """An application whose ends of jobs are watched at three places."""

    def __init__(self, running: SteppedProcess, app: str, ui: int, served: int) -> None:
        self._running = running
        self._app = app
        self._ui, self._served = ui, served
        self._api = f"/api/v1/applications/{app}/jobs?status=succeeded"

    def end_of(self, number: int) -> dict[str, float]:
        """Run a job. Returns, by place, the seconds from its end until it is shown there."""
        link = f'href="{addresses.job(self._app, number)}"'.encode()
        page = f"{addresses.app(self._app, 'jobs')}?status=SUCCEEDED&sort=-id"
        with ThreadPoolExecutor(3) as pool:
            shown = {
                "page": pool.submit(seen_at, self._served, page, PAGE_SECONDS, lambda body: link in body),
                "REST": pool.submit(seen_at, self._served, self._api, REST_SECONDS, partial(_has_job, number)),
                "Spark": pool.submit(seen_at, self._ui, self._api, REST_SECONDS, partial(_has_job, number)),
            }
            self._running.tell()
            seen = {place: future.result() for place, future in shown.items()}
        self._running.answer()
        with client(self._ui) as asking:
            ended = _ended(json.loads(asking.get(self._api)), number)
        return {place: moment - ended for place, moment in seen.items()}


def _has_job(number: int, body: bytes) -> bool:
    return any(row["jobId"] == number for row in json.loads(body))


def _ended(rows: list[dict[str, Any]], number: int) -> float:
    """When a job ended, in seconds since 1970, as Spark says."""
    text = next(row["completionTime"] for row in rows if row["jobId"] == number)
    return datetime.strptime(text.removesuffix("GMT"), "%Y-%m-%dT%H:%M:%S.%f").replace(tzinfo=UTC).timestamp()


def measure(run: Run) -> list[Row]:
    """Two rows: the page, and the REST API. Their figures are the longest of all ends."""
    root, ends = run.root(), run.size(ENDS, 2)
    with driver(root, run.root()) as running:
        app, ui = running.answer()
        with console(run.folder / "console.log", str(root), "--archive", "none") as served:
            until_listed(served, 1)
            watched = Watched(running, app, ui, served.port)
            watched.end_of(0)  # the first job loads classes everywhere
            delays = [watched.end_of(number) for number in range(1, ends + 1)]
    spark = [delay["Spark"] for delay in delays]
    return [
        _row("The end of a job on the page of the jobs", [delay["page"] for delay in delays], spark),
        _row("The end of a job in the console's REST API", [delay["REST"] for delay in delays], spark),
    ]


def _row(name: str, seconds: list[float], spark: list[float]) -> Row:
    notes = {"median, s": statistics.median(seconds), "ends": float(len(seconds))}
    return Row(name, "s", seconds, spark, max(seconds), "s, the longest", MOST_SECONDS, "at most", notes)


def main(root: str) -> None:
    """Be the driver: run a job of two tasks for each line."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").appName("report").getOrCreate()
    context = spark.sparkContext
    numbers = context.parallelize([1, 2], 2)
    with kvwal.open(root, archive=None) as store, JobRecorder(context, store):
        print(json.dumps([context.applicationId, int((context.uiWebUrl or "").rpartition(":")[2])]), flush=True)
        for _ in sys.stdin:
            numbers.count()
            print(json.dumps("ran"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
