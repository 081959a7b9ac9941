"""Values as columns: which field becomes what, and what becomes of a row whose value does not fit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kvwal.errors import CodecError, ConfigError
from kvwal.spark.datasource.source import SCHEMA
from kvwal.spark.values import ValueReader, value_columns

UTC = datetime.UTC
TEXT, LONG = StringType(), LongType()
PAIR = StructType().add("a", LONG).add("b", TEXT)


def schema(**fields: DataType) -> StructType:
    made = StructType()
    for name, kind in fields.items():
        made.add(name, kind)
    return made


def read(wanted: StructType, *values: Any, mode: str = "fail", value_class: str = "json") -> list[dict[str, Any]]:
    """The rows of keys k0, k1 … with these values, as a query with this schema gets them. None is a delete."""
    columns = value_columns(wanted, SCHEMA, mode)
    shown = pa.RecordBatch.from_pydict({
        "key": [f"k{number}" for number in range(len(values))],
        "timestamp": [*range(len(values))],
        "value_class": ["" if value is None else value_class for value in values],
        "deleted": [value is None for value in values],
    })  # fmt: skip
    raw = [
        b"" if value is None else value if isinstance(value, bytes) else msgspec.json.encode(value) for value in values
    ]
    rows: list[dict[str, Any]] = ValueReader(columns, "jobs").columns(shown, pa.array(raw, pa.binary())).to_pylist()
    return rows


def test_fields_are_columns_in_the_order_of_the_query() -> None:
    rows = read(
        schema(rows=LONG, key=TEXT, state=TEXT), {"state": "ok", "rows": 5, "other": [1]}, {}, {"rows": None}, None
    )
    assert [list(row) for row in rows] == [["rows", "key", "state"]] * 4
    assert [tuple(row.values()) for row in rows] == [
        (5, "k0", "ok"),
        (None, "k1", None),
        (None, "k2", None),
        (None, "k3", None),
    ]


@pytest.mark.parametrize(
    ("kind", "value", "column"),
    [
        (ByteType(), -128, -128),
        (LONG, 2**63 - 1, 2**63 - 1),
        (DoubleType(), 1, 1.0),
        (DecimalType(5, 2), "1.25", Decimal("1.25")),
        (DateType(), "2026-11-24", datetime.date(2026, 11, 24)),
        (TimestampType(), "2026-11-24T10:00:00+02:00", datetime.datetime(2026, 11, 24, 8, tzinfo=UTC)),
        (TimestampNTZType(), "2026-11-24T10:00:00", datetime.datetime(2026, 11, 24, 10)),
        (ArrayType(LONG), [1, None], [1, None]),
        (PAIR, {"a": 1, "c": 2}, {"a": 1, "b": None}),
        (MapType(TEXT, BooleanType()), {"x": True}, [("x", True)]),
    ],
)
def test_a_type_of_spark_takes_the_json_that_means_it(kind: DataType, value: Any, column: Any) -> None:
    assert read(schema(field=kind), {"field": value}) == [{"field": column}]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (LONG, "5", "Expected `int | null`, got `str` - at `$.field`"),
        (LONG, 1.5, "got `float`"),
        (IntegerType(), 2**31, "<= 2147483647"),
        (TEXT, 5, "got `int`"),
        (TimestampType(), "2026-11-24T10:00:00", "timezone"),
        (DecimalType(3, 2), "123.45", "precision"),
        (DecimalType(3, 2), "1.234", "Rescaling"),
        (ArrayType(LONG), [1, "x"], r"$.field[1]"),
    ],
)
def test_a_value_that_does_not_fit_is_told_by_key_or_null_or_left_out(kind: DataType, value: Any, told: str) -> None:
    some = [{"field": None}, {"field": value}, {"field": None}]
    wanted = schema(key=TEXT, field=kind)
    with pytest.raises(CodecError, match="map 'jobs', key 'k1': the value does not fit the schema") as failure:
        read(wanted, *some)
    assert told in str(failure.value)
    assert read(wanted, *some, mode="null") == [{"key": key, "field": None} for key in ("k0", "k1", "k2")]
    assert read(wanted, *some, mode="drop") == [{"key": key, "field": None} for key in ("k0", "k2")]


@pytest.mark.parametrize(
    ("value", "value_class"), [(5, "json"), ([1], "json"), (b'{"a"', "json"), (b"text", "str"), (b"", "none")]
)
def test_a_value_that_is_no_object_does_not_fit(value: Any, value_class: str) -> None:
    with pytest.raises(CodecError, match="key 'k0'"):
        read(schema(a=LONG), value, value_class=value_class)
    assert read(schema(key=TEXT, a=LONG), value, value_class=value_class, mode="null") == [{"key": "k0", "a": None}]
    assert read(schema(a=LONG), value, value_class=value_class, mode="drop") == []


def test_a_delete_fits_every_schema() -> None:
    assert read(schema(key=TEXT, a=LONG, deleted=BooleanType()), None) == [{"key": "k0", "a": None, "deleted": True}]


def test_a_schema_that_no_value_can_have_is_refused_by_column() -> None:
    with pytest.raises(
        ConfigError, match=r"the column 'timestamp' of format kvwal is bigint, not timestamp\. Columns with"
    ):
        value_columns(schema(timestamp=TimestampType()), SCHEMA, "fail")
    for kind in (BinaryType(), MapType(LONG, TEXT), DayTimeIntervalType(), ArrayType(BinaryType())):
        with pytest.raises(ConfigError, match="the column 'field' cannot be"):
            value_columns(schema(field=kind), SCHEMA, "fail")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(JSON, max_size=5))
def test_each_row_is_whole_or_null_or_left_out(values: list[Any]) -> None:
    wanted = schema(key=TEXT, a=LONG, b=ArrayType(DoubleType()), c=StructType().add("a", TEXT))
    null = {row["key"]: row for row in read(wanted, *values, mode="null")}
    kept = {row["key"]: row for row in read(wanted, *values, mode="drop")}
    assert [*null] == [f"k{number}" for number in range(len(values))]
    assert all(null[key] == row for key, row in kept.items())
    for key in null.keys() - kept.keys():
        assert null[key] == {"key": key, "a": None, "b": None, "c": None}
    if len(kept) == len(null):
        assert read(wanted, *values) == [*null.values()]
