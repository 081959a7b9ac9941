"""Rows as entries: which columns a write takes, what a row becomes, and what becomes of one that does not fit."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql import types
from pyspark.sql.pandas.types import to_arrow_schema

from kvwal.errors import CodecError, ConfigError, InvalidName, KvwalError
from kvwal.spark.sink import rows as sink_rows
from kvwal.spark.sink.columns import write_columns
from kvwal.spark.sink.options import write_options
from kvwal.spark.sink.rows import RowEncoder
from kvwal.spark.state.records import PREFIX

TYPES: dict[str, types.DataType] = {
    "STRING": types.StringType(), "BINARY": types.BinaryType(), "BOOLEAN": types.BooleanType(), "INT": types.IntegerType(),
    "BIGINT": types.LongType(), "DOUBLE": types.DoubleType(), "DATE": types.DateType(), "TIMESTAMP": types.TimestampType(),
    "DECIMAL": types.DecimalType(5, 2), "MAP": types.MapType(types.StringType(), types.IntegerType()),
    "PAIR": types.StructType().add("a", "integer").add("b", "integer"), "INTS": types.ArrayType(types.IntegerType()),
}  # fmt: skip
NOON = datetime.datetime(2026, 11, 24, 12, tzinfo=datetime.UTC)


def schema_of(ddl: str) -> types.StructType:
    """A schema from text. Spark's own parser needs a session."""
    fields = [column.split() for column in ddl.split(", ")]
    return types.StructType([types.StructField(name, TYPES[kind]) for name, kind in fields])


def encoded(ddl: str, some: list[tuple[Any, ...]], mode: str = "fail", deleted: str = "") -> list[tuple[Any, ...]]:
    """Rows of a schema as (key, key class, value, value class, deleted)."""
    schema = schema_of(ddl)
    columns = [list(column) for column in zip(*some, strict=True)]
    arrow = to_arrow_schema(schema, timezone="UTC")
    batch = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)], schema=arrow)
    encoder = RowEncoder(write_columns(schema, deleted), "jobs", mode)
    return [(e.key, e.key_class, e.value, e.value_class, e.deleted) for e in encoder.entries(batch)]


def test_the_other_columns_are_the_fields_of_an_object_without_nulls() -> None:
    ddl = "n BIGINT, key STRING, at TIMESTAMP, day DATE, price DECIMAL, of MAP, s PAIR, l INTS, node STRING"
    row = (1, "a", NOON, NOON.date(), Decimal("1.50"), [("x", 1)], {"a": 1, "b": None}, [1, None], "left out")
    ((key, key_class, value, value_class, deleted),) = encoded(ddl, [row])
    assert (key, key_class, value_class, deleted) == (b"a", "str", "json", False)
    assert msgspec.json.decode(value) == {
        "n": 1, "at": "2026-11-24T12:00:00Z", "day": "2026-11-24", "price": "1.50", "of": {"x": 1}, "s": {"a": 1}, "l": [1, None],
    }  # fmt: skip


def test_a_row_becomes_the_same_entry_with_and_without_nulls_in_other_rows() -> None:
    """Rows of plain columns without a null are not looked at one by one."""
    ddl, rows = "key STRING, t STRING, n BIGINT, i INT, b BOOLEAN, x DOUBLE", [("a", "text", -(2**63), 7, True, 1e300)]
    assert encoded(ddl, rows) == encoded(ddl, [*rows, ("b", None, None, None, None, None)])[:1]
    for beside in ([], [("b", None, None, None, None, None)]):
        with pytest.raises(CodecError, match=r"key 'a': .* JSON has no nan"):
            encoded(ddl, [("a", "text", 1, 7, True, float("nan")), *beside])


def test_a_column_value_is_the_value_and_its_type_or_class_says_which() -> None:
    assert encoded("key BIGINT, value STRING", [(5, '{"a": 1}'), (6, None), (7, '"t"')]) == [
        (b"\x81\x05", "int", b'{"a": 1}', "json", False),
        (b"\x81\x06", "int", b"", "none", False),
        (b"\x81\x07", "int", b"t", "str", False),
    ]
    assert encoded("key BINARY, value BINARY", [(b"k", b"\xff")]) == [(b"k", "bytes", b"\xff", "bytes", False)]
    ddl = "key STRING, key_class STRING, value STRING, value_class STRING, deleted BOOLEAN, timestamp BIGINT"
    rows = [("5", "int", "2.0", "float", None, 1), ("k", "bytes", None, "", True, 2)]
    assert [row[:2] + row[3:] for row in encoded(ddl, rows)] == [
        (b"\x81\x05", "int", "float", False),
        (b"k", "bytes", "", True),
    ]


def test_a_column_deletes_by_its_name_or_the_one_that_is_named() -> None:
    assert encoded("key STRING, n INT, deleted BOOLEAN", [("a", 1, True), ("b", 2, False)]) == [
        (b"a", "str", b"", "", True),
        (b"b", "str", b'{"n":2}', "json", False),
    ]
    ddl, some = "key STRING, deleted STRING, gone BOOLEAN", [("a", "x", False), ("b", "x", True)]
    assert [row[2::2] for row in encoded(ddl, some, deleted="gone")] == [(b'{"deleted":"x"}', False), (b"", True)]
    assert encoded("key STRING, deleted BOOLEAN", [("a", True)]) == [(b"a", "str", b"", "", True)]


BAD = [
    ("key STRING, n INT", (None, 1), "its key is null", False),
    ("key STRING, n INT", (f"{PREFIX}x", 1), "kept for marks", False),
    ("key DOUBLE, n INT", (float("nan"), 1), "NaN", False),
    ("key STRING, n DOUBLE", ("a", float("inf")), "JSON has no inf", True),
    ("key STRING, deleted BOOLEAN", ("a", False), "is no delete, and has no value", True),
    ("key STRING, value STRING", ("a", "text"), "no JSON", True),
    ("key STRING, value STRING, value_class STRING", ("a", None, "int"), "the value is null", True),
    ("key STRING, value BINARY", ("a", b"x" * 1000), "too many for one entry", True),
]


@pytest.mark.parametrize(("ddl", "row", "sentence", "has_key"), BAD)
def test_a_row_that_does_not_fit_is_told_by_its_key_dropped_or_null(
    ddl: str, row: tuple[Any, ...], sentence: str, has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_rows, "ROW_BYTES", 1000)
    with pytest.raises(CodecError, match=rf"map 'jobs', key .*the row cannot be written: .*{sentence}"):
        encoded(ddl, [row])
    assert encoded(ddl, [row], "drop") == []
    if has_key:
        assert encoded(ddl, [row], "null") == [(b"a", "str", b"", "none", False)]
    else:
        with pytest.raises(CodecError, match=sentence):
            encoded(ddl, [row], "null")


@pytest.mark.parametrize(
    ("ddl", "deleted", "sentence"),
    [
        ("id STRING, n INT", "", r"no column 'key' \(there are: id, n\)"),
        ("key STRING", "", "a key and nothing else"),
        ("key STRING, n INT", "gone", "names the column 'gone'"),
        ("key STRING, deleted INT, n INT", "", "the column 'deleted' is INT"),
        ("key DATE, n INT", "", "the column 'key' is DATE"),
        ("key BIGINT, key_class STRING, n INT", "", "the column 'key' beside 'key_class' is BIGINT"),
        ("key STRING, value INT", "", "the column 'value' is INT"),
        ("key STRING, value STRING, n INT", "", "the column 'n' would be lost"),
        ("key STRING, value_class STRING, n INT", "", "no column 'value'"),
        ("key STRING, n BINARY", "", "the column 'n' cannot be binary"),
    ],
)
def test_columns_that_cannot_be_written_are_refused(ddl: str, deleted: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        write_columns(schema_of(ddl), deleted)


def test_options_are_checked(tmp_path: Path) -> None:
    good = {"store": str(tmp_path), "business": "jobs", "checkpointLocation": "x", "queryName": "y"}
    assert write_options(good).business == "jobs"
    wrong: list[tuple[dict[str, str], type[KvwalError], str]] = [
        ({"view": "latest"}, ConfigError, "no option 'view'"),
        ({"store": ""}, ConfigError, "needs the option 'store'"),
        ({"store": "", "archive": "s3://b"}, ConfigError, "s3://b is an archive, and an archive can only be read"),
        ({"store": "s3://b/p"}, ConfigError, "s3://b/p is an archive, and an archive can only be read"),
        ({"business": ""}, ConfigError, "needs the option 'business'"),
        ({"business": "../x"}, InvalidName, "map name"),
        ({"namespace": "a/b"}, InvalidName, "namespace name"),
        ({"mode": "permissive"}, ConfigError, "the option 'mode' is 'permissive'"),
        ({"staging": "s3:/b"}, ConfigError, "one slash"),
    ]
    for options, kind, sentence in wrong:
        with pytest.raises(kind, match=sentence):
            write_options({**good, **options})
    with pytest.raises(ConfigError, match="never replaces a whole business"):
        write_options(good, overwrite=True)
