"""The two tables of every business: its latest entries, and its history. Values are JSON in both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kvwal.entry import DataEntry, Entry
from kvwal.history.reads.structure_rows import place_columns
from kvwal.sql.text import json_text, key_label

if TYPE_CHECKING:
    import pyarrow as pa

HISTORY = "_history"
"""What follows the name of a business in the name of its history."""
PIECE_BYTES = 16 << 20
ENTRY_BYTES = 100
"""About the bytes of an entry beside its key and value."""
_COLUMNS = """
    key, value::JSON AS value, key_class, value_class, timestamp, make_timestamptz((timestamp >> 16) * 1000) AS time,
    CASE WHEN expires > 0 THEN make_timestamptz(expires * 1000) END AS expires, raw"""
PLACES = " structure, priority, position,"
"""What the tables of queues have before their other columns."""
LATEST = _COLUMNS + ' FROM "{rows}"'
# A snapshot and the archive may both hold an entry; only the archive knows its sequence.
CHANGES = (
    _COLUMNS
    + """, deleted, node, CASE WHEN sequence > 0 THEN sequence END AS sequence FROM "{rows}"
    QUALIFY row_number() OVER (PARTITION BY node, key_class, key, timestamp ORDER BY "{rows}".sequence DESC) = 1"""
)
LATEST_OF_CHANGES = (
    _COLUMNS
    + """ FROM "{rows}" QUALIFY row_number() OVER (PARTITION BY key_class, key ORDER BY timestamp DESC, node DESC) = 1
    AND NOT deleted AND ("{rows}".expires = 0 OR "{rows}".expires > epoch_ms(now()))"""
)
_ENTRY = ("key", "key_class", "value", "value_class", "timestamp", "expires")


def pieces(entries: Iterable[Entry | DataEntry]) -> Iterator[list[Entry | DataEntry]]:
    """The entries in lists of about `PIECE_BYTES`; one empty list if there are none."""
    piece: list[Entry | DataEntry] = []
    size = 0
    for entry in entries:
        piece.append(entry)
        size += ENTRY_BYTES + len(entry.key) + len(entry.value)
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def rows_of(entries: Iterable[Entry | DataEntry], *, places: bool = False) -> pa.Table:
    """The entries as rows for `LATEST`; with `places` also for `PLACES`. Then they are items of queues."""
    columns = zip(*([getattr(entry, name) for name in _ENTRY] for entry in entries), strict=True)
    lists = dict(zip(_ENTRY, map(list, columns), strict=False)) or {name: [] for name in _ENTRY}
    return _with_places(lists) if places else _readable(lists)


def rows_of_changes(changes: pa.Table, *, places: bool = False) -> pa.Table:
    """Rows of the archive as rows for `CHANGES`; with `places` as those of `rows_of`."""
    lists = {name: changes.column(name).to_pylist() for name in changes.column_names}
    return _with_places(lists) if places else _readable(lists)


def no_changes() -> pa.Table:
    """No row for `CHANGES`."""
    return _readable({name: [] for name in (*_ENTRY, "deleted", "node", "sequence")})


def _with_places(lists: dict[str, list[Any]]) -> pa.Table:
    rows = _readable(lists)
    for name, column in place_columns(lists["key"], lists["key_class"]).items():
        rows = rows.append_column(name, column)
    return rows


def _readable(lists: dict[str, list[Any]]) -> pa.Table:
    """A table of entries with the key as text, the value as JSON text, and the value's bytes as `raw`."""
    import pyarrow as pa

    lists = dict(lists)
    lists["raw"] = lists["value"]
    lists["value"] = [json_text(*pair) for pair in zip(lists["value"], lists["value_class"], strict=True)]
    lists["key"] = [key_label(*pair) for pair in zip(lists["key"], lists["key_class"], strict=True)]
    kinds = {
        "raw": pa.binary(),
        "timestamp": pa.int64(),
        "expires": pa.int64(),
        "sequence": pa.int64(),
        "deleted": pa.bool_(),
    }
    return pa.table({name: pa.array(column, kinds.get(name, pa.string())) for name, column in lists.items()})
