"""Rows of files that are text: JSON lines, the lines of an export among them, and CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from kvwal.cli.transfer.lines import entry_of_line
from kvwal.cli.transfer.puts import NumberedEntry
from kvwal.cli.transfer.records import Records, bad_row
from kvwal.config import TRANSACTION_BYTES
from kvwal.entry import Entry
from kvwal.errors import CodecError, ConfigError

_decode = msgspec.json.Decoder().decode
_OF_EXPORT = {"key_class", "value_class"}


def json_rows(lines: Iterable[bytes], records: Records) -> Iterator[NumberedEntry]:
    """An entry for each line that is a JSON object. Without `--key`, a line with the classes of both is a line of an export.

    Blank lines are passed over. Raises `BadRow`.
    """
    for number, text in enumerate(lines, 1):
        if text.isspace():
            continue
        try:
            yield NumberedEntry(number, _entry_of_json(text, records))
        except (ConfigError, CodecError) as error:
            raise bad_row("line", number, error) from error


def _entry_of_json(text: bytes, records: Records) -> Entry:
    try:
        record = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"is no JSON object: {str(error).rstrip('.')}.") from error
    if not isinstance(record, dict):
        raise CodecError("is JSON, but no object.", hint="A file of one list becomes lines by `jq -c '.[]'`.")
    if records.key is None and record.keys() >= _OF_EXPORT:
        return entry_of_line(text)
    records.check(record)
    return records.entry(record)


def csv_rows(lines: Iterable[bytes], records: Records) -> Iterator[NumberedEntry]:
    """An entry for each row of CSV, whose first line names the columns. Cells are text, as they are.

    Raises `ConfigError` if the first line does not name a key; an iteration raises `BadRow`.
    """
    csv.field_size_limit(TRANSACTION_BYTES)
    reader = csv.reader(_texts(lines), strict=True)
    try:
        head = next(reader, [])
    except csv.Error as error:
        raise ConfigError(f"has a first line that is no CSV: {error}.") from error
    except CodecError as error:
        raise ConfigError(f"has a first line that {error.what}") from error
    if not head:
        raise ConfigError("is empty.", hint="The first line of a CSV file names its columns.")
    check_unique_columns(head)
    records.check(head)
    return _csv_rows(reader, head, records)


def check_unique_columns(columns: list[str]) -> None:
    """Raise `ConfigError` if two columns have one name: one of them would be lost."""
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise ConfigError(f"has two columns of the name {twice[0]!r}.", hint="Give each column its own name.")


def _csv_rows(reader: Any, head: list[str], records: Records) -> Iterator[NumberedEntry]:
    key = head.index(records.key or "key")
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader, None)
            if cells is None:
                return
            if not cells:
                continue
            if len(cells) != len(head):
                raise CodecError(f"has {len(cells)} cells, and the first line names {len(head)} columns.")
            if not cells[key]:
                raise CodecError(f"has no key: its {head[key]} is empty.")
            yield NumberedEntry(number, records.entry(dict(zip(head, cells, strict=True))))
        except csv.Error as error:
            raise bad_row("line", number, CodecError(f"is no CSV: {error}.")) from error
        except CodecError as error:
            raise bad_row("line", number, error) from error


def _texts(lines: Iterable[bytes]) -> Iterator[str]:
    """Lines as text, without a byte order mark."""
    encoding = "utf-8-sig"
    for line in lines:
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError as error:
            raise CodecError(
                f"is no UTF-8 text: its byte {error.start:,} is 0x{error.object[error.start]:02x}."
            ) from error
        encoding = "utf-8"
