"""How the command line prints: tables for people, JSON for programs, progress on a terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain, islice
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from kvwal.cli.text import line, visible

Report = Callable[[int, int, str], None]

SAMPLE = 1_000
"""Rows that say how wide the columns of a table are."""
WIDEST = 80
"""Characters of the widest column of a long table."""
DAMAGED = 4
"""Exit code of a command that found damaged data, and printed what it found."""


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def say(text: str) -> None:
    """A line on stdout, as it is."""
    print(text)


def write(data: bytes) -> None:
    """Bytes on stdout, and a line's end."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def json_line(content: Any) -> None:
    """One line of JSON on stdout."""
    write(line(content))


def note(text: str) -> None:
    """A line on stderr: what is no part of the answer."""
    print(visible(text), file=sys.stderr)


def json_lines(found: Iterable[Any]) -> None:
    """One line of JSON for each, without waiting for one another."""
    sys.stdout.flush()
    for content in found:
        sys.stdout.buffer.write(line(content) + b"\n")
    sys.stdout.buffer.flush()


def rows(names: Sequence[str], found: Iterable[Sequence[Any]], form: Format) -> None:
    """Rows under these names: a table, a JSON object a line, or CSV with a head."""
    if form is Format.json:
        json_lines(dict(zip(names, row, strict=True)) for row in found)
    elif form is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows([csv_cell(value) for value in row] for row in found)
    else:
        table(names, found)


def table(names: Sequence[str], found: Iterable[Sequence[Any]]) -> None:
    """A table; numbers stand to the right. A cell is text, never markup. A pipe gets it unfolded.

    The first rows say how wide the columns are. Those of a long table are printed as they come, and none is kept.
    """
    coming = iter(found)
    body = [list(row) for row in islice(coming, SAMPLE)]
    numeric = []
    for column in range(len(names)):
        kinds = {type(row[column]) for row in body} - {type(None)}
        numeric.append(bool(kinds) and kinds <= {int, float})
    beyond = next(coming, None)
    if beyond is not None:
        stream(names, numeric, body, chain([beyond], coming))
        return
    drawn = Table(box=None, pad_edge=False, header_style="bold", show_header=any(names))
    for name, right in zip(names, numeric, strict=True):
        drawn.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in body:
        drawn.add_row(*(cell(value) for value in row))
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 10_000
    console.print(drawn)


def stream(
    names: Sequence[str], numeric: Sequence[bool], body: list[list[Any]], coming: Iterable[Sequence[Any]]
) -> None:
    """A long table, row by row: a cell that is wider than its column moves the rest of its row."""
    cells = [list(names), *([cell(value) for value in row] for row in body)]
    widths = [min(WIDEST, max(cell_len(row[column]) for row in cells)) for column in range(len(names))]
    for row in chain(cells, ([cell(value) for value in row] for row in coming)):
        padded = []
        for text, width, right in zip(row, widths, numeric, strict=True):
            space = " " * (width - cell_len(text))
            padded.append(space + text if right else text + space)
        print("  ".join(padded).rstrip())


def outcome(names: Sequence[str], found: Sequence[Sequence[Any]], json: bool, nothing: str) -> None:
    """Rows as JSON or as a table; for people, a sentence where there are none."""
    if found or json:
        rows(names, found, Format.json if json else Format.table)
    else:
        say(nothing)


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict | list):
        return line(value).decode()
    return f"{value:,}" if isinstance(value, int) else visible(str(value))


def csv_cell(value: Any) -> Any:
    """A value in CSV: nothing for None, JSON for what only JSON can say."""
    if value is None:
        return ""
    return line(value).decode() if isinstance(value, bool | dict | list) else value


class Bars:
    """Progress on a terminal, drawn from the first report until everything reported is done."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def report(self, done: int, total: int, what: str) -> None:
        """`done` of `total` (0: nobody knows) of `what`."""
        if not sys.stderr.isatty():
            return
        if self._bar is None:
            self._bar = new_bar()
            self._bar.start()
        if what not in self._tasks:
            self._tasks[what] = self._bar.add_task(what, total=total or None)
        self._bar.update(self._tasks[what], completed=done, total=total or None)
        if self._bar.finished:
            self.stop()

    def stop(self) -> None:
        """Clear the terminal of it; a later report draws anew."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
        self._tasks.clear()


class Rate(ProgressColumn):
    """How many a second, once that is known."""

    def render(self, task: Task) -> Text:
        """One cell."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def new_bar() -> Progress:
    """What is being done, how far it is, its rate, the time gone and the time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)


@contextmanager
def progress() -> Iterator[Report]:
    """What it yields is called with (done, total, what is being done) and draws bars, on a terminal only."""
    bars = Bars()
    try:
        yield bars.report
    finally:
        bars.stop()
