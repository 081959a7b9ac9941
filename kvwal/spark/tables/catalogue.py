"""The tables of Spark's records: their names, their columns, and the records behind them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter, length_hint
from typing import TYPE_CHECKING, Any

import msgspec

from kvwal.entry import DataEntry, Entry
from kvwal.errors import CodecError
from kvwal.history.reads.key_scan import KeySpan
from kvwal.spark import record_keys
from kvwal.spark import records as rec
from kvwal.spark.tables import key_spans
from kvwal.spark.tables.columns import RecordColumn, columns_of, data_type, partial, to_array
from kvwal.spark.tables.key_spans import KeyLayout
from kvwal.spark.tables.lineage import LINEAGE, DatasetTable

if TYPE_CHECKING:
    import pyarrow as pa

Entries = Sequence[Entry | DataEntry]
APP = RecordColumn(key_spans.APP, key_spans.APP, str)
"""The application of a record: the beginning of its key."""
KEY = RecordColumn(key_spans.KEY, key_spans.KEY, str)
READER_STATE = {
    "buckets", "histograms", "seen", "resubmitted", "sql_metrics", "core_offset_ms", "broken_sql", "running",
    "running_sql",
}  # fmt: skip
"""Fields that only a reader of event logs needs. They are no columns."""


class RecordTable:
    """A table with a row for each record of one kind: `app`, the fields of the record, and `key`."""

    def __init__(self, name: str, record: type[msgspec.Struct], keys: bytes, layout: KeyLayout) -> None:
        """`keys` is found in the keys of the records, where the name of the application ends. `layout` says how they go on."""
        self.name = name
        self.keys = re.compile(keys)
        self._layout = layout
        self._record = record
        self._columns = [column for column in columns_of(record) if column.field not in READER_STATE]

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return _schema([APP, *self._columns, KEY])

    @property
    def key_columns(self) -> list[str]:
        """Columns that are in the keys, after the application."""
        return self._layout.columns

    def spans(self, values: Mapping[str, frozenset[Any]]) -> list[KeySpan] | None:
        """See `kvwal.sql.typed.TypedTable.spans`."""
        return self._layout.spans(values)

    def read(self, entries: Entries, columns: Iterable[str]) -> pa.Table:
        """See `kvwal.sql.typed.TypedTable.read`."""
        wanted = set(columns)
        read = [column for column in self._columns if column.name in wanted]
        records = decode(entries, self._record, [column.field for column in read]) if read else []
        arrays = {column.name: to_array(column, list(map(attrgetter(column.field), records))) for column in read}
        arrays |= key_columns(entries, self.keys, wanted)
        return _table(self.schema, arrays)


class PartTable:
    """A table with a row for each part of a record: `app`, some fields of the record, those of the part, and `key`."""

    def __init__(
        self,
        name: str,
        record: type[msgspec.Struct],
        keys: bytes,
        layout: KeyLayout,
        part: type[msgspec.Struct],
        groups: dict[str, str],
        group: str,
        shared: dict[str, str],
        parts_in: Callable[[Any], Iterable[Any]] = iter,
    ) -> None:
        """`groups` are fields with parts, each with the value that the column `group` has for it.

        `shared` are columns that come from the record, each with its field. `parts_in` gives the parts in the value of a field.
        """
        self.name = name
        self.keys = re.compile(keys)
        self._layout = layout
        self._record = record
        self._groups = groups
        self._group = RecordColumn(group, group, str)
        by_field = {column.field: column for column in columns_of(record)}
        self._shared = [by_field[field]._replace(name=column) for column, field in shared.items()]
        self._part = columns_of(part)
        self._parts_in = parts_in

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return _schema([APP, self._group, *self._part, *self._shared, KEY])

    @property
    def key_columns(self) -> list[str]:
        """Columns that are in the keys, after the application."""
        return self._layout.columns

    def spans(self, values: Mapping[str, frozenset[Any]]) -> list[KeySpan] | None:
        """See `kvwal.sql.typed.TypedTable.spans`."""
        return self._layout.spans(values)

    def read(self, entries: Entries, columns: Iterable[str]) -> pa.Table:
        """See `kvwal.sql.typed.TypedTable.read`."""
        wanted = set(columns)
        shared = [column for column in self._shared if column.name in wanted]
        records = decode(entries, self._record, [*(column.field for column in shared), *self._groups])
        rows = list(self._rows(records))
        arrays = {
            column.name: to_array(column, [getattr(part, column.field) for _, _, part in rows])
            for column in self._part
            if column.name in wanted
        }
        arrays[self._group.name] = to_array(self._group, [group for _, group, _ in rows])
        for column in shared:
            arrays[column.name] = to_array(column, [getattr(records[row], column.field) for row, _, _ in rows])
        arrays |= key_columns([entries[row] for row, _, _ in rows], self.keys, wanted)
        return _table(self.schema, arrays)

    def _rows(self, records: Sequence[Any]) -> Iterator[tuple[int, str, Any]]:
        """Number of the record, value of the group column, and part, of each row."""
        for row, record in enumerate(records):
            for field, group in self._groups.items():
                for part in self._parts_in(getattr(record, field) or ()):
                    yield row, group, part


def decode(entries: Entries, record: type[msgspec.Struct], fields: Iterable[str]) -> list[Any]:
    """These fields of the records. Raises `CodecError` for an entry that is no such record."""
    decode_one = msgspec.json.Decoder(partial(record, tuple(fields))).decode
    rest = iter(entries)
    try:
        return [decode_one(entry.value) for entry in rest]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        key = entries[-1 - length_hint(rest)].key.decode(errors="replace")
        raise CodecError(
            f"the value of {key!r} is no record of {record.__name__}: {error}.",
            hint="`SELECT key, value FROM spark` shows it as JSON; a newer version may have written it.",
        ) from error


def key_columns(entries: Entries, keys: re.Pattern[bytes], wanted: set[str]) -> dict[str, pa.Array]:
    """The columns `app` and `key`, as far as they are wanted."""
    import pyarrow as pa

    arrays = {}
    if APP.name in wanted:
        matches = ((entry.key, keys.search(entry.key)) for entry in entries)
        names = [key[: match.start()] if match else None for key, match in matches]
        arrays[APP.name] = pa.array(names, pa.binary()).cast(pa.string())
    if KEY.name in wanted:
        arrays[KEY.name] = pa.array([entry.key for entry in entries], pa.binary()).cast(pa.string())
    return arrays


def _schema(columns: Iterable[RecordColumn]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(column.name, data_type(column.kind)) for column in columns])


def _table(schema: pa.Schema, arrays: dict[str, pa.Array]) -> pa.Table:
    """The arrays as a table, in the order of the schema."""
    import pyarrow as pa

    fields = [field for field in schema if field.name in arrays]
    return pa.table([arrays[field.name] for field in fields], schema=pa.schema(fields))


class Setting(msgspec.Struct):
    """A setting of an application, or an entry of its classpath with who added it."""

    name: str
    value: str


def _settings(settings: Any) -> Iterator[Setting]:
    if isinstance(settings, dict):
        return (Setting(*item) for item in settings.items())
    return (Setting(f"{jars.folder}{entry}", jars.source) for jars in settings for entry in jars.entries)


_SQL = {
    "sql": "id", "root": "root", "description": "description", "status": "status", "started": "started", "jobs": "jobs",
    "stream": "stream", "batch": "batch",
}  # fmt: skip

TABLES: dict[str, RecordTable | PartTable | DatasetTable] = {
    table.name: table
    for table in (
        RecordTable("spark_apps", rec.Application, rb"(?<!/executor)/app$", KeyLayout("/app")),
        RecordTable("spark_jobs", rec.Job, rb"/job/", KeyLayout("/job", (("id", record_keys.job_part),))),
        RecordTable(
            "spark_stages",
            rec.Stage,
            rb"/stage/",
            KeyLayout("/stage", (("id", record_keys.stage_part), ("attempt", record_keys.attempt_part))),
        ),
        RecordTable("spark_rdds", rec.Rdd, rb"/rdd/", KeyLayout("/rdd", (("id", record_keys.rdd_part),))),
        RecordTable("spark_sql", rec.Sql, rb"/sql/", KeyLayout("/sql", (("id", record_keys.sql_part),))),
        RecordTable(
            "spark_executors",
            rec.Executor,
            rb"/executor/",
            KeyLayout("/executor", (("id", record_keys.executor_part),)),
        ),
        RecordTable(
            "spark_streams", rec.Stream, rb"/stream/[^/]+$", KeyLayout("/stream", (("id", record_keys.query_part),))
        ),
        RecordTable(
            "spark_batches",
            rec.Batch,
            rb"/stream/[^/]+/[0-9]+$",
            KeyLayout("/stream", (("query", record_keys.query_part), ("batch", record_keys.batch_part))),
        ),
        PartTable(
            "spark_reads_writes",
            rec.Sql,
            rb"/sql/",
            KeyLayout("/sql", (("sql", record_keys.sql_part),)),
            rec.Access,
            {"reads": "read", "writes": "write"},
            "way",
            _SQL,
        ),
        PartTable(
            "spark_settings",
            rec.Environment,
            rb"/env$",
            KeyLayout("/env"),
            Setting,
            {name: name for name in ("spark", "jvm", "system", "metrics", "classpath")},
            "scope",
            {},
            _settings,
        ),
        LINEAGE,
    )
}
"""The tables by name."""
