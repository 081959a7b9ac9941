"""`kvwal import` of CSV, JSON lines, Parquet and of what `kvwal scan --json` prints: which keys and values come of which rows."""

from __future__ import annotations

import io
import json
import sys
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kvwal
from kvwal.cli.transfer.rows import open_rows
from tests.support.cli import Ran
from tests.support.cli import kvwal as run


def stored(root: Path) -> dict[Any, Any]:
    with kvwal.open(root, archive=None, read_only=True) as store:
        return dict(store.map("b"))


def typed(values: dict[Any, Any]) -> set[tuple[str, str]]:
    """The keys and values with their types: 1 equals True, and 1.0."""
    return {(repr(key), repr(value)) for key, value in values.items()}


def put(tmp_path: Path, name: str, content: str | bytes, *options: object) -> Ran:
    """Import a file with this content into `tmp_path/root`."""
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return run("import", tmp_path / "root", "b", file, *options, "--archive", "none")


def put_table(tmp_path: Path, columns: dict[str, Any], *options: object) -> Ran:
    """Import a Parquet file with these columns into `tmp_path/root`."""
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return put(tmp_path, "rows.parquet", buffer.getvalue(), *options)


def refused(ran: Ran, says: str) -> None:
    assert (ran.code, ran.out) == (2, ""), ran
    assert says in ran.err, ran.err


def test_what_a_scan_prints_is_imported(tmp_path: Path) -> None:
    """Keys and values come back with their types, from a file and from standard input."""
    values: dict[Any, Any] = {
        "text": "ä\n", "7": "7", 7: 7, 7.5: 7.0, True: True, None: None, b"\xff": b"\x00", "list": [1, {"a": None}],
        "large": 1 << 70, -5: -1.5, "": "", "key": {"key": 1, "value": 2},
        datetime(2026, 1, 31, tzinfo=UTC): 1, date(2026, 1, 31): 2, Decimal("2.5"): 3, UUID(int=7): 4,
        ("a", 7, (date(2026, 1, 31), b"\xff", 1.0)): 5,
    }  # fmt: skip
    with kvwal.open(tmp_path / "one", archive=None) as store:
        store.map("b").update(values)
    printed = run("scan", tmp_path / "one", "b", "--json").out
    ran = put(tmp_path, "scan", printed, "--json")
    assert (ran.code, json.loads(ran.out)) == (0, {"imported": len(values), "expired": 0})
    assert typed(stored(tmp_path / "root")) == typed(values)
    for file in ([], ["-"]):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
            assert run("import", tmp_path / f"piped{len(file)}", "b", *file).code == 0
        assert typed(stored(tmp_path / f"piped{len(file)}")) == typed(values)


def test_a_column_says_of_which_class_a_key_is(tmp_path: Path) -> None:
    rows = 'key,key_class,value\n7,int,a\n2026-01-31,date,b\n"[""a"", 1]",tuple,c\n7,,d\n8,str,e\n'
    ran = put(tmp_path, "rows.csv", rows)
    assert (ran.code, ran.out) == (0, "5 entries were put.\n"), ran
    assert "without" not in ran.err
    assert typed(stored(tmp_path / "root")) == typed(
        {7: "a", date(2026, 1, 31): "b", ("a", 1): "c", "7": "d", "8": "e"}
    )


def test_lines_of_json(tmp_path: Path) -> None:
    """A line may have fields of its own. Of two rows with one key the last one counts. Blank lines are none."""
    rows = [{"id": 1, "n": 1}, {"id": "1", "n": [None, {"a": 1.5}]}, {"id": 1, "more": True}, {"id": 2.5}]
    text = "\n\n".join(map(json.dumps, rows))
    for name, options in (("rows.jsonl", []), ("rows.csv", ["--format", "jsonl"])):
        ran = put(tmp_path, name, text, "--key", "id", *options)
        assert (ran.code, ran.out) == (0, "4 entries were put.\n"), ran
        assert typed(stored(tmp_path / "root")) == typed({1: {"more": True}, "1": {"n": [None, {"a": 1.5}]}, 2.5: {}})


def test_a_column_may_be_named_as_a_field_of_an_export(tmp_path: Path) -> None:
    assert put(tmp_path, "rows", '{"key": "a", "key_class": 1, "value_class": 2}', "--key", "key").code == 0
    assert stored(tmp_path / "root") == {"a": {"key_class": 1, "value_class": 2}}


@pytest.mark.parametrize(
    ("line", "options", "says"),
    [
        ('{"id": 1}', [], "line 2 has no columns key and value, but the column id. Name the key: --key COLUMN."),
        ('{"key": 1}', [], "line 2 has no columns key and value, but the column key."),
        ('{"a": 1}', ["--key", "id"], "line 2 has no column 'id', but the column a."),
        ("{}", ["--key", "id"], "line 2 has no column 'id', but none."),
        ('{"id": null}', ["--key", "id"], "line 2 has no key: its id is null."),
        ('{"id": [1]}', ["--key", "id"], "line 2 is no entry: a list cannot be a key"),
        ('{"key": [1], "value": 1}', [], "line 2 is no entry: a list cannot be a key"),
        ('{"key": "?", "key_encoding": "base64", "value": 1}', [], "line 2 has a key that is no base64"),
        (
            '{"key": "x", "key_class": "date", "value": 1}',
            [],
            "line 2 is no entry: the key 'x' is no date. Write 2026-01-31.",
        ),
        ('{"key": 7, "key_class": "uuid", "value": 1}', [], "line 2 is no entry: the key 7 is no uuid."),
        ('{"key": 7, "key_class": "float", "value": 1}', [], "line 2 is no entry: its key 7 is no float."),
        (
            '{"key": 7, "key_class": ["int"], "value": 1}',
            [],
            "line 2 is no entry: its key_class ['int'] is no class of keys.",
        ),
        (
            '{"key": "7", "key_class": "job", "value": 1}',
            [],
            "line 2 is no entry: its key_class 'job' is no class of keys. There are str, int,",
        ),
        ("[1]", [], "line 2 is JSON, but no object. A file of one list becomes lines by `jq -c '.[]'`."),
        ("{", [], "line 2 is no JSON object"),
        ('{"key": "a", "value": 1e400}', [], "line 2 is no JSON object: Number out of range"),
    ],
)
def test_a_line_without_an_entry_is_named(tmp_path: Path, line: str, options: list[str], says: str) -> None:
    """The lines before it are put."""
    refused(put(tmp_path, "rows", '{"id": 1, "key": "k", "value": 7}\n' + line + "\n", *options), says)
    assert stored(tmp_path / "root") == {1: {"key": "k", "value": 7}} if options else {"k": 7}


def test_other_columns_than_key_and_value_are_said_to_be_left_out(tmp_path: Path) -> None:
    text = '{"namespace": "a", "key": "k", "value": 1}\n' * 3
    for name, content in (("rows", text), ("rows.csv", "namespace,key,value\na,k,1\n")):
        ran = put(tmp_path, name, content)
        assert (ran.code, ran.err.count("only key and value are put, without the column namespace.")) == (0, 1), ran
        assert run("get", tmp_path / "root", "b", "k").out == "1\n"


def test_cells_of_csv_are_text(tmp_path: Path) -> None:
    """Nothing is lost of them: not the zeros of 007 and 1.10, no line end, no comma."""
    text = '\ufeffid,name,price\r\n007,"a, ""b""\r\nc",1.10\r\n\r\n1,,null\r\n1,last,true\r\n'
    assert put(tmp_path, "rows.CSV", text, "--key", "id").out == "3 entries were put.\n"
    rows = {"007": {"name": 'a, "b"\r\nc', "price": "1.10"}, "1": {"name": "last", "price": "true"}}
    assert stored(tmp_path / "root") == rows
    assert put(tmp_path, "pairs.csv", "value,key\n1.10,1\n{},\u00e9\n").code == 0
    assert stored(tmp_path / "root") == rows | {"1": "1.10", "é": "{}"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "rows.csv is empty."),
        ("a,b\n", "rows.csv has no columns key and value, but the columns a, b. Name the key: --key COLUMN."),
        ("key;value\n", "rows.csv has no columns key and value, but the column key;value."),
        ("key,value,key\n", "rows.csv has two columns of the name 'key'."),
        ('key,"va"lue\n', "rows.csv has a first line that is no CSV: ',' expected after"),
        (b"key,value\xff\n", "rows.csv has a first line that is no UTF-8 text"),
    ],
)
def test_a_file_of_csv_without_keys_is_refused_before_anything_is_opened(
    tmp_path: Path, text: str | bytes, says: str
) -> None:
    refused(put(tmp_path, "rows.csv", text), says)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"b", "line 4 has 1 cells, and the first line names 2 columns."),
        (b"b,1,2", "line 4 has 3 cells"),
        (b",1", "line 4 has no key: its key is empty."),
        (b'b,"1', "line 4 is no CSV: unexpected end of data."),
        (b"b,\xff", "line 4 is no UTF-8 text: its byte 2 is 0xff."),
    ],
)
def test_a_row_of_csv_without_an_entry_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    refused(put(tmp_path, "rows.csv", b'key,value\na,"1\n2"\n' + line), says)
    assert stored(tmp_path / "root") == {"a": "1\n2"}


def test_types_of_parquet(tmp_path: Path) -> None:
    """What JSON does not have becomes text; null is null; lists, structs and maps are lists and objects."""
    moment = datetime(2025, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    columns = {
        "id": pa.array([7]),
        "null": pa.array([None], pa.int32()),
        "float": pa.array([0.1]),
        "infinite": pa.array([float("-inf")]),
        "flag": pa.array([True]),
        "bytes": pa.array([b"\xff"]),
        "decimal": pa.array([Decimal("1.50")], pa.decimal128(20, 2)),
        "day": pa.array([date(2025, 1, 31)]),
        "moment": pa.array([moment], pa.timestamp("us", "UTC")),
        "local": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
        "nanoseconds": pa.array([1], pa.timestamp("ns", "UTC")),
        "time": pa.array([time(1, 2, 3)]),
        "span": pa.array([timedelta(days=1, seconds=2)]),
        "list": pa.array([[{"at": date(2025, 1, 31), "of": [None, 1]}]]),
        "map": pa.array([[("a", Decimal("0.1"))]], pa.map_(pa.string(), pa.decimal128(3, 1))),
        "numbers": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
        "word": pa.array(["x"]).dictionary_encode(),
    }
    ran = put_table(tmp_path, columns, "--key", "id")
    assert (ran.code, ran.out) == (0, "1 entry was put.\n"), ran
    assert typed(stored(tmp_path / "root")) == typed({7: {
        "null": None, "float": 0.1, "infinite": "-Infinity", "flag": True, "bytes": "/w==", "decimal": "1.50",
        "day": "2025-01-31", "moment": "2025-01-31T12:00:00.000005Z", "local": "2025-01-31T12:00:00.000005",
        "nanoseconds": "1970-01-01T00:00:00.000000001+00:00", "time": "01:02:03", "span": "P1DT2S",
        "list": [{"at": "2025-01-31", "of": [None, 1]}], "map": {"a": "0.1"}, "numbers": {"1": 2}, "word": "x",
    }})  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "values", "entries"),
    [
        ([1, 2, 1], [b"\xff", None, b""], {1: b"", 2: None}),
        (["a", "b"], [1.5, float("inf")], {"a": 1.5, "b": float("inf")}),
        ([b"\xff"], [[1, None]], {b"\xff": [1, None]}),
        ([date(2025, 1, 31)], [Decimal("1.50")], {"2025-01-31": "1.50"}),
    ],
)
def test_keys_and_values_of_parquet(
    tmp_path: Path, keys: list[Any], values: list[Any], entries: dict[Any, Any]
) -> None:
    """Text, numbers, booleans, bytes and null are stored as what they are."""
    assert put_table(tmp_path, {"key": keys, "value": values}).code == 0
    assert typed(stored(tmp_path / "root")) == typed(entries)


def test_parquet_without_keys_is_refused(tmp_path: Path) -> None:
    refused(
        put_table(tmp_path, {"a": [1], "b": [2]}), "rows.parquet has no columns key and value, but the columns a, b."
    )
    refused(put(tmp_path, "rows.parquet", b"PAR1 is none"), "rows.parquet is no Parquet file that can be read")
    refused(put(tmp_path, "rows", b"PAR1", "--format", "parquet"), "rows is no Parquet file")
    refused(run("import", tmp_path / "root", "b", "-", "--format", "parquet"), "is not read from standard input")
    assert not (tmp_path / "root").exists()
    for key in ("key", "id"):
        columns = {key: ["a", None], "value": [1, 2]}
        refused(
            put_table(tmp_path, columns, *(["--key", key] if key == "id" else [])),
            f"row 2 has no key: its {key} is null.",
        )
    refused(
        put_table(tmp_path, {"id": ["a", "b"], "key": [[1], [2]]}, "--key", "key"),
        "row 1 is no entry: a list cannot be a key",
    )
    refused(put_table(tmp_path, {"key": ["a"], "value": [float("nan")]}), "row 1 is no entry: NaN cannot be stored")
    assert stored(tmp_path / "root") == {"a": {"value": 1}}


@pytest.mark.long
def test_an_import_of_any_size_needs_the_same_memory(tmp_path: Path) -> None:
    """Files of 60 MB, the Parquet file as one row group."""
    count, text = 30_000, "x" * 2_000
    (tmp_path / "rows.jsonl").write_text(f'{{"key": 1, "value": "{text}"}}\n' * count)
    (tmp_path / "rows.csv").write_text("key,value\n" + f"1,{text}\n" * count)
    values = pa.array([f"{number:06}{text}" for number in range(count)])
    pq.write_table(
        pa.table({"key": pa.array(range(count)), "value": values}), tmp_path / "rows.parquet",
        compression="none", use_dictionary=False,
    )  # fmt: skip
    del values
    for name in ("rows.jsonl", "rows.csv", "rows.parquet"):
        before = pa.total_allocated_bytes()
        tracemalloc.start()
        with open_rows(tmp_path / name, None, None) as (rows, _):
            assert max(peaks(rows)) - before < 20 << 20, name
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 << 20, name


def peaks(rows: Iterator[Any]) -> Iterator[int]:
    """The memory of pyarrow at each row."""
    for _ in rows:
        yield pa.total_allocated_bytes()
