"""The memory of a console over an hour, in which twenty people read pages and an application is recorded half of the time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import fmean
from typing import NamedTuple

from benchmarks.console import store
from benchmarks.console.people import Page, Site, reading
from benchmarks.console.process import console, until_listed
from benchmarks.harness import Question, Row, Run, in_child, percentile, ratio_row
from benchmarks.nodes import resident_memory

QUESTION = Question(
    "console_hour",
    "Does the memory of a console grow over an hour?",
    "the mean memory of the same console in the second ten minutes of that hour.",
    "the first ten minutes, in which the console reads for the first time what pages share; they are noted. The store and the"
    " people are those of the question before: 10,000 applications, 1M jobs, 1M keys, pages of any kind by chance, and never the"
    " same way twice. In every second five minutes an application is recorded, of which four jobs a second end, so that"
    " there are times in which all is made anew, and times in which nothing changes. All share two cores.",
)
PEOPLE, MINUTES, SPELL, PART = 20, 60, 5, 10
SECONDS = 60
MOST_GROWTH = 1.05


class Minute(NamedTuple):
    """What people read in a minute, and the memory of the console at its end, in MiB."""

    pages: list[Page]
    memory: float


def measure(run: Run) -> list[Row]:
    """The memory of the last part of the hour beside that of the second one."""
    root, seconds = run.root(), float(run.size(SECONDS, 1))
    filled = store.filled(run, root)
    site, minutes = Site(filled), list[Minute]()
    with console(run.folder / "console.log", str(root)) as served, ThreadPoolExecutor(1) as beside:
        until_listed(served, filled.applications)
        for number in range(run.size(MINUTES, 3)):
            if number % (2 * SPELL) == SPELL:
                recorded = beside.submit(in_child, f"{store.__name__}:record", root=str(root), seconds=SPELL * seconds)
            pages = reading(served.port, site, PEOPLE, seconds, number)
            minutes.append(Minute(pages, resident_memory(served.process.pid)))
            if number % (2 * SPELL) == 2 * SPELL - 1:
                recorded.result()
    return [_row(minutes, run.size(PART, 1))]


def _row(hour: list[Minute], part: int) -> Row:
    """The memory of the last `part` minutes of the hour, beside that of the second as many."""
    first, second, last = hour[:part], hour[part : 2 * part], hour[-part:]
    noted = {
        f"memory after {number} minutes, MiB": minute.memory
        for number, minute in enumerate(hour, 1)
        if number == 1 or number % PART == 0
    }
    memory = {
        "memory in the first ten minutes, MiB": _memory(first),
        "highest memory, MiB": _memory(hour, max),
        **noted,
    }
    pages = [page.ms for minute in hour for page in minute.pages]
    seen = {"pages looked at": float(len(pages)), "median, ms": percentile(pages, 50), "p99, ms": percentile(pages, 99)}
    row = "Memory in the last ten minutes of an hour, 20 people"
    return ratio_row(row, "MiB", [_memory(second)], [_memory(last)], "at most", MOST_GROWTH, memory | seen)


def _memory(minutes: list[Minute], of: Callable[[list[float]], float] = fmean) -> float:
    return of([minute.memory for minute in minutes])
