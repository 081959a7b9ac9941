"""The requests of archive jobs to a bucket."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from unittest.mock import patch

import kvwal
from benchmarks.harness import Question, Row, Run, absolute_row, in_child

QUESTION = Question(
    "archive_requests",
    "How many requests does an archive job make?",
    "one put of the new object.",
    "the first job, and compactions, which are put off. Each job archives one new segment of a log whose earlier segments have an"
    " object each in the archive, in a bucket of SeaweedFS. The figure is of `archive_requests` of `store.stats()`; a proxy"
    " before the bucket counts the HTTP requests.",
)
MODULE = "benchmarks.questions.archive.archive_requests"
OBJECTS = (1, 100)
JOBS = 10
SETTINGS = kvwal.Settings(archive_seconds=1e6, checkpoint_seconds=1e6)


def kind(method: str, path: str) -> str:
    """The kind of an HTTP request, as object stores price them."""
    if method in ("PUT", "POST"):
        return "puts"
    if method == "GET" and "list-type=" in path:
        return "lists"
    return {"GET": "gets", "HEAD": "heads"}.get(method, "others")


def archive(root: str, objects: int, jobs: int) -> dict[str, list[float]]:
    """Each job archives one segment. The archive holds `objects` objects of the log before. Returns each job's requests."""
    from tests.support.archive import s3
    from tests.support.archive.proxy import proxied

    server = s3.server()
    bucket = s3.bucket(server)
    asked: Counter[str] = Counter()
    counted: dict[str, list[float]] = {}

    def count(method: str, path: str) -> None:
        asked[kind(method, path)] += 1

    with proxied(server.endpoint) as proxy, patch("kvwal.store.scheduling.schedule._SMALL_OBJECTS", 1 << 30):
        proxy.choose = count
        os.environ.update(server.environment() | {"AWS_ENDPOINT_URL": proxy.url})
        with kvwal.open(root, archive=bucket, settings=SETTINGS) as store:
            jobs_ = store.map("bench")
            for number in range(objects + jobs):
                jobs_[number % 10] = number
                before = requests(store)
                asked.clear()
                store.archive()
                if number >= objects:
                    figures = {"requests": requests(store) - before, **dict.fromkeys(KINDS, 0), **asked}
                    for name, figure in figures.items():
                        counted.setdefault(name, []).append(figure)
    return counted


KINDS = ("puts", "lists", "gets", "heads")


def requests(store: kvwal.Store) -> int:
    """The requests of the archive jobs of the log so far."""
    return int(store.stats()["businesses"]["bench"]["archive_requests"])


def measure(run: Run) -> list[Row]:
    """A row for each number of objects in the archive."""
    jobs, rows = run.size(JOBS, 2), []
    for objects in OBJECTS:
        held = run.size(objects, min(objects, 5))
        counted = in_child(f"{MODULE}:archive", root=str(run.root()), objects=held, jobs=jobs)
        figures = counted.pop("requests")
        notes = {f"HTTP {name}": statistics.mean(each) for name, each in counted.items()}
        name = f"An archive job, {objects} object{'s' if objects > 1 else ''} in the archive"
        rows.append(absolute_row(name, "requests", [1.0] * jobs, figures, "at most", 5, notes))
    return rows
