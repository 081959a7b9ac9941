"""Tables for people: aligned columns on a terminal or a pipe. A cell is plain text, never markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvwal.cli.text import line, visible

Cell = str | Text
"""A cell of a sheet: a string, or a `Text` with a colour."""

DRAWN = 200
"""Rows of the longest table that is drawn for a terminal."""
SAMPLE = 1_000
"""Rows that decide how wide the columns of a table are."""
WIDEST = 80
"""Characters of the widest column of a long table."""
_PIPE_WIDTH = 10_000
"""Characters of a line on a pipe: wide enough that no cell is folded."""


class Column(NamedTuple):
    """Head of a column, and how its cells are laid out."""

    name: str
    numeric: bool = False
    """Numbers are aligned right."""
    optional: bool = False
    """The column is left out if the terminal is too narrow."""
    folds: bool = True
    """A cell that is wider than its column goes on in the next line."""


def columns(*names: str) -> list[Column]:
    """Columns from short names: `>` marks numbers, `?` in front of it an optional column. The first and numbers do not fold."""
    made = []
    for number, name in enumerate(names):
        head = name.removeprefix("?")
        numeric = head.startswith(">")
        made.append(Column(head.removeprefix(">"), numeric, head != name, not numeric and number > 0))
    return made


class Sheet:
    """A table that fits the terminal: optional columns are left out, the last first, until it is narrow enough.

    A table of few rows is drawn by rich, in colour, and folds wide cells. Drawing takes rich about a millisecond a row. So a
    long table, and one on a pipe, is printed as plain lines.
    """

    def __init__(self, columns: Sequence[Column], title: str | None = None) -> None:
        self._columns = columns
        self._title = title
        self._rows: list[Sequence[Cell]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_row(self, *cells: Cell) -> None:
        """Add a row with one cell for each column."""
        self._rows.append(cells)

    def lines(self, most: int = _PIPE_WIDTH) -> Iterator[str]:
        """The table as lines of text. A cell that is wider than `WIDEST` moves the rest of its row."""
        rows = [[visible(cell) if isinstance(cell, str) else cell.plain for cell in cells] for cells in self._rows]
        heads = [column.name for column in self._columns]
        widths = [min(WIDEST, max(map(cell_len, column))) for column in zip(heads, *rows, strict=True)]
        shown = list(range(len(heads)))
        for number in reversed([number for number, column in enumerate(self._columns) if column.optional]):
            if sum(widths[each] + 2 for each in shown) - 2 > most:
                shown.remove(number)
        if self._title:
            yield self._title
        for row in [heads, *rows] if any(heads) else rows:
            yield _line([(row[each], widths[each], self._columns[each].numeric) for each in shown])

    def fit(self, console: Console) -> Table:
        """The table without the optional columns for which the console is too narrow."""
        shown = list(range(len(self._columns)))
        table = self._draw(shown)
        for number in reversed([number for number, column in enumerate(self._columns) if column.optional]):
            if console.measure(table, options=console.options.update(max_width=_PIPE_WIDTH)).maximum <= console.width:
                break
            shown.remove(number)
            table = self._draw(shown)
        return table

    def _draw(self, shown: list[int]) -> Table:
        heads = any(column.name for column in self._columns)
        table = Table(box=None, pad_edge=False, header_style="bold", title=self._title, show_header=heads)
        table.title_justify, table.title_style = "left", "bold underline"
        for number in shown:
            name, numeric, _, folds = self._columns[number]
            table.add_column(name, justify="right" if numeric else "left", no_wrap=not folds, overflow="fold")
        for cells in self._rows:
            drawn = (cells[number] for number in shown)
            table.add_row(*(Text(visible(cell)) if isinstance(cell, str) else cell for cell in drawn))
        return table


def print_sheets(*sheets: Sheet) -> None:
    """Print the sheets that have rows, an empty line after each. A pipe gets every column, unfolded."""
    console = _console()
    for sheet in filter(len, sheets):
        if console.is_terminal and len(sheet) <= DRAWN:
            console.print(sheet.fit(console))
        else:
            for text in sheet.lines(console.width):
                print(text)
        print()


def print_table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows of values under these names; a column of numbers is aligned right. A pipe gets the cells unfolded.

    The first `SAMPLE` rows decide how wide the columns are. A longer table is printed row by row, and no row is kept.
    """
    remaining = iter(rows)
    sample = [list(row) for row in islice(remaining, SAMPLE)]
    heads = [Column(name, _is_numeric(row[number] for row in sample)) for number, name in enumerate(names)]
    beyond = next(remaining, None)
    if beyond is not None:
        _stream(heads, sample, chain([beyond], remaining))
        return
    sheet = Sheet(heads)
    for row in sample:
        sheet.add_row(*(cell(value) for value in row))
    console = _console()
    console.print(sheet.fit(console))


def cell(value: Any) -> str:
    """A value as the text of a cell."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return line(value).decode()
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def _is_numeric(values: Iterable[Any]) -> bool:
    kinds = {type(value) for value in values} - {type(None)}
    return bool(kinds) and kinds <= {int, float}


def _stream(heads: Sequence[Column], sample: list[list[Any]], remaining: Iterable[Sequence[Any]]) -> None:
    """Print a long table row by row. A cell that is wider than its column moves the rest of its row."""
    lines = [[head.name for head in heads], *([cell(value) for value in row] for row in sample)]
    widths = [min(WIDEST, max(cell_len(row[number]) for row in lines)) for number in range(len(heads))]
    for row in chain(lines, ([cell(value) for value in row] for row in remaining)):
        print(_line([(text, width, head.numeric) for text, width, head in zip(row, widths, heads, strict=True)]))


def _line(cells: Iterable[tuple[str, int, bool]]) -> str:
    """Cells as one line: each with its width, and whether it is aligned right."""
    padded = []
    for text, width, numeric in cells:
        space = " " * (width - cell_len(text))
        padded.append(space + text if numeric else text + space)
    return "  ".join(padded).rstrip()


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console
