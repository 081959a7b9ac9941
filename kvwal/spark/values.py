"""Values as columns: the fields of JSON objects, by the schema that a query gives to the data source."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

import msgspec
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_type

from kvwal.errors import CodecError, ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

FAIL, NULL, DROP = "fail", "null", "drop"
MODES = (FAIL, NULL, DROP)
"""What becomes of a row whose value does not fit: the query fails; the columns of the value are null; the row is left out."""

_SCALARS: dict[type[types.DataType], Any] = {
    types.StringType: str,
    types.BooleanType: bool,
    types.FloatType: float,
    types.DoubleType: float,
    types.DateType: date,
    types.DecimalType: Decimal,
    types.TimestampType: Annotated[datetime, msgspec.Meta(tz=True)],
    types.TimestampNTZType: Annotated[datetime, msgspec.Meta(tz=False)],
}
_BITS: dict[type[types.DataType], int] = {
    types.ByteType: 8,
    types.ShortType: 16,
    types.IntegerType: 32,
    types.LongType: 64,
}

Row = dict[str, Any] | None
"""The fields of a value; None if it is not there, or does not fit."""


class ValueColumns(NamedTuple):
    """The columns of a query: `names` are all of them in order, and `fields` are those that are fields of the value."""

    names: tuple[str, ...]
    fields: types.StructType
    mode: str


def value_columns(schema: types.StructType, own: types.StructType, mode: str) -> ValueColumns:
    """The columns of this schema. Those with a name of `own`, the columns of the source, are no fields of the value.

    Raises ConfigError if such a column has another type than in `own`, or if a field has a type that no JSON value has.
    """
    types_of_own = {field.name: field.dataType for field in own}
    fields = []
    for field in schema:
        there = types_of_own.get(field.name)
        if there is None:
            _python_type(field.dataType, field.name)
            fields.append(field)
        elif there != field.dataType:
            raise ConfigError(
                f"the column {field.name!r} of format kvwal is {there.simpleString()}, not {field.dataType.simpleString()}.",
                hint="Columns with other names are fields of the value.",
            )
    return ValueColumns(tuple(field.name for field in schema), types.StructType(fields), mode)


class ValueReader:
    """Decodes values into columns. One for each task."""

    def __init__(self, wanted: ValueColumns, business: str) -> None:
        self._wanted = wanted
        self._business = business
        self._type = to_arrow_type(wanted.fields, timezone="UTC")
        self._decode = msgspec.json.Decoder(_python_type(wanted.fields, "")).decode

    def columns(self, shown: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        """The rows with the columns of the query. `shown` has the source's own columns, and `values` the archived bytes.

        A field that a value does not have is null, and so is every field of a delete. Raises CodecError, with the key, for a
        value that does not fit in mode `fail`.
        """
        import pyarrow as pa

        rows: list[Row] = []
        bad: set[int] = set()
        classes, deleted = shown.column("value_class").to_pylist(), shown.column("deleted").to_pylist()
        for number, (value, value_class, gone) in enumerate(zip(values.to_pylist(), classes, deleted, strict=True)):
            row, problem = (None, None) if gone else self._row(value, value_class)
            rows.append(row)
            if problem is not None:
                self._refuse(shown, number, problem)
                bad.add(number)
        found = self._fields(shown, rows, bad).flatten()
        fields = dict(zip(self._wanted.fields.names, found, strict=True))
        columns = {name: fields[name] if name in fields else shown.column(name) for name in self._wanted.names}
        batch = pa.RecordBatch.from_pydict(columns)
        if bad and self._wanted.mode == DROP:
            batch = batch.filter(pa.array([number not in bad for number in range(len(rows))]))
        return batch

    def _fields(self, shown: pa.RecordBatch, rows: list[Row], bad: set[int]) -> pa.StructArray:
        """The decoded rows as an array. Adds to `bad` the rows that decoding alone cannot refuse: a decimal of more digits."""
        import pyarrow as pa

        try:
            return pa.array(rows, self._type)
        except pa.ArrowInvalid:
            pass
        for number, row in enumerate(rows):
            try:
                pa.array([row], self._type)
            except pa.ArrowInvalid as error:
                self._refuse(shown, number, str(error))
                bad.add(number)
        return pa.array([None if number in bad else row for number, row in enumerate(rows)], self._type)

    def _row(self, value: bytes, value_class: str) -> tuple[Row, str | None]:
        if value_class != "json":
            return None, f"it is of the class {value_class!r}, and only JSON objects have fields"
        try:
            return self._decode(value), None
        except msgspec.MsgspecError as error:
            return None, str(error)

    def _refuse(self, shown: pa.RecordBatch, number: int, problem: str) -> None:
        if self._wanted.mode == FAIL:
            key = shown.column("key")[number].as_py()
            raise CodecError(
                f"map {self._business!r}, key {key!r}: the value does not fit the schema of the query: {problem}.",
                hint='The option "mode" can leave such rows out ("drop") or show them with null ("null").',
            )


def _python_type(kind: types.DataType, name: str) -> Any:
    """The type as which msgspec decodes a field, null allowed. Raises ConfigError for a type that no JSON value has."""
    if isinstance(kind, types.StructType):
        fields = {field.name: _python_type(field.dataType, field.name) | None for field in kind}
        return TypedDict("Row", fields, total=False)  # type: ignore[operator]
    if isinstance(kind, types.ArrayType):
        return list[_python_type(kind.elementType, name) | None]  # type: ignore[misc]
    if isinstance(kind, types.MapType) and isinstance(kind.keyType, types.StringType):
        return dict[str, _python_type(kind.valueType, name) | None]  # type: ignore[misc]
    if (bits := _BITS.get(type(kind))) is not None:
        return Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    if (found := _SCALARS.get(type(kind))) is None:
        raise ConfigError(
            f"the column {name!r} cannot be {kind.simpleString()}: a field of a JSON value is never that.",
            hint="Fields can be STRING, BOOLEAN, numbers, DATE, TIMESTAMP, ARRAY, STRUCT, and MAP with text as keys.",
        )
    return found
