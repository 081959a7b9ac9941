"""An application of 10,000 jobs and 100,000 stages: its pages and Spark's REST API, beside a History Server of the same log."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.console.large_log import APP, STAGES, write_log
from benchmarks.console.process import LOOK_SECONDS, Client, client, console, timed, until_listed
from benchmarks.harness import Question, Row, Run, absolute_row
from benchmarks.questions.spark.history_server import kvwal as command
from tests.support.history_server.server import history_server, listed
from tests.support.ports import free_port

QUESTION = Question(
    "console_large",
    "How long do the pages and the REST API of an application of 10,000 jobs and 100,000 stages take?",
    "Spark's History Server over the same log, asked for the same in turn. It is told to keep all jobs and stages, of which it"
    " keeps the last thousand by default, and to have 6 GiB.",
    "recording the log, and what a History Server does at the first question about an application, when it reads its log: both"
    " are noted, as is a first look of each. The log has one task for each stage. With records alone the REST API leaves out the"
    " fields that only the log has; where the log is kept it has all.",
)
JOBS = 10_000
MOST_SECONDS = 1.0
HEAP = "6g"
API = f"/api/v1/applications/{APP}"


class Asked(NamedTuple):
    """What is asked for at the console and at the History Server, and whether the console's store has the log, too."""

    name: str
    ours: str
    theirs: str
    kept: bool = False


ASKED = (
    Asked("The page of an application of 10,000 jobs", f"/app/{APP}", f"/history/{APP}/jobs/"),
    Asked("The page of its jobs", f"/app/{APP}/jobs", f"/history/{APP}/jobs/"),
    Asked("The page of its 100,000 stages", f"/app/{APP}/stages", f"/history/{APP}/stages/"),
    Asked("REST: all of its jobs", f"{API}/jobs", f"{API}/jobs"),
    Asked("REST: all of its stages", f"{API}/stages", f"{API}/stages"),
    Asked("REST: all of its jobs, the log kept", f"{API}/jobs", f"{API}/jobs", kept=True),
    Asked("REST: all of its stages, the log kept", f"{API}/stages", f"{API}/stages", kept=True),
)
"""A History Server's page of an application is that of its jobs."""


def measure(run: Run) -> list[Row]:
    """A row for each page and each answer."""
    logs, roots, jobs = run.root(), {kept: run.root() for kept in (False, True)}, run.size(JOBS, 20)
    size = write_log(logs / APP, jobs)
    recording = [
        timed(
            partial(command, "record", str(root), str(logs), "--archive", "none", *(["--keep-logs"] if kept else []))
        )[0]
        for kept, root in roots.items()
    ]
    with (
        _their_client(run, logs, jobs) as theirs,
        console(run.folder / "console.log", str(roots[False]), "--archive", "none") as records,
        console(run.folder / "console-kept.log", str(roots[True]), "--archive", "none") as with_log,
    ):
        until_listed(records, 1)
        until_listed(with_log, 1)
        reading = timed(lambda: theirs.get(f"{API}/jobs"))[0]
        with client(records.port) as of_records, client(with_log.port) as of_log:
            rows = [_row(run, asked, of_log if asked.kept else of_records, theirs, jobs) for asked in ASKED]
    rows[0].notes.update({
        "size of the log, MB": size / 1e6, "recording it, s": recording[0], "recording and keeping it, s": recording[1],
        "the History Server reads it, s": reading,
    })  # fmt: skip
    return rows


@contextmanager
def _their_client(run: Run, logs: Path, jobs: int) -> Iterator[Client]:
    """A client of a History Server that lists the application."""
    port, most, log = free_port(), str(jobs * STAGES * 2), run.folder / "history-server.log"
    settings = {f"spark.ui.retained{what}": most for what in ("Jobs", "Stages", "Tasks")}
    with history_server(logs, port, log, settings, HEAP) as server, client(port) as theirs:
        while not listed(port):
            if server.poll() is not None:
                raise RuntimeError(log.read_text()[-2_000:])
            time.sleep(LOOK_SECONDS)
        yield theirs


def _row(run: Run, asked: Asked, ours: Client, theirs: Client, jobs: int) -> Row:
    """The seconds of an answer, beside those of the History Server."""
    first, body = timed(partial(ours.get, asked.ours))
    their_body = theirs.get(asked.theirs)
    if asked.ours.startswith(API):
        _check(asked.ours, jobs, body, their_body)
    baselines, seconds = run.interleave(
        5, lambda: timed(partial(theirs.get, asked.theirs))[0], lambda: timed(partial(ours.get, asked.ours))[0]
    )
    notes = {
        "first look, s": first, "size of the answer, MB": len(body) / 1e6,
        "size of the History Server's, MB": len(their_body) / 1e6,
    }  # fmt: skip
    return absolute_row(asked.name, "s", baselines, seconds, "at most", MOST_SECONDS, notes)


def _check(path: str, jobs: int, *bodies: bytes) -> None:
    """Raise `RuntimeError` unless all jobs, or all stages, are there."""
    count = jobs * STAGES if path.endswith("stages") else jobs
    found = [len(json.loads(body)) for body in bodies]
    if found != [count] * len(bodies):
        raise RuntimeError(f"{path} has {found} rows, and there are {count}")
