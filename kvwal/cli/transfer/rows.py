"""The rows of a file of any format that `kvwal import` reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from kvwal.cli.transfer.parquet_rows import parquet_rows
from kvwal.cli.transfer.puts import BadRow, ImportSource, NumberedEntry
from kvwal.cli.transfer.records import Records
from kvwal.cli.transfer.standard_input import NAME, STANDARD_INPUT, standard_input
from kvwal.cli.transfer.text_rows import csv_rows, json_rows
from kvwal.errors import ConfigError


class FileFormat(StrEnum):
    """What a file is."""

    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


_SUFFIXES = {".csv": FileFormat.csv, ".parquet": FileFormat.parquet}


@contextmanager
def open_rows(
    file: Path | None, form: FileFormat | None, key: str | None
) -> Iterator[tuple[Iterator[NumberedEntry], ImportSource]]:
    """The rows of a file, or of standard input (None or `-`), and what they are called.

    The format is that of `form`, else of the suffix: `.csv`, `.parquet`, and JSON lines for any other. `key` names the column of
    the key. Raises `ConfigError`.
    """
    if file is None or str(file) == STANDARD_INPUT:
        if form is FileFormat.parquet:
            raise ConfigError("Parquet is not read from standard input: its end is read first.", hint="Name a FILE.")
        yield _opened(standard_input("a FILE"), form, key, ImportSource(NAME, "line"))
        return
    form = form or _SUFFIXES.get(file.suffix.lower())
    with _open(file) as opened:
        unit = "row" if form is FileFormat.parquet else "line"
        yield _opened(opened, form, key, ImportSource(str(file), unit))


def _open(file: Path) -> BinaryIO:
    try:
        return open(file, "rb")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).", hint="Name a file to import.") from error


def _opened(
    opened: BinaryIO, form: FileFormat | None, key: str | None, source: ImportSource
) -> tuple[Iterator[NumberedEntry], ImportSource]:
    records = Records(key)
    try:
        if form is FileFormat.parquet:
            return parquet_rows(opened, records), source
        lines = _lines(opened)
        return csv_rows(lines, records) if form is FileFormat.csv else json_rows(lines, records), source
    except ConfigError as error:
        raise ConfigError(f"{source.name} {error.what}", hint=error.hint) from error


def _lines(opened: BinaryIO) -> Iterator[bytes]:
    try:
        yield from opened
    except OSError as error:
        raise BadRow(f"cannot be read ({error.strerror}).") from error
