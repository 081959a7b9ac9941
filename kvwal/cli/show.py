"""Output of the command line: lines and rows for people, JSON and CSV for programs, progress bars on a terminal."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

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
from rich.text import Text

from kvwal.cli.tables import print_table
from kvwal.cli.text import line, visible

if TYPE_CHECKING:
    from kvwal.log.reader import Progress as ReadProgress

DAMAGED = 4
"""Exit code of a command that found damaged data and printed its findings."""


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    json = "json"
    csv = "csv"


def say(text: str) -> None:
    """Print a line on stdout."""
    print(text)


def write(data: bytes) -> None:
    """Print bytes and a line's end on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data + b"\n")
    sys.stdout.buffer.flush()


def json_line(content: Any) -> None:
    """Print one line of JSON on stdout."""
    write(line(content))


def answer(content: Any, sentence: str, json: bool) -> None:
    """Print the answer of a command: with `--json` the content as a line of JSON, else the sentence."""
    if json:
        json_line(content)
    else:
        say(sentence)


def note(text: str) -> None:
    """Print a line on stderr: a remark that is no part of the answer."""
    print(visible(text), file=sys.stderr)


def json_lines(contents: Iterable[Any]) -> None:
    """Print one line of JSON for each content, as it comes."""
    sys.stdout.flush()
    for content in contents:
        sys.stdout.buffer.write(line(content) + b"\n")
    sys.stdout.buffer.flush()


def rows(names: Sequence[str], lines: Iterable[Sequence[Any]], form: Format) -> None:
    """Print rows under these names: a table, a JSON object a line, or CSV with a head."""
    if form is Format.json:
        json_lines(dict(zip(names, row, strict=True)) for row in lines)
    elif form is Format.csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(names)
        writer.writerows([csv_cell(value) for value in row] for row in lines)
    else:
        print_table(names, lines)


def table_or_json(names: Sequence[str], lines: Iterable[Sequence[Any]], json: bool) -> None:
    """Print rows as a table, or with `--json` as a JSON object a line."""
    rows(names, lines, Format.json if json else Format.table)


def outcome(names: Sequence[str], lines: Sequence[Sequence[Any]], json: bool, nothing: str) -> None:
    """Print rows as JSON or as a table; for people, the sentence `nothing` if there are no rows."""
    if lines or json:
        table_or_json(names, lines, json)
    else:
        say(nothing)


def csv_cell(value: Any) -> Any:
    """A value in CSV: empty for None, JSON for a bool, an object or a list."""
    if value is None:
        return ""
    return line(value).decode() if isinstance(value, bool | dict | list) else value


class Bars:
    """Progress bars on a terminal, drawn from the first report until every reported task is done."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def report(self, done: int, total: int, what: str) -> None:
        """Show that `done` of `total` (0: unknown) of the task `what` is done."""
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
        """Clear the bars from the terminal; a later report draws them anew."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
        self._tasks.clear()


class Rate(ProgressColumn):
    """Column with the rate of a task in units a second; empty until the rate is known."""

    def render(self, task: Task) -> Text:
        """The cell of one task."""
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def new_bar() -> Progress:
    """Bars with a task's name, its progress, its rate, the time gone and the time left."""
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
def progress() -> Iterator[ReadProgress]:
    """Yield a function that draws bars on a terminal; its arguments are done, total (0: unknown) and the task's name."""
    bars = Bars()
    try:
        yield bars.report
    finally:
        bars.stop()
