"""The frame of every page of kvwal console, in a real browser: each width, dark and light, keys, and no page but its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

import kvwal
from tests.support.console.browser import NARROW, SCHEMES, WIDE, chromium, reader
from tests.support.lineage.console import console

TOKEN = "t" * 32


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A console with a token, which every caller must show."""
    folder = tmp_path_factory.mktemp("frame")
    with kvwal.open(folder / "data", archive=None) as store:
        store.map("jobs")["job-1"] = 1
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)
    with console(folder / "data", "--token-file", str(folder / "token"), log=folder / "log") as running:
        yield running.url


@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.variants(1)
def test_a_reader_signs_in_and_stays_signed_in(browser: Browser, url: str, width: int) -> None:
    for scheme in SCHEMES:
        with reader(browser, width, scheme) as reading:
            page = reading.page
            page.goto(f"{url}/login")
            reading.problems.clear()  # the browser tells of the status 401
            reading.check()
            page.fill("#token", TOKEN)
            page.click("main button")
            page.wait_for_url(f"{url}/")
            reading.check()
            assert page.context.cookies()[0].get("httpOnly") is True


def test_the_switch_of_colours_is_kept(browser: Browser, url: str) -> None:
    with reader(browser, scheme="light") as reading:
        page = reading.page
        page.goto(f"{url}/login")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.click("button.theme")
        after = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert after != before
        page.reload()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == after
        page.click("button.theme")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == before


def test_a_page_is_read_without_scripts(browser: Browser, url: str) -> None:
    with reader(browser, scripts=False) as reading:
        reading.page.goto(f"{url}/login")
        assert reading.page.inner_text("h1") == "Sign in"
        assert not reading.page.is_visible("button.theme")
