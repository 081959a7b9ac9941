"""A real Chromium for the tests of pages: what every page must be at each width, dark and light, with and without JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

NARROW, WIDE = 360, 1440
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
_HEIGHT = 900
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The Chromium of this machine, until the block ends. Where there is none, the test says so and is skipped."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Reader:
    """A reader of pages: a window of a browser, and everything that went wrong in it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("dialog", self._asked)
        page.on("requestfailed", self._not_loaded)

    def open(self, address: str) -> Page:
        """Go to a page; its parts are loaded."""
        answer = self.page.goto(address, wait_until="load")
        assert answer is not None
        assert answer.ok, f"{address}: {answer.status}"
        return self.page

    def check(self) -> None:
        """The page is as wide as the window, its accessibility has no serious finding, and nothing went wrong in it."""
        page = self.page
        too_wide = page.evaluate(_TOO_WIDE)
        assert too_wide == [], f"{page.url} is wider than {page.viewport_size}"
        found: list[dict[str, Any]] = Axe().run(page).response["violations"]
        serious = [
            (each["id"], [node["html"] for node in each["nodes"]][:3])
            for each in found
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], f"{page.url}: {serious}"
        assert self.problems == [], f"{page.url}: {self.problems}"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _not_loaded(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # by going to another page
            self.problems.append(f"not loaded: {request.url}: {request.failure}")

    def _asked(self, dialog: Any) -> None:
        self.problems.append(f"a script ran: {dialog.message}")
        dialog.dismiss()


@contextmanager
def reader(
    browser: Browser, width: int = WIDE, scheme: Literal["light", "dark"] = "light", *, scripts: bool = True
) -> Iterator[Reader]:
    """A reader with a window of this width, who likes this scheme of colours, until the block ends."""
    viewport: Any = {"width": width, "height": _HEIGHT}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
    try:
        yield Reader(context.new_page())
    finally:
        context.close()


_TOO_WIDE = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  return [...document.querySelectorAll('body *')]
    .filter((each) => each.getBoundingClientRect().right > room + 1 && !each.closest('.scroll'))
    .map((each) => each.tagName + '.' + each.getAttribute('class')).slice(0, 5).concat(['page']);
}"""
"""The elements that make a page wider than its window."""
