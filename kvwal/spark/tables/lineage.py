"""The table `spark_lineage`: a row for each data set that an execution, a job or a streaming query read or wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec

from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.history.reads.key_scan import KeySpan
from kvwal.spark.lineage.edges import EDGES, Edges, application_of_edges
from kvwal.spark.lineage.names import DatasetName
from kvwal.spark.tables.columns import Moment, RecordColumn, data_type, to_array
from kvwal.spark.tables.key_spans import spans_of_apps

if TYPE_CHECKING:
    import pyarrow as pa

Spans = Callable[[Mapping[str, frozenset[Any]]], list[KeySpan] | None]
DATASET = ("way", "dataset", "dataset_namespace", "dataset_name", "table_name")
"""The columns of a data set, and whether it was read or written: those of every table of lineage."""


class DatasetTable:
    """A table with a row for each data set of a record. `spans` is that of `kvwal.sql.typed.TypedTable`."""

    def __init__(
        self, name: str, keys: bytes, record: type[Any], columns: Mapping[str, Any],
        of_record: Callable[[str, Any], tuple[Any, ...]], spans: Spans,
    ) -> None:  # fmt: skip
        """`columns` has the kinds of the columns that `of_record` gives for a key and a record. Those of its data sets follow."""
        self.name = name
        self.keys = re.compile(keys)
        self.spans = spans
        self._record = record
        self._of_record = of_record
        self._own = len(columns)
        self._columns = [
            RecordColumn(column, column, kind, -1 if kind is int else None)
            for column, kind in {**columns, **dict.fromkeys(DATASET, str), "key": str}.items()
        ]

    key_columns: Sequence[str] = ()
    """Columns that are in the keys, after the application."""

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        import pyarrow as pa

        return pa.schema([(column.name, data_type(column.kind)) for column in self._columns])

    def read(self, entries: Sequence[Entry | DataEntry], columns: Iterable[str]) -> pa.Table:
        """See `kvwal.sql.typed.TypedTable.read`."""
        import pyarrow as pa

        wanted = set(columns)
        rows = list(self._rows(entries))
        arrays = {
            column.name: to_array(column, [row[number] for row in rows])
            for number, column in enumerate(self._columns)
            if column.name in wanted
        }
        return pa.table(list(arrays.values()), schema=pa.schema([self.schema.field(name) for name in arrays]))

    def _rows(self, entries: Sequence[Entry | DataEntry]) -> Iterator[tuple[Any, ...]]:
        decode = msgspec.json.Decoder(self._record).decode
        for entry in entries:
            key = entry.key.decode()
            try:
                record = decode(entry.value)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise CodecError(
                    f"the value of {key!r} is no record of lineage: {error}.",
                    hint="A newer version may have written it.",
                ) from error
            own = self._of_record(key, record)
            for way, names in (("read", record.reads), ("write", record.writes)):
                for name in names:
                    yield (*own, way, *_of_name(name), key)


def _of_name(name: DatasetName) -> tuple[str, str, str, str]:
    return name.text, name.namespace, name.name, name.table


def _of_edges(key: str, edges: Edges) -> tuple[Any, ...]:
    return application_of_edges(key.encode()), edges.process, edges.sql, edges.title, edges.status, edges.at


def _span(app: str) -> KeySpan:
    return f"{EDGES}{app}=".encode(), f"{EDGES}{app}>".encode()  # > follows =


LINEAGE = DatasetTable(
    "spark_lineage",
    b"^" + EDGES.encode(),
    Edges,
    {"app": str, "run": str, "sql": int, "description": str, "status": str, "ended": Moment},
    _of_edges,
    partial(spans_of_apps, span=_span),
)
