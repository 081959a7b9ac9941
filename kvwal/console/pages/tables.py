"""Tables of pages: rows of plain values, which a page shows as people say them, and CSV and JSON give as they are."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from kvwal.console.bodies import Refused
from kvwal.console.pages.texts import FORMS, NUMBERS, count

FORMATS = ("csv", "json")
_NOTHING, _END = Markup(""), Markup("</td>")
_LINK, _TEXT, _LINK_END = Markup('<a href="'), Markup('">'), Markup("</a>")
_MORE, _MORE_END = Markup('<span class="more">'), Markup("</span>")
Link = Callable[[Mapping[str, Any]], str]
"""Makes the address of a page with other parameters: see `address`."""


class Column(NamedTuple):
    """A column: its name in CSV and JSON, its heading, and the form of its values (a name of `texts.FORMS`).

    A column that is `wide` is left out on a phone. `sort` is the value of the parameter `sort` that orders by it.
    """

    key: str
    title: str
    form: str = "text"
    wide: bool = False
    sort: str = ""


class Row(NamedTuple):
    """A row: values, links and a second line by the keys of columns, and a mark: `bad`, `warn`, `less`, `shown` or none."""

    values: Mapping[str, Any]
    links: Mapping[str, str] = {}
    more: Mapping[str, str] = {}
    mark: str = ""


class Pager(NamedTuple):
    """Where these rows are among all, as text; and the addresses of other pages, with the words that lead there."""

    place: str
    before: str = ""
    after: str = ""
    before_words: str = "← previous page"
    after_words: str = "next page →"

    @classmethod
    def of(cls, number: int, total: int, rows: int, link: Link, noun: str = "") -> Pager:
        """The place of page `number` among pages of `rows` rows; `noun` says what is counted, if it is not the rows."""
        first = (number - 1) * rows
        before = link({"page": number - 1 if number > 2 else None}) if number > 1 else ""
        place = f"{count(first + 1)} to {count(min(total, first + rows))} of {count(total)} {noun}".rstrip()
        return cls(place, before, link({"page": number + 1}) if first + rows < total else "")


class Table(NamedTuple):
    """A table of a page. `name` is its name in addresses: `?format=csv&table=NAME`.

    `rows` are those that the page shows; `every` makes all of them for CSV and JSON, where a page shows a part. `empty` is what
    the page says without rows, `order` the order that they have if the address names none (see `Column.sort`): without it
    nothing sorts them.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    empty: str = "None."
    pager: Pager | None = None
    every: Callable[[], Iterable[Row]] | None = None
    note: str = ""
    order: str = ""


def page_number(query: Mapping[str, str], total: int, rows: int) -> int:
    """The page of a long table that an address names, from 1; the last one for a number beyond it."""
    text = query.get("page") or "1"
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < 1:
        raise Refused(400, f"page={text[:40]!r} is no page: give a number from 1 on.")
    return min(int(text), max(1, ceil(total / rows)))


def wanted_format(request: Request) -> str:
    """The format that a request asks for: `csv`, `json`, or nothing for the page."""
    wanted = request.query_params.get("format", "")
    if wanted not in ("", "html", *FORMATS):
        raise Refused(400, f"There is no format {wanted[:40]!r}: ask for csv or json.")
    return "" if wanted == "html" else wanted


def in_format(form: str, name: str, tables: Sequence[Table]) -> Response:
    """A table of a page in CSV or JSON: the one of this name, else the first. It has every row, not those of one page."""
    if not tables:
        raise Refused(404, "This page has no table.")
    table = next((each for each in tables if each.name == name), None) if name else tables[0]
    if table is None:
        known = ", ".join(each.name for each in tables)
        raise Refused(404, f"This page has no table {name[:40]!r}: it has {known}.")
    rows = table.rows if table.every is None else table.every()
    if form == "json":
        return Response(msgspec.json.encode([dict(row.values) for row in rows]), media_type="application/json")
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\r\n")
    keys = [column.key for column in table.columns]
    for number, row in enumerate(rows):
        if number == 0:  # a row has more values than a page has room for
            keys += [key for key in row.values if key not in keys]
            lines.writerow(keys)
        lines.writerow([_plain(row.values.get(key)) for key in keys])
    if not text.tell():
        lines.writerow(keys)
    saved = {"content-disposition": f'attachment; filename="{table.name}.csv"'}
    # A lone surrogate, which JSON can name, has no bytes in UTF-8.
    return Response(text.getvalue().encode(errors="replace"), media_type="text/csv; charset=utf-8", headers=saved)


def _plain(value: Any) -> Any:
    """A value in CSV: lists and objects as JSON."""
    return msgspec.json.encode(value).decode() if isinstance(value, list | tuple | dict) else value


def address(request: Request, changes: Mapping[str, Any]) -> str:
    """The address of a request with other parameters; None takes one away."""
    query = {name: value for name, value in request.query_params.items() if value and name not in changes}
    query |= {name: value for name, value in changes.items() if value is not None}
    return f"?{urlencode(query)}" if query else path_of(request)


def path_of(request: Request) -> str:
    """The path of a request as the browser sent it: that of `request.url` has lost the quotes of its names."""
    raw: bytes = request.scope["raw_path"]
    return raw.decode("ascii", "replace")


def cell(column: Column, row: Row) -> Markup:
    """A cell of a table as HTML. A page has a thousand: so it is joined, which takes a fraction of the time of a format."""
    value = row.values.get(column.key)
    shown: Any = "" if value is None else FORMS[column.form](value)
    parts: tuple[Any, ...] = (shown,)
    if (link := row.links.get(column.key)) and shown != "":
        parts = (_LINK, link, _TEXT, shown, _LINK_END)
    if more := row.more.get(column.key):
        parts += (_MORE, more, _MORE_END)
    is_zero = column.form in NUMBERS and value == 0
    return _NOTHING.join((_begin(column.form, column.wide, is_zero), *parts, _END))


@cache
def _begin(form: str, wide: bool, is_zero: bool) -> Markup:
    """The beginning of a cell. The columns of all pages have a few different ones."""
    zero = "soft" if is_zero else ""  # so that the others stand out
    kinds = " ".join(filter(None, (_class(form), "wide" if wide else "", zero)))
    return Markup('<td class="{}">').format(kinds) if kinds else Markup("<td>")


def heading(column: Column, sort: str, link: Link) -> Markup:
    """The heading of a column. Of a table with an order, `sort`: a link that sorts by it, or the other way round."""
    kinds = " ".join(filter(None, ("num" if column.form in NUMBERS else "", "wide" if column.wide else "")))
    title: Markup = (
        escape(column.title) if column.title else Markup('<span class="unseen">{}</span>').format(column.key)
    )
    order = ""
    if column.sort and sort:
        descending = sort == f"-{column.sort}"
        title = Markup('<a href="{}">{}{}</a>').format(
            link({"sort": column.sort if descending else f"-{column.sort}", "page": None}), title,
            " ↓" if descending else " ↑" if sort == column.sort else "",
        )  # fmt: skip
        if sort.lstrip("-") == column.sort:
            order = "descending" if descending else "ascending"
    sorted_by = Markup(' aria-sort="{}"').format(order) if order else ""
    return Markup('<th scope="col" class="{}"{}>{}</th>').format(kinds, sorted_by, title)


def _class(form: str) -> str:
    return "num" if form in NUMBERS else form if form in _CLASSES else ""


_CLASSES = frozenset({"text", "code", "key", "value", "clip", "id", "plain"})
"""The forms of texts whose cells have a class of their own in console.css."""
