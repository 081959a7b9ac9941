"""A reader of the console's pages, who compares all that stands there, and the CSV behind each table, with what should."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from urllib.request import urlopen

from tests.support.console.expected import Expected, differences, differences_of_csv, numbers_in
from tests.support.console.page import Element, Place, Shown, texts_of, tree_of


class Reader:
    """Reads pages of the console at `url`.

    `numbers` counts the texts with a number that were compared, `read` are the addresses of the pages, and `linked` those that
    these pages lead to.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.numbers = 0
        self.read: set[str] = set()
        self.linked: set[str] = set()

    def differences(self, path: str, expect: Callable[[Mapping[Place, Shown]], Expected]) -> list[str]:
        """What is wrong on a page, a line each with the path. `expect` says what must stand there, for the texts of the page."""
        tree = tree_of(self.text(path))
        tables = {title: self._csv(path, *link) for title, link in _tables(tree).items()}
        self.linked |= {each.attributes["href"] for each in tree.every("a")}
        self.read.add(path)
        texts = texts_of(tree)
        expected = expect(texts)
        self.numbers += len(numbers_in(texts))
        found = differences(texts, expected)
        for title, (headings, rows) in tables.items():
            found += differences_of_csv(title, headings, rows, expected)
        return [f"{path}: {each}" for each in found]

    def text(self, path: str) -> str:
        """The text of a page as it is sent."""
        with urlopen(self._url + path) as answer:
            text: str = answer.read().decode()
            return text

    def _csv(self, path: str, address: str, headings: list[str]) -> tuple[list[str], list[list[str]]]:
        """The headings of a table on its page, and its rows in CSV: their first columns are those of the page."""
        rows = list(csv.reader(io.StringIO(self.text(path.partition("?")[0] + address), newline="")))
        return headings, rows[1:]


def _tables(page: Element) -> dict[str, tuple[str, list[str]]]:
    """The title of each table on a page, with the address of its CSV, and its headings."""
    found = {}
    for section in page.every("section"):
        for table in section.every("table"):
            assert table.parent is not None
            link = next(
                each for each in section.every("a") if each.attributes.get("aria-label", "").endswith(" as CSV")
            )
            headings = [" ".join(heading.text.split()).rstrip(" ↑↓") for heading in table.every("th")]
            found[table.parent.attributes["aria-label"]] = (link.attributes["href"], headings)
    return found
