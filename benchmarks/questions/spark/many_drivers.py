"""Twenty drivers that record into one cluster at once: what it costs each of them, and whether every job is recorded."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import kvwal
from benchmarks.harness import Question, Row, Run, SteppedProcess, absolute_row, percentile, ratio_row
from benchmarks.nodes import CLUSTER, Nodes, nodes
from benchmarks.questions.spark.cluster_recorder import session
from kvwal.spark import JobRecorder
from kvwal.spark.record_keys import app_prefix

QUESTION = Question(
    "many_drivers",
    "How much do recorders into one cluster slow down twenty Spark drivers that run at once?",
    "the same jobs of the same twenty drivers without recorders.",
    "starting Spark and the nodes, and starting and closing the recorders. Drivers and nodes share the machine's cores;"
    " each driver begins a job of two tasks every four seconds.",
)
DRIVERS = 20
JOBS = 10
SECONDS_A_JOB = 4.0


@contextmanager
def drivers(count: int, location: str, folder: Path) -> Iterator[list[SteppedProcess]]:
    """Drivers that are ready. They are killed afterwards.

    They are told `alone` or `recorded` with a number of jobs; and then the seconds to wait before the first job.
    """
    with ExitStack() as ends:
        running = []
        for number in range(count):
            own = folder / f"driver-{number}"
            own.mkdir()
            driver = SteppedProcess(["-m", __spec__.name, location, str(own / "spool")], own / "stderr")
            ends.callback(driver.kill)
            running.append(driver)
        yield running


def one_round(running: list[SteppedProcess], word: str, jobs: int) -> list[float]:
    """The milliseconds of each job of each driver. The drivers' jobs begin one after the other, at a steady pace."""
    for driver in running:
        driver.tell(f"{word} {jobs}")
    for driver in running:
        driver.answer()
    for number, driver in enumerate(running):
        driver.tell(str(number * SECONDS_A_JOB / len(running)))
    waits = [driver.answer() for driver in running]
    for driver in running:
        driver.answer()  # the recorder is closed
    return [wait for of_one in waits for wait in of_one]


def recorded_jobs(cluster: Nodes, app: str) -> int:
    """The jobs of an application that the cluster has, and that ended well."""
    with kvwal.connect(cluster.addresses, cluster=CLUSTER) as store:
        jobs = store.map("spark").scan(f"{app_prefix(app)}/job/")
        return sum(job["status"] == "SUCCEEDED" for _, job in jobs)


def measure(run: Run) -> list[Row]:
    """Two rows: the time of a job beside that without recorders, and the jobs that are missing afterwards."""
    count, jobs, rounds = run.size(DRIVERS, 2), run.size(JOBS, 2), run.size(3, 1)
    with nodes(run.root(), 3, run.root()) as cluster, drivers(count, cluster.location, run.root()) as running:
        apps = [driver.answer() for driver in running]
        for word in ("alone", "recorded"):  # the first jobs, and the first recording, load classes everywhere
            one_round(running, word, jobs)
        baselines: list[float] = []
        ours: list[float] = []
        longest: dict[str, list[float]] = {"alone": [], "recorded": []}
        for _ in range(rounds):
            for word, medians in (("alone", baselines), ("recorded", ours)):
                waits = one_round(running, word, jobs)
                medians.append(statistics.median(waits))
                longest[word].append(percentile(waits, 99))
        missing = count * jobs * (rounds + 1) - sum(recorded_jobs(cluster, app) for app in apps)
    notes = {f"99 of 100 {word}, ms": statistics.median(waits) for word, waits in longest.items()}
    return [
        ratio_row("A job of one of twenty drivers", "ms", baselines, ours, "at most", 1.1, notes),
        absolute_row("Jobs that are not recorded", "jobs", [0.0], [float(missing)], "at most", 0),
    ]


def main(location: str, spool: str) -> None:
    """Be a driver: run jobs at a steady pace, each time a line says so."""
    context = session().sparkContext
    numbers = context.parallelize([1, 2], 2)
    print(json.dumps(context.applicationId), flush=True)
    for line in sys.stdin:
        word, jobs = line.split()
        with ExitStack() as ends:
            if word == "recorded":
                ends.enter_context(JobRecorder(context, location, cluster=CLUSTER, spool=spool, strict=True))
            print(json.dumps("ready"), flush=True)
            begun = float(sys.stdin.readline()) + time.perf_counter()
            waits = []
            for number in range(int(jobs)):
                time.sleep(max(0.0, begun + number * SECONDS_A_JOB - time.perf_counter()))
                started = time.perf_counter()
                numbers.count()
                waits.append((time.perf_counter() - started) * 1_000)
            print(json.dumps(waits), flush=True)
        print(json.dumps("closed"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
