"""The graph of data sets around one of them, as a picture: what it is made of on the left, what is made of it on the right."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from markupsafe import Markup

from kvwal.console.pages.pictures import label, picture
from kvwal.lineage.answer import Answer

MOST_NODES = 40
"""Data sets that are drawn in each direction. The table has all of them."""
_WIDE, _TALL, _GAP_X, _GAP_Y, _EDGE = 174, 40, 42, 14, 2
_LETTERS = 22


class _Node(NamedTuple):
    name: str
    column: int
    row: int

    @property
    def x(self) -> float:
        return _EDGE + self.column * (_WIDE + _GAP_X)

    @property
    def y(self) -> float:
        return _EDGE + self.row * (_TALL + _GAP_Y)


def picture_of(told: Answer, link: Callable[[str], str]) -> tuple[Markup, int]:
    """The picture, and how many data sets are not in it. Each data set leads to its own graph."""
    up, down = (told.up or [])[:MOST_NODES], (told.down or [])[:MOST_NODES]
    missing = len(told.up or []) + len(told.down or []) - len(up) - len(down)
    middle = max((step.depth for step in up), default=0)
    places: list[tuple[str, int]] = [(told.name.text, middle)]
    places += [(step.name.text, middle - step.depth) for step in up]
    places += [(step.name.text, middle + step.depth) for step in down]
    rows: dict[int, int] = {}
    nodes: dict[str, _Node] = {}
    for name, column in places:
        if name not in nodes:  # in a cycle a data set is up and down: it is drawn where it was met first
            nodes[name] = _Node(name, column, rows.get(column, 0))
            rows[column] = nodes[name].row + 1
    edges = {
        (read, written)
        for job in told.jobs
        for read in job.reads
        for written in job.writes
        if read in nodes and written in nodes and read != written
    }
    width = 2 * _EDGE + (1 + max(node.column for node in nodes.values())) * (_WIDE + _GAP_X) - _GAP_X
    height = 2 * _EDGE + max(rows.values()) * (_TALL + _GAP_Y) - _GAP_Y
    drawn = [_edge(nodes[read], nodes[written]) for read, written in sorted(edges)]
    drawn += [_box(node, told, link) for node in nodes.values()]
    image = picture(width, height, f"Lineage of {told.name.text}: the table below has the same", drawn, "lineage")
    # Its own size, not that of the window: it scrolls in its box, and letters stay as large as elsewhere.
    return Markup(str(image).replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)), missing


def _edge(one: _Node, other: _Node) -> Markup:
    x1, y1 = one.x + _WIDE, one.y + _TALL / 2
    x2, y2 = other.x, other.y + _TALL / 2
    bend = max(30.0, abs(x2 - x1) / 2)
    return Markup(
        '<path d="M{0:g},{1:g} C{2:g},{1:g} {3:g},{5:g} {4:g},{5:g}" class="edge"/>'
        '<path d="M{4:g},{5:g} l-7,-4 v8 z" class="arrow"/>'
    ).format(x1, y1, x1 + bend, x2 - bend, x2, y2)


def _box(node: _Node, told: Answer, link: Callable[[str], str]) -> Markup:
    chosen = node.name == told.name.text
    kind = "box is-chosen" if chosen else "box"
    head, _, last = node.name.rstrip("/").rpartition("/")
    inner = [
        Markup('<rect x="{:g}" y="{:g}" width="{}" height="{}" rx="5" class="{}"/>').format(
            node.x, node.y, _WIDE, _TALL, kind
        ),
        label(node.x + 9, node.y + 17, _cut(last or node.name), "strong"),
        label(node.x + 9, node.y + 32, _cut(head, end=True), "soft"),
    ]
    return Markup('<a href="{}" aria-label="{}"{}><title>{}</title>{}</a>').format(
        link(node.name), node.name, Markup(' aria-current="true"') if chosen else "", node.name, Markup("").join(inner)
    )


def _cut(text: str, *, end: bool = False) -> str:
    if len(text) <= _LETTERS:
        return text
    return f"…{text[1 - _LETTERS :]}" if end else f"{text[: _LETTERS - 1]}…"
