"""A page of the console as a person reads it: every text on it, each with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

_VOID = frozenset(
    {"area", "base", "br", "circle", "col", "hr", "img", "input", "line", "link", "meta", "path", "polyline"}
)
_TOLD = ("aria-label", "title", "value", "placeholder")
"""Attributes that a browser shows, or reads aloud."""


class Element:
    """An element: its children are elements and texts."""

    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.children: list[Element | str] = []

    @property
    def kinds(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    def every(self, *tags: str) -> Iterator[Element]:
        """It and all elements in it that have one of these tags, in their order."""
        if self.tag in tags:
            yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.every(*tags)

    def first(self, *tags: str) -> Element | None:
        """The first of `every`."""
        return next(self.every(*tags), None)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = self.at = Element("page", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, {name: value or "" for name, value in attrs}, self.at)
        self.at.children.append(made)
        if tag not in _VOID:
            self.at = made

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.at.children.append(Element(tag, {name: value or "" for name, value in attrs}, self.at))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            assert self.at.tag == tag, f"</{tag}> ends <{self.at.tag}>"
            assert self.at.parent is not None
            self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.children.append(data)


def tree_of(html: str) -> Element:
    """The elements of a page."""
    tree = _Tree()
    tree.feed(html)
    tree.close()
    return tree.root


class Place(NamedTuple):
    """Where a text stands: in which part of the page, at which of its rows or texts, and under which heading."""

    part: str
    row: int = 0
    column: str = ""

    def __str__(self) -> str:
        return " / ".join(map(str, filter(lambda each: each != "", self)))


class Shown(NamedTuple):
    """What stands at a place: the text, and the moment that it is, as the page tells it to programs; else nothing."""

    text: str
    moment: str = ""


def texts_of(page: Element) -> dict[Place, Shown]:
    """All texts of a page, in their order."""
    texts = _Texts()
    texts.walk(page, "page")
    return texts.found


class _Texts:
    """The texts that were found so far."""

    def __init__(self) -> None:
        self.found: dict[Place, Shown] = {}
        self._count: Counter[str] = Counter()

    def _put(self, part: str, shown: Shown, column: str = "", row: int | None = None) -> None:
        if shown.text:
            place = Place(part, self._count[part] if row is None else row, column)
            self._count[part] += row is None
            assert place not in self.found, f"two texts at {place}: {self.found[place].text!r}, {shown.text!r}"
            self.found[place] = shown

    def walk(self, element: Element, part: str) -> None:
        if element.tag in ("script", "style"):
            return
        if element.tag == "table":
            self._table(element, f"table {_title_of(element)}")
            return
        if element.tag == "dl" and "figures" in element.kinds:
            for figure in element.every("div"):
                self._figure(figure)
            return
        if element.tag == "dl":
            for name, value in zip(element.every("dt"), element.every("dd"), strict=True):
                self._put(f"fact {_said(name)}", Shown(_said(value), _moment_of(value)))
            return
        part = _part_of(element, part)
        for name in _TOLD:
            if name in element.attributes:
                self._put(f"{part} {name}", Shown(_plain(element.attributes[name])))
        if element.tag == "time":
            self._put(part, Shown(_said(element), element.attributes["datetime"]))
            return
        for child in element.children:
            if isinstance(child, Element):
                self.walk(child, part)
            else:
                self._put(part, Shown(_plain(child)))

    def _table(self, element: Element, part: str) -> None:
        headings = [_said(heading).rstrip(" ↑↓") for heading in element.every("th")]
        body = element.first("tbody")
        for number, row in enumerate(body.every("tr") if body is not None else ()):
            cells = list(row.every("td"))
            assert len(cells) == len(headings), f"{part}: a row of {len(cells)} cells under {headings}"
            for heading, cell in zip(headings, cells, strict=True):
                more = [each for each in cell.every("span") if "more" in each.kinds]
                for each in more:
                    self._put(part, Shown(_said(each)), f"{heading} more", number)
                    cell.children.remove(each)
                self._put(part, Shown(_said(cell), _moment_of(cell)), heading, number)

    def _figure(self, element: Element) -> None:
        name, value = element.first("dt"), element.first("dd")
        assert name is not None
        assert value is not None
        for more in [each for each in value.children if isinstance(each, Element) and each.tag == "small"]:
            self._put(f"figure {_said(name)} more", Shown(_said(more)))
            value.children.remove(more)
        self._put(f"figure {_said(name)}", Shown(_said(value), _moment_of(value)))


def without_numbers(name: str) -> str:
    """The name of a picture, as the place of its texts has it."""
    return re.sub(r"\d+ ?", "", name)


def _part_of(element: Element, part: str) -> str:
    """The part of the page that an element begins, else the one that it is in."""
    if element.tag == "svg" and "aria-label" in element.attributes:
        phone = element.parent is not None and "phone" in element.parent.kinds
        name = without_numbers(element.attributes["aria-label"])
        return f"{'small picture' if phone else 'picture'} {name}"
    if part.startswith(("picture", "small picture")):
        return part
    if element.tag in ("title", "h1", "h2", "h3", "nav", "footer", "li", "form", "pre", "summary"):
        return element.tag
    for kind in ("crumbs", "chips", "location", "failure", "head"):
        if kind in element.kinds:
            return kind
    if "title" in element.kinds:
        return "beside the title"
    return part


def _title_of(table: Element) -> str:
    """The title of a table: that of its scrolled region."""
    assert table.parent is not None
    return table.parent.attributes["aria-label"]


def _moment_of(element: Element) -> str:
    found = element.first("time")
    return "" if found is None else found.attributes["datetime"]


def _said(element: Element) -> str:
    return _plain(element.text)


def _plain(text: str) -> str:
    """A text without the spaces that a browser leaves out."""
    return " ".join(text.split(" ")).strip(" \n\t")
