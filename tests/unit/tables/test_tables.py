"""The typed tables of Spark's records: types, nulls, names, and which records and columns a question decodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import kvwal
from kvwal.entry import Entry
from kvwal.spark import records as rec
from kvwal.spark.tables.catalogue import TABLES, RecordTable
from kvwal.spark.tables.columns import columns_of, data_type
from kvwal.spark.tables.key_spans import KeyLayout
from tests.support.cli import kvwal as command
from tests.support.spark_records import NOON, records

ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("spark").put_many(records())
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(root, read_only=True) as store:
        yield store


def rows(store: kvwal.Store, statement: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.sql(statement).to_pylist()
    return found


def test_each_table_has_the_records_of_its_kind(store: kvwal.Store) -> None:
    counts = {name: kvwal.spark.table(store, name).num_rows for name in TABLES}
    assert counts == {
        "spark_apps": 2, "spark_jobs": 2, "spark_stages": 1, "spark_rdds": 1, "spark_sql": 1, "spark_executors": 1,
        "spark_streams": 1, "spark_batches": 1, "spark_reads_writes": 2, "spark_settings": 5,
        "spark_lineage": 2,
    }  # fmt: skip
    for name, count in counts.items():
        assert rows(store, f"SELECT count(*) AS n FROM {name}") == [{"n": count}]
        assert store.sql(f"FROM {name}").schema.names == TABLES[name].schema.names


def test_values_are_typed(store: kvwal.Store) -> None:
    first, second = kvwal.spark.table(store, "jobs").to_pylist()
    assert (first["app"], first["started"], first["duration_ms"]) == ("a", datetime(2026, 1, 1, 12, tzinfo=UTC), 5)
    assert (second["error"], second["stages"]) == ({"message": "no space left", "stack": "at write"}, [8, 9])
    (batch,) = rows(store, "SELECT started, steps_ms, sources FROM spark_batches")
    assert batch["started"] == datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert batch["steps_ms"] == [("addBatch", 7)]
    assert batch["sources"] == [{"what": "rate", "start": "1", "end": "2", "latest": "2", "rows": 3}]
    assert rows(store, "SELECT app, attempt FROM spark_apps ORDER BY app DESC LIMIT 1") == [
        {"app": "b/1", "attempt": "1"}
    ]


def test_what_is_not_known_is_null(store: kvwal.Store) -> None:
    first, second = kvwal.spark.table(store, "jobs").to_pylist()
    assert (first["ended"], first["error"], first["job_group"], first["sql"]) == (None, None, None, None)
    assert (second["started"], second["description"]) == (None, None)
    read, write = kvwal.spark.table(store, "reads_writes").to_pylist()
    assert (read["way"], read["rows"], read["place"]) == ("read", None, "in")
    assert (write["way"], write["rows"], write["files"]) == ("write", 10, None)


def entry(record: dict[str, Any], key: str = "a/job/0000000001") -> Entry:
    return Entry(key.encode(), "str", msgspec.json.encode(record), "json", False, 1)


def test_a_record_of_an_earlier_version_has_nulls() -> None:
    old = {"kind": "job", "id": 1, "error": {"message": "m"}}
    table = TABLES["spark_jobs"].read([entry(old)], ["id", "planned", "tags", "started", "cpu_ms", "error"])
    assert table.to_pylist() == [
        {
            "id": 1,
            "planned": None,
            "tags": None,
            "started": None,
            "cpu_ms": None,
            "error": {"message": "m", "stack": None},
        }
    ]


class Part(msgspec.Struct):
    what: str = ""
    cost: float = 0.0


class Newer(msgspec.Struct, tag_field="kind", tag="job"):
    id: int = 0
    parts: list[Part] = []
    settings: dict[str, list[int]] = {}
    shape: dict[str, Any] = {}


def test_a_field_that_a_record_gets_is_a_column() -> None:
    table = RecordTable("newer", Newer, rb"/job/", KeyLayout("/job"))
    assert table.schema.field("parts").type == pa.list_(pa.struct([("what", pa.string()), ("cost", pa.float64())]))
    assert table.schema.field("settings").type == pa.map_(pa.string(), pa.list_(pa.int64()))
    newer = Newer(1, [Part("scan", 2.0), Part()], {"a": [1]}, {"b": {"c": [None]}})
    row = table.read([entry(msgspec.to_builtins(newer)), entry({"kind": "job"})], table.schema.names).to_pylist()
    assert row[0] == {
        "app": "a", "id": 1, "parts": [{"what": "scan", "cost": 2.0}, {"what": None, "cost": 0.0}], "settings": [("a", [1])],
        "shape": '{"b":{"c":[null]}}', "key": "a/job/0000000001",
    }  # fmt: skip
    assert (row[1]["id"], row[1]["parts"], row[1]["shape"]) == (None, None, None)


@pytest.mark.parametrize("name", TABLES)
def test_no_column_needs_quotes(store: kvwal.Store, name: str) -> None:
    columns = TABLES[name].schema.names
    listed, of_table = ", ".join(columns), ", ".join(f"t.{column}" for column in columns)
    answer = store.sql(f"SELECT {listed}, {of_table} FROM {name} AS t ORDER BY {listed}")
    assert answer.schema.names[: len(columns)] == columns


def test_every_moment_of_a_recorded_application_is_a_timestamp(tmp_path: Path) -> None:
    """A number that is a moment, in a column of longs, is a field that `MOMENTS` lacks."""
    (log,) = (ROOT / "tests" / "golden" / "event-log").iterdir()
    assert command("record", tmp_path, log).code == 0
    with kvwal.open(tmp_path, read_only=True) as store:
        for name in TABLES:
            table = kvwal.spark.table(store, name)
            longs = [field.name for field in table.schema if field.type == pa.int64()]
            likely = [
                row for row in table.select(longs).to_pylist() if any(1.5e12 < (n or 0) < 2.5e12 for n in row.values())
            ]
            assert not likely
        assert kvwal.spark.table(store, "jobs").num_rows == 3


def test_only_the_named_columns_are_decoded(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        store.map("spark")["a/job/0000000005"] = {"kind": "job", "id": "five", "duration_ms": 3}
        assert rows(store, "SELECT sum(duration_ms) AS s FROM spark_jobs WHERE app = 'a'") == [{"s": 8}]
        with pytest.raises(kvwal.CodecError, match="a/job/0000000005"):
            kvwal.spark.table(store, "jobs", ["id"])
        with pytest.raises(kvwal.ConfigError, match="a/job/0000000005"):
            store.sql("SELECT max(id) FROM spark_jobs")


def test_damage_of_a_log_stays_damage(root: Path) -> None:
    (segment,) = root.rglob("*.wal")
    data = bytearray(segment.read_bytes())
    data[40] ^= 1
    segment.write_bytes(data)
    assert command("query", root, "SELECT count(*) FROM spark_jobs").code == 4


def test_a_filter_may_name_a_column_that_is_not_shown(store: kvwal.Store) -> None:
    for condition in (
        "status = 'FAILED'", "ended IS NOT NULL", "error.message LIKE 'no%'", "list_contains(stages, 8)",
        "started IS NULL OR duration_ms > 5", "id IN (4, 5)", "ended >= '2026-01-01'",
    ):  # fmt: skip
        assert rows(store, f"SELECT name FROM spark_jobs WHERE {condition}") == [{"name": "save at a.py:2"}], condition


def test_tables_are_joined_by_app(store: kvwal.Store) -> None:
    sql = "SELECT j.id, a.user, w.place FROM spark_jobs j JOIN spark_apps a USING (app) JOIN spark_reads_writes w USING (app)"
    assert rows(store, f"{sql} WHERE way = 'write' AND j.id = 4") == [
        {"id": 4, "user": "ada", "place": "s3://lake/delays"}
    ]


def test_an_open_store_answers_like_its_files(root: Path) -> None:
    with kvwal.open(root, archive=None) as store, kvwal.open(root, read_only=True) as files:
        store.map("spark").put("c/app", rec.to_value(rec.Application(id="c")))
        for name in TABLES:
            assert kvwal.spark.table(store, name).equals(kvwal.spark.table(files, name))
            assert store.sql(f"FROM {name} ORDER BY ALL").equals(files.sql(f"FROM {name} ORDER BY ALL"))
        assert kvwal.spark.table(store, "apps", ["id"]).to_pydict() == {"id": ["a", "b", "c"]}


def test_what_is_not_there_is_said(store: kvwal.Store, tmp_path: Path) -> None:
    with pytest.raises(kvwal.ConfigError, match="The tables: apps, jobs, stages"):
        kvwal.spark.table(store, "job")
    with pytest.raises(kvwal.ConfigError, match="The columns: app, id, name"):
        kvwal.spark.table(store, "jobs", ["app", "nme"])
    with pytest.raises(kvwal.ConfigError, match="Typed tables: spark_apps, spark_jobs"):
        store.sql("FROM spark_job")
    with kvwal.open(tmp_path / "other", archive=None) as empty:
        assert kvwal.spark.table(empty, "jobs").num_rows == 0


WORDS = {
    pa.int64(): "long", pa.float64(): "double", pa.bool_(): "boolean", pa.string(): "text",
    pa.timestamp("ms", tz="UTC"): "timestamp",
}  # fmt: skip
SUMS = set(rec.Totals.__struct_fields__)


def word(kind: pa.DataType) -> str:
    """A type as the page writes it."""
    if pa.types.is_list(kind):
        return f"{word(kind.value_type)}[]"
    if pa.types.is_map(kind):
        return f"map({word(kind.key_type)}, {word(kind.item_type)})"
    return f"struct({', '.join(field.name for field in kind)})" if pa.types.is_struct(kind) else WORDS[kind]


def told(heading: str) -> dict[str, str]:
    """The columns in the table after a heading of the page, each with its type."""
    page = (ROOT / "docs" / "spark-metadata.md").read_text()
    section = re.split(r"^#", page[page.index(heading) + len(heading) :], maxsplit=1, flags=re.MULTILINE)[0]
    lines = re.findall(r"^\| (`.*?`) \| (.*?) \|", section, re.MULTILINE)
    return {column: kind for names, kind in lines for column in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_columns_of_each_table(name: str) -> None:
    columns = {field.name: word(field.type) for field in TABLES[name].schema}
    has_sums = columns.keys() >= SUMS
    assert told(f"### {name}\n") == {name: kind for name, kind in columns.items() if not (has_sums and name in SUMS)}


def test_the_page_has_the_columns_of_the_sums() -> None:
    assert told("**The columns of sums**") == {
        column.name: word(data_type(column.kind)) for column in columns_of(rec.Totals)
    }


QUESTION = re.compile(r"^```sh\nkvwal query data \"(.*?)\"\n```", re.MULTILINE | re.DOTALL)
ANSWERS = {
    "ended > now()": 0, "list_contains(jobs, 4)": 2, "AS latest": 1, "slowest.partition": 1, "AS p95": 2, "gc_ms": 1,
    "task_hours": 2, "half_read": 1, "input_rows_per_second": 1, "reason": 1, "variants": 1,
}  # fmt: skip
"""Words of a question on the page, and the number of rows that it has here."""


def test_each_question_of_the_page_is_short_and_answered(store: kvwal.Store) -> None:
    questions = QUESTION.findall((ROOT / "docs" / "spark-metadata.md").read_text())
    assert len(questions) == 11
    for question in questions:
        assert question.count("\n") < 3
        (expected,) = {count for words, count in ANSWERS.items() if words in question}
        assert store.sql(question).num_rows == expected, question


def test_the_command_reads_all_nodes_and_namespaces(tmp_path: Path) -> None:
    for namespace, node, app in (("x", "n1", "a"), ("x", "n2", "b"), ("y", "n1", "c")):
        with kvwal.open(tmp_path, namespace=namespace, node=node, archive=None) as store:
            store.map("spark").put_many({f"{app}/app": rec.to_value(rec.Application(id=app, started=NOON, tasks=1))})
    sql = "SELECT app, started, error FROM spark_apps ORDER BY app"
    ran = command("query", tmp_path, sql, "--namespace", "x", "--format", "csv")
    assert ran.out.splitlines() == ["app,started,error", "a,2026-01-01 12:00:00.000Z,", "b,2026-01-01 12:00:00.000Z,"]
    sql = "SELECT namespace, app, tasks FROM spark_apps ORDER BY app"
    ran = command("query", tmp_path, sql, "--namespace", "*", "--format", "csv")
    assert ran.out.splitlines() == ["namespace,app,tasks", "x,a,1", "x,b,1", "y,c,1"]
    ran = command("query", tmp_path, "FROM spark_app", "--namespace", "x")
    assert (ran.code, "Typed tables: spark_apps, spark_jobs" in ran.err) == (2, True)


@pytest.mark.parametrize("form", ["table", "csv", "json"])
@pytest.mark.parametrize("name", TABLES)
def test_the_command_prints_every_table(root: Path, name: str, form: str) -> None:
    ran = command("query", root, f"FROM {name}", "--format", form)
    assert (ran.code, ran.err) == (0, "")
    assert all(column in ran.out for column in TABLES[name].schema.names)


def test_an_archive_alone_gives_the_tables_of_its_root(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("spark").put_many(records())
    for name in TABLES:
        sql = f"FROM {name} ORDER BY ALL"
        ran = command("query", f"file://{tmp_path / 'archive'}", sql, "--json")
        assert ran.out
        assert ran == command("query", tmp_path / "root", sql, "--json")
