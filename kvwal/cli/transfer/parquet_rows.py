"""Rows of a Parquet file, 500 rows in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from kvwal.cli.transfer.puts import BATCH_ENTRIES, BadRow, NumberedEntry
from kvwal.cli.transfer.records import Records, bad_row
from kvwal.cli.transfer.text_rows import check_unique_columns
from kvwal.errors import CodecError, ConfigError
from kvwal.sql.text import encode_json

if TYPE_CHECKING:
    import pyarrow.parquet as pq

BUFFER_BYTES = 1 << 20
_SCALARS = (str, int, float, bool, bytes, type(None))
"""Types of a key or value that are stored as they are."""


def parquet_rows(file: BinaryIO, records: Records) -> Iterator[NumberedEntry]:
    """One entry for each row. Raises `ConfigError` if the file is no Parquet file, has no key column, or has two columns of one
    name; iterating raises `BadRow` for a row that cannot be read or stored.

    Types that JSON lacks become text: dates and times in ISO 8601, decimals with all of their digits, bytes as base64.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        opened = pq.ParquetFile(file, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"is no Parquet file that can be read: {_first_line(error)}") from error
    columns = opened.schema_arrow.names
    check_unique_columns(columns)
    records.check(columns)
    return _rows(opened, records)


def _rows(opened: pq.ParquetFile, records: Records) -> Iterator[NumberedEntry]:
    import pyarrow as pa

    number = 0
    with closing(opened):
        try:
            for batch in opened.iter_batches(batch_size=BATCH_ENTRIES):
                for record in batch.to_pylist(maps_as_pydicts="strict"):
                    number += 1
                    yield _row(number, record, records)
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise BadRow(f"the row after row {number:,} cannot be read: {_first_line(error)}") from error


def _row(number: int, record: dict[str, Any], records: Records) -> NumberedEntry:
    try:
        if records.key is None and record["key"] is None:
            raise CodecError("has no key: its key is null.")
        plain = {
            name: content if isinstance(content, _SCALARS) else _plain(content) for name, content in record.items()
        }
        if records.key is not None:
            # The value is one JSON object; the key keeps its own type.
            plain = {**_plain(plain), records.key: plain[records.key]}
        return NumberedEntry(number, records.entry(plain))
    except CodecError as error:
        raise bad_row("row", number, error) from error


def _plain(content: Any) -> Any:
    """The content in the types of JSON."""
    return msgspec.json.decode(encode_json(msgspec.to_builtins(content, str_keys=True, enc_hook=_iso)))


def _iso(content: Any) -> str:
    """ISO 8601 text of a pandas Timestamp or Timedelta: pyarrow returns these for nanoseconds."""
    text: str = content.isoformat()
    return text


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") + "."
