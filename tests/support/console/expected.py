"""What must stand on a page, place by place; and what is wrong on a page that is another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tests.support.console.page import Place, Shown
from tests.support.console.said import Said, Worded, fits, fits_exactly

Cells = Mapping[str, "Said | str | None"]
"""A row of a table by its headings, with what the console calls the columns; None, or no word for it: nothing stands there."""


class Expected:
    """What must stand on a page."""

    def __init__(self) -> None:
        self.said: dict[Place, Said] = {}
        self.csv: dict[Place, Said] = {}
        self._next: Counter[str] = Counter()

    def put(self, part: str, *told: Said | str | None, at: int | None = None) -> None:
        """The next texts of a part of the page, or those from number `at` on. None stands for words without a number."""
        if at is not None:
            self._next[part] = at
        for each in told:
            if each is not None:
                self.said[Place(part, self._next[part])] = _said(each)
            self._next[part] += 1

    def figure(self, name: str, value: Said | str, more: Said | str | None = None) -> None:
        """A figure, and the second line below it."""
        self.put(f"figure {name}", value)
        if more is not None:
            self.put(f"figure {name} more", more)

    def table(self, title: str, rows: Iterable[Cells], csv: Iterable[Cells] | None = None) -> None:
        """A table: its rows in their order; `csv` are all rows in the order of CSV, where that is another."""
        on_page = list(rows)
        self.said.update(_cells(title, on_page))
        self.csv.update(_cells(title, on_page if csv is None else csv))


def _cells(title: str, rows: Iterable[Cells]) -> dict[Place, Said]:
    return {
        Place(f"table {title}", number, heading): _said(told)
        for number, cells in enumerate(rows) for heading, told in cells.items() if told is not None and told != ""
    }  # fmt: skip


def _said(told: Said | str) -> Said:
    return Worded(told) if isinstance(told, str) else told


def numbers_in(texts: Mapping[Place, Shown]) -> dict[Place, Shown]:
    """The texts that have a number."""
    return {place: shown for place, shown in texts.items() if any(letter.isdigit() for letter in shown.text)}


def differences(texts: Mapping[Place, Shown], expected: Expected) -> list[str]:
    """What is wrong on a page, a line each: numbers that nobody accounts for, those that differ, and those that are missing."""
    unknown = [
        f"{place}: nobody accounts for {shown.text!r}"
        for place, shown in numbers_in(texts).items() if place not in expected.said
    ]  # fmt: skip
    wrong = [
        f"{place}: there should stand {said}, and stands {texts[place].text[:200]!r}" if place in texts
        else f"{place}: {said} is missing"
        for place, said in expected.said.items() if place not in texts or not fits(said, texts[place])
    ]  # fmt: skip
    return unknown + wrong


def differences_of_csv(title: str, headings: list[str], rows: list[list[str]], expected: Expected) -> list[str]:
    """The cells of a table in CSV that are not exactly what its page rounds."""
    columns = {heading: number for number, heading in enumerate(headings)}
    found = []
    for place, said in expected.csv.items():
        if place.part == f"table {title}" and not place.column.endswith(" more"):
            cell = rows[place.row][columns[place.column]]
            if not fits_exactly(said, cell):
                found.append(f"{place}: CSV has {cell[:200]!r}, and should have {said}")
    return found
