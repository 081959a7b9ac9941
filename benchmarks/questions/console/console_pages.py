"""The wait for any page of a console over a large store, or its archive, for one person and for twenty, and the memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from benchmarks.console import store
from benchmarks.console.people import Page, Site, first_looks, of_style, p99, reading, slowest_kinds
from benchmarks.console.process import Served, console, until_listed
from benchmarks.harness import Question, Row, Run, in_child, percentile, ratio_row
from benchmarks.nodes import resident_memory
from kvwal.store.options import ARCHIVE_FOLDER

QUESTION = Question(
    "console_pages",
    "How long does any page take at 10,000 applications, 1M jobs and 1M keys?",
    "the same people, who ask for the console's style sheet; for the memory, that after the first minute.",
    "what a browser does with a page, and a first look at each kind of page, whose slowest is noted: it reads what later pages"
    " share. People go on without a pause, to a page of any kind with the same chance, on the same two cores. SQL statements are"
    " not among the pages. The records are synthetic: each application has 100 jobs and 10 SQL executions, and each 20th has 100"
    " stages, executors, settings and a stream, too; people look at these. Nobody writes"
    " meanwhile but in one row: there an application is recorded of which four jobs a second end. The archive is a folder, with"
    " an object for each segment: no compaction has merged them yet.",
)
PEOPLE = 20
SECONDS = 60
MOST_MS_ALONE, MOST_MS = 300.0, 1_000.0
MOST_GROWTH = 1.05
NOTED = 5


def measure(run: Run) -> list[Row]:
    """The wait of one person and of twenty, the memory after a second minute, and the wait beside a recorder; the first three
    also over the archive alone.
    """
    root, seconds = run.root(), float(run.size(SECONDS, 2))
    filled = store.filled(run, root)
    site = Site(filled)
    with console(run.folder / "archive.log", str(root / ARCHIVE_FOLDER)) as served:
        until_listed(served, filled.applications)
        of_archive = _three(served, site, seconds, ", over the archive alone")
    with console(run.folder / "console.log", str(root)) as served:
        until_listed(served, filled.applications)
        of_folder = _three(served, site, seconds, "")
        style = p99(of_style(served.port, PEOPLE, seconds / 10))
        with ThreadPoolExecutor(1) as beside:
            recorded = beside.submit(in_child, f"{store.__name__}:record", root=str(root), seconds=seconds)
            live = reading(served.port, site, PEOPLE, seconds)
            ended = float(recorded.result())
    beside_it = "Any page, 20 people, while an application is recorded"
    return [*of_folder, _row(beside_it, live, style, MOST_MS, {"jobs that ended": ended}), *of_archive]


def _three(served: Served, site: Site, seconds: float, where: str) -> list[Row]:
    """The wait of one person and of twenty, and the memory after a second minute of these. `where` ends the names of the rows."""
    first = max(page.ms for page in first_looks(served.port, site))
    alone_style = p99(of_style(served.port, 1, seconds / 10))
    alone = reading(served.port, site, 1, seconds)
    style = p99(of_style(served.port, PEOPLE, seconds / 10))
    memory, together = [], []
    for way in range(2):
        together += reading(served.port, site, PEOPLE, seconds, way)
        memory.append(resident_memory(served.process.pid))
    rate = {"pages a second": len(together) / seconds / 2, "memory, MiB": memory[-1]}
    growth = f"Memory after another minute of 20 people{where}"
    return [
        _row(f"Any page, one person{where}", alone, alone_style, MOST_MS_ALONE, {"slowest first look, ms": first}),
        _row(f"Any page, 20 people side by side{where}", together, style, MOST_MS, rate),
        ratio_row(growth, "MiB", memory[:1], memory[1:], "at most", MOST_GROWTH),
    ]


def _row(name: str, pages: list[Page], style: float, most: float, notes: dict[str, float]) -> Row:
    """The p99 of pages, with the kinds that took longest."""
    typical = {"median, ms": percentile([page.ms for page in pages], 50), "pages looked at": float(len(pages))}
    notes = {**notes, **typical, **slowest_kinds(pages, NOTED)}
    return Row(name, "ms", [p99(pages)], [style], p99(pages), "ms (p99)", most, "at most", notes)
