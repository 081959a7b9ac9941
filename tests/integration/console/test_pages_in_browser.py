"""The pages about Spark in a real browser: two widths, dark and light, hostile texts, keys, search, what is live, no scripts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

import kvwal
from kvwal.spark import records as rec
from kvwal.spark.record_keys import job_key
from tests.support.console import recorded
from tests.support.console.browser import NARROW, SCHEMES, WIDE, chromium, reader
from tests.support.lineage.console import console


def below(prefix: str) -> list[str]:
    """Every page of an application that has one of everything."""
    page, query = f"/app/{quote(prefix)}", "nightly report" if prefix == recorded.BUSY else recorded.HOSTILE
    parts = ("", "/jobs", "/stages?sort=-run", "/sql", "/executors", "/streams", "/failures", "/settings", "/sql/0", "/job/7",
             "/stage/7/0", f"/stream/{quote(query, safe='')}")  # fmt: skip
    return [page + part for part in parts]


PAGES = [
    "/", "/?q=orders&status=FAILED", "/runs?name=load+orders", "/streams", "/compare?a=run-001&b=run-009",
    f"/compare?a={recorded.BUSY}&b={recorded.BUSY}_a/2", *below(recorded.BUSY), "/app/nothing",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root: Path = tmp_path_factory.mktemp("pages") / "data"
    recorded.write(root)
    return root


@pytest.fixture(scope="module")
def url(root: Path) -> Iterator[str]:
    with console(root, log=root.parent / "log") as running:
        yield running.url


def test_pages_fit_a_phone_and_are_accessible(browser: Browser, url: str) -> None:
    page = f"/app/{recorded.BUSY}"
    with reader(browser, NARROW, "dark") as reading:
        for path in ("/?q=run-00", page, f"{page}/sql/0", f"{page}/stage/7/0", "/runs?name=load+orders"):
            reading.open(url + path)
            reading.check()


@pytest.mark.long
@pytest.mark.parametrize(("width", "scheme"), list(product((NARROW, WIDE), SCHEMES)))
def test_every_page_fits_and_is_accessible(
    browser: Browser, url: str, width: int, scheme: Literal["dark", "light"]
) -> None:
    with reader(browser, width, scheme) as reading:
        for path in PAGES:
            answer = reading.page.goto(url + path)
            assert answer is not None
            assert answer.status == (404 if path == "/app/nothing" else 200), path
            if answer.status == 404:
                reading.problems.clear()  # the browser tells of the status
            reading.check()


def test_no_script_runs_from_a_hostile_text(browser: Browser, url: str) -> None:
    """Every text of the application is one that runs a script where it becomes HTML: it is read as text on every page."""
    with reader(browser, NARROW, "light") as reading:
        for path in ["/", "/streams", *below(recorded.EVIL)]:
            page = reading.open(url + path)
            assert "<script>alert(" in page.inner_text("body"), path
            assert page.query_selector("img") is None, path
            assert reading.problems == [], path
            fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert fits, path


def test_pages_are_read_without_scripts(browser: Browser, url: str) -> None:
    with reader(browser, scripts=False) as reading:
        page = reading.open(url)
        assert page.inner_text("tbody tr:first-child td:nth-child(2)") != ""
        page.fill("input[name=q]", "orders")
        with page.expect_navigation():
            page.click("noscript button")
        assert page.locator("tbody tr").count() == 50
        with page.expect_navigation():
            page.click("a[rel=next]")
        assert page.locator("tbody tr").count() == recorded.RUNS - 50
        with page.expect_navigation():
            page.click("tbody tr:first-child a")
        assert page.inner_text("h1") == "load orders"
        assert page.inner_text("time").endswith("Z")


def test_times_are_in_the_zone_of_the_reader(browser: Browser, url: str) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.goto(f"{url}/app/{recorded.BUSY}")
    assert page.inner_text(".figures time") == "2026-01-01 21:00:00"
    assert "2026-01-01 12:00:00Z" in (page.get_attribute(".figures time", "title") or "")
    context.close()


def test_the_list_is_searched_while_one_types_and_walked_by_keys(browser: Browser, url: str) -> None:
    with reader(browser) as reading:
        page = reading.open(url)
        page.keyboard.press("/")
        page.keyboard.type("run-034")
        page.wait_for_selector("tbody tr:only-child")
        assert "q=run-034" in page.url
        assert "load orders" in page.inner_text("tbody tr")
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_url("**/app/run-034")
        assert "the lake has no such day" in page.inner_text(".failure")
        assert reading.problems == []


def test_the_end_of_a_job_shows_without_a_reload(browser: Browser, url: str, root: Path) -> None:
    with reader(browser) as reading:
        page = reading.open(f"{url}/app/{recorded.RUNNING}/jobs")
        assert page.inner_text("tbody .status") == "RUNNING"
        page.evaluate("window.stays = 1")
        job = rec.Job(id=0, description="first step", started=1, status="FAILED", error=rec.Error("it broke"))
        with kvwal.open(root, node="recorder", archive=None) as store:
            recorded.put(store, {job_key(recorded.RUNNING, 0): rec.to_value(job)})
        page.wait_for_selector("tbody .is-failed")
        assert page.evaluate("window.stays") == 1
        assert reading.problems == []
