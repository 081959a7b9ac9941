"""What the questions about the console stand on: people see every kind of page, and the large log is one that is read whole."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.routing import Match, Route

import kvwal
from benchmarks.console import store
from benchmarks.console.large_log import APP, STAGES, write_log
from benchmarks.console.people import Page, Site, first_looks, p99, reading, slowest_kinds
from benchmarks.console.process import console, until_listed
from kvwal.console.access import Access
from kvwal.console.parts import Console
from kvwal.console.queries.question import Place
from kvwal.console.queries.runner import Queries
from kvwal.console.shared_reader import SharedReader
from kvwal.console.sparkpages.routes import routes as spark_routes
from kvwal.console.sparkstate.kept_states import KeptStates
from kvwal.console.storepages.routes import routes as store_routes
from kvwal.ports.clock import SYSTEM
from kvwal.ports.tasks import ThreadWorkers
from kvwal.spark import record_event_logs
from tests.support.event_logs import counts

FILLED = store.Filled(400, 20, 1_000, "2026-01-01T00:00:00+00:00")
LEFT_OUT = {"/store/sql"}
"""The question says so."""


def page_routes() -> list[Route]:
    """The routes of all pages, of applications without an attempt."""
    workers = ThreadWorkers("unused", 1)
    reads = SharedReader(lambda: pytest.fail("nothing is read"), workers, SYSTEM)
    place = Place("here")
    made = Console(
        "here", reads, None, workers, Access(None), place, Queries(place), list, asyncio.Event(), KeptStates()
    )
    found = [*spark_routes(made), *store_routes(made)]
    return [each for each in found if isinstance(each, Route) and "{attempt:int}" not in each.path]


def test_people_come_to_every_page() -> None:
    chance, seen, routes = random.Random(1), set(), page_routes()
    for address in Site(FILLED).kinds.values():
        path = urlsplit(address(chance)).path
        seen.add(next(each.path for each in routes if matches(each, path)))
    assert {each.path for each in routes} - seen == LEFT_OUT


def matches(route: Route, path: str) -> bool:
    return route.matches({"type": "http", "path": path, "method": "GET"})[0] == Match.FULL


def test_people_see_what_is_there(tmp_path: Path) -> None:
    filled = store.Filled(**store.fill(str(tmp_path / "data"), 40, 10, 200))
    site = Site(filled)
    with console(tmp_path / "log", str(tmp_path / "data")) as served:
        until_listed(served, filled.applications)
        assert {page.kind for page in first_looks(served.port, site)} == set(site.kinds)
        pages = reading(served.port, site, 3, 0.5)
        assert len(pages) >= 3
        site.kinds["none"] = lambda _: "/app/none"
        with pytest.raises(RuntimeError, match="404"):
            first_looks(served.port, site)


def test_a_console_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        console(tmp_path / "log", str(tmp_path / "none")) as served,
        pytest.raises(RuntimeError, match="there is no such folder"),
    ):
        until_listed(served, 1)


def test_the_kinds_that_take_longest_are_noted() -> None:
    pages = [Page(kind, float(ms)) for ms, kind in enumerate(["quick"] * 98 + ["slow", "slowest"])]
    assert p99(pages) == 99
    assert slowest_kinds(pages, 2) == {"p99 of slowest, ms": 99, "p99 of slow, ms": 98}


def test_the_large_log_has_all_jobs_and_stages(tmp_path: Path) -> None:
    size = write_log(tmp_path / APP, 3)
    assert (tmp_path / APP).stat().st_size == size
    with kvwal.open(tmp_path / "data", archive=None) as opened:
        record_event_logs(opened, [tmp_path / APP])
        records = opened.map("spark")
        assert counts(records, APP) == ("SUCCEEDED", 3, 3 * STAGES, 3)
        stages = [value for key, value in records.items() if key.startswith(f"{APP}/stage/")]
    assert len(stages) == 3 * STAGES
    assert {stage["status"] for stage in stages} == {"SUCCEEDED"}
