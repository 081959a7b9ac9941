"""Entries as rows of the archive's tables, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kvwal.entry import DataEntry, Entry, make_entry
from kvwal_archive.parquet import rows

if TYPE_CHECKING:
    import pyarrow as pa

_VALUES = tuple(name for name in rows.COLUMNS if name != "sequence")
_values = attrgetter(*_VALUES)


def to_table(numbered: Sequence[tuple[int, Entry]]) -> pa.Table:
    """Entries with their sequences as rows of the archive."""
    import pyarrow as pa

    by_column = zip(*map(_values, (entry for _, entry in numbered)), strict=True) if numbered else ((),) * len(_VALUES)
    columns: dict[str, list[Any]] = {name: list(values) for name, values in zip(_VALUES, by_column, strict=True)}
    columns["sequence"] = [sequence for sequence, _ in numbered]
    return pa.table(columns, schema=rows.SCHEMA)


def to_bytes(table: pa.Table) -> bytes:
    """Rows as an Arrow stream; empty if there are no rows."""
    import pyarrow as pa

    if not table.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_bytes(data: bytes) -> pa.Table:
    """The rows of `to_bytes`."""
    import pyarrow as pa

    return pa.ipc.open_stream(data).read_all() if data else to_table([])


def entries_of(table: pa.Table | pa.RecordBatch) -> Iterable[Entry]:
    """Rows of the archive as entries, in their order."""
    return (make_entry(*values) for values in _values_of(table))


def data_entries_of(table: pa.Table | pa.RecordBatch) -> list[DataEntry]:
    """Rows of the archive as entries for callers, in their order."""
    return [DataEntry(*values) for values in _values_of(table)]


def _values_of(table: pa.Table | pa.RecordBatch) -> Iterable[tuple[Any, ...]]:
    return zip(*(table.column(name).to_pylist() for name in rows.COLUMNS if name != "sequence"), strict=True)


def each_once(entries: list[Entry]) -> list[DataEntry]:
    """The entries, newest first, without the copies that a restore under another node's name made."""
    return list(dict.fromkeys(entry.public() for entry in entries))
