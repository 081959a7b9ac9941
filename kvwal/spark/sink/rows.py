"""Rows of a DataFrame as entries of the log: a put or a delete for each row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from kvwal.codecs import registry
from kvwal.config import KIB, TRANSACTION_BYTES
from kvwal.entry import Entry
from kvwal.errors import CodecError, KvwalError
from kvwal.log.submission import size_of
from kvwal.spark.sink.columns import WriteColumns
from kvwal.spark.sink.texts import Encoded, key_of_text, value_of_bytes, value_of_text
from kvwal.spark.state.records import PREFIX
from kvwal.spark.values import DROP, NULL

if TYPE_CHECKING:
    import pyarrow as pa

ROW_BYTES = TRANSACTION_BYTES - 64 * KIB
"""The most bytes of a row, also of one that is alone in a transaction of a cluster. The rest is for marks of the ledger."""

_LEDGER = PREFIX.encode()
_NOTHING = registry.encode_value(None)


class RowEncoder:
    """Encodes rows. One for each task. `refused` counts the rows that were left out, or whose value became null."""

    def __init__(self, columns: WriteColumns, business: str, mode: str) -> None:
        self._columns = columns
        self._business = business
        self._mode = mode
        self.refused = 0

    def entries(self, batch: pa.RecordBatch) -> Iterator[Entry]:
        """The entries of these rows, in order. Raises CodecError, which names the key, for a row that does not fit in mode
        `fail`, and for a key that does not fit in any mode but `drop`.
        """
        names, size = self._columns, batch.num_rows
        keys = batch.column("key").to_pylist()
        key_classes = batch.column("key_class").to_pylist() if names.key_class else [None] * size
        deleted = batch.column(names.deleted).to_pylist() if names.deleted else [None] * size
        for key, key_class, gone, value in zip(keys, key_classes, deleted, self._values(batch), strict=True):
            entry = self._entry(key, key_class, gone, value)
            if entry is not None:
                yield entry

    def _values(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The value of each row, and its class; or its fields."""
        if self._columns.value:
            values = batch.column("value").to_pylist()
            classes = batch.column("value_class").to_pylist() if self._columns.value_class else [None] * len(values)
            return zip(values, classes, strict=True)
        fields = batch.select(self._columns.fields)
        if all(_is_json(column) for column in fields.columns):
            return iter(fields.to_pylist())
        return map(_as_json, fields.to_pylist(maps_as_pydicts="strict"))

    def _entry(self, key: Any, key_class: str | None, deleted: bool | None, value: Any) -> Entry | None:
        try:
            key_bytes, key_class = _key(key, key_class)
        except KvwalError as error:
            return self._refused(key, error, None)
        if deleted:
            return Entry(key_bytes, key_class, b"", "", True, 0)
        try:
            entry = Entry(key_bytes, key_class, *self._value(value), False, 0)
            if size_of([entry]) > ROW_BYTES:
                raise CodecError(
                    f"key and value have {len(key_bytes) + len(entry.value)} bytes, too many for one entry"
                )
        except KvwalError as error:
            return self._refused(key, error, Entry(key_bytes, key_class, *_NOTHING, False, 0))
        return entry

    def _value(self, value: Any) -> Encoded:
        if not self._columns.value:
            if not self._columns.fields:
                raise CodecError("the row is no delete, and has no value")
            return registry.encode_value(value)
        data, value_class = value
        if data is None:
            if value_class in (None, "none"):
                return _NOTHING
            raise CodecError(f"the value is null, and its value_class is {value_class!r}")
        return value_of_text(data, value_class) if isinstance(data, str) else value_of_bytes(data, value_class)

    def _refused(self, key: Any, error: KvwalError, with_null: Entry | None) -> Entry | None:
        """What is written in place of a row that does not fit: nothing, or null if only the value does not fit."""
        if self._mode == NULL and with_null is not None:
            self.refused += 1
            return with_null
        if self._mode == DROP:
            self.refused += 1
            return None
        raise CodecError(
            f"map {self._business!r}, key {key!r:.200}: the row cannot be written: {error.what.rstrip('.')}.",
            hint=f'The option "mode" can leave such rows out ("{DROP}"), or write null for their values ("{NULL}").',
        ) from error


def _key(key: Any, key_class: str | None) -> Encoded:
    if key is None:
        raise CodecError("its key is null")
    data, found = registry.encode_key(key) if key_class is None else key_of_text(key, key_class)
    if data.startswith(_LEDGER):
        raise CodecError(f"keys that begin with {PREFIX!r} are kept for marks of writes")
    return data, found


def _is_json(column: pa.Array) -> bool:
    """Whether each value of a column is JSON as it is, and none is null. Most columns are, and need no look at each value."""
    import pyarrow.types as of

    kind = column.type
    plain = of.is_string(kind) or of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind)
    return bool(plain and not column.null_count)


def _as_json(fields: dict[str, Any]) -> Any:
    return msgspec.to_builtins(_without_nulls(fields))


def _without_nulls(value: Any) -> Any:
    """The value without the fields that are null: Spark shows a field that is not there as null."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
