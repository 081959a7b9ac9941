"""Commands that copy entries out of a store and into one: export, import."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import AcceptClock, At, Business, Json, path_parser
from kvwal.cli.text import line
from kvwal.cli.transfer.lines import exported
from kvwal.cli.transfer.new_file import NewFile
from kvwal.cli.transfer.puts import put_rows
from kvwal.cli.transfer.ranges import KeyRangeOptions
from kvwal.cli.transfer.rows import FileFormat, open_rows
from kvwal.counted import counted
from kvwal.ports.clock import SYSTEM

STANDARD_OUTPUT = "-"
"""The FILE that is standard output."""


def export(
    selection: StoreSelection,
    business: Business,
    keys: KeyRangeOptions,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A new file; without it, or with -, standard output.",
            show_default=False,
            parser=path_parser("file", "file"),
        ),
    ] = None,
    at: At = None,
) -> None:
    """Write every entry of a map as one JSON object a line, so that `import` brings it back byte for byte.

    FILE gets its name when it is whole: an error, or Ctrl-C, leaves no part of it.
    """
    folder = selection.folder()
    if folder is not None:
        folder.logs(business)
    with selection.reader(at) as store:
        lines = (exported(entry) for entry in keys.read(store.read_business(business, logged=True)))
        if file is None or str(file) == STANDARD_OUTPUT:
            show.json_lines(lines)
        else:
            show.say(f"{file}: {counted(write_file(file, lines), 'entry', 'entries')}.")


def write_file(file: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Write the lines to a new file, and return how many they were."""
    count = 0
    with NewFile(file) as out:
        for fields in lines:
            out.write(line(fields) + b"\n")
            count += 1
    return count


def import_(
    selection: StoreSelection,
    business: Business,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="JSON lines, CSV or Parquet; without it, or with -, standard input.",
            show_default=False,
            parser=path_parser("file", "file"),
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of the keys; the others become the fields of the values."),
    ] = None,
    format: Annotated[
        FileFormat | None, typer.Option(help="What FILE is, if its name does not end in .csv or .parquet.")
    ] = None,
    accept_clock: AcceptClock = False,
    json: Json = False,
) -> None:
    """Put every row of a file: of an export, of `scan --json`, of JSON lines, CSV or Parquet.

    `kvwal import seatunnel`, `kvwal import flume` and `kvwal import nifi` are commands of their own: they read the logs of these
    products.

    Of several rows with one key the last one counts. The rows are put in transactions of some hundred, and an import that was
    interrupted may be repeated: entries that are there already are put again. Expired entries of an export are left out.
    """
    with (
        open_rows(file, format, key) as (rows, source),
        selection.writer(begins=business, accept_clock=accept_clock) as store,
    ):
        count = put_rows(store.map(business), rows, source, SYSTEM.wall_ms())
    put = counted(count.written, "entry was put", "entries were put")
    sentence = f"{put}, {count.expired:,} had expired." if count.expired else f"{put}."
    show.answer({"imported": count.written, "expired": count.expired}, sentence, json)
    selection.check_archived(store)
