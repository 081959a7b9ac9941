"""Which keys a question is about: read from the filter that DuckDB gives a dataset, and from the values of key columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kvwal
from kvwal.spark.tables.catalogue import TABLES
from kvwal.sql.filters import possible_values
from tests.support.spark_records import records

app, number = pc.field("app"), pc.field("id")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path_factory.mktemp("spans"), archive=None) as store:
        store.map("spark").put_many(records())
        yield store


@pytest.mark.parametrize(
    ("filter", "values"),
    [
        (None, {}),
        (app == "a", {"app": {"a"}}),
        (pc.scalar("a") == app, {"app": {"a"}}),
        ((app == 'it\'s "q" \\ é\n') & (number == 1), {"app": {'it\'s "q" \\ é\n'}, "id": {1}}),
        (app.isin([f"{n}" for n in range(500)]), {"app": {f"{n}" for n in range(500)}}),
        ((app == "a") | (app == "b"), {"app": {"a", "b"}}),
        ((app == "a") & (app == "b"), {"app": set()}),
        ((app == "a") | (number == 1), {}),
        ((app == "a") & (pc.field("error", "message") == "app"), {"app": {"a"}}),
        ((app == "a") & (pc.struct_field(pc.field("error"), "message") == "x"), {"app": {"a"}}),
        (~(app == "a"), {}),
        (app != "a", {}),
        (app > "a", {}),
        (app.cast(pa.binary()) == b"a", {}),
        (pc.if_else(app.is_valid(), app.isin(["a"]), pa.scalar(None, pa.bool_())), {"app": {"a"}}),
        (pc.if_else(app.is_valid(), app.isin(["a"]), pa.scalar(True)), {}),
    ],
    # The order of a set differs between processes.
    ids=lambda value: None if isinstance(value, dict) else str(value)[:60],
)
def test_values_that_a_filter_leaves(filter: pc.Expression | None, values: dict[str, set[object]]) -> None:
    assert possible_values(filter) == values


def test_a_filter_of_another_form_leaves_every_value() -> None:
    class Filter:
        def __reduce__(self) -> tuple[object, tuple[object]]:
            _, (serialized,) = (app == "a").__reduce__()
            with pa.ipc.open_file(serialized) as file:
                batch = file.get_batch(0)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, batch.schema.with_metadata({"tree": "1"})) as writer:
                writer.write(batch)
            return object, (sink.getvalue(),)

    assert possible_values(Filter()) == {}


@pytest.mark.parametrize("name", TABLES)
def test_each_row_is_in_the_spans_of_its_values(name: str, store: kvwal.Store) -> None:
    table = TABLES[name]
    rows = kvwal.spark.table(store, name).to_pylist()
    assert rows
    for row in rows:
        for columns in (["app"], ["app", *table.key_columns], ["key"]):
            spans = table.spans({column: frozenset([row[column]]) for column in columns})
            assert spans is not None
            assert any(low <= row["key"].encode() < high for low, high in spans), (name, columns)
            if columns != ["app"]:
                same = [each for each in rows if any(low <= each["key"].encode() < high for low, high in spans)]
                assert {each["key"] for each in same} == {row["key"]}
            where = " AND ".join(f"{column} = {row[column]!r}" for column in columns)
            assert row in store.sql(f"FROM {name} WHERE {where}").to_pylist()
    assert table.spans({"name": frozenset("x")}) is None


def test_spans_are_apart_and_bounded() -> None:
    jobs = TABLES["spark_jobs"]
    assert jobs.spans({"app": frozenset(["a", "a/job"])}) == [(b"a/job/", b"a/job0")]
    assert jobs.spans({"app": frozenset(["b", "a"]), "id": frozenset([2, 1])}) == [
        (key, key + b"\0")
        for key in (b"a/job/0000000001", b"a/job/0000000002", b"b/job/0000000001", b"b/job/0000000002")
    ]
    many = frozenset(range(2_000))
    assert jobs.spans({"app": frozenset("a"), "id": many}) == [(b"a/job/", b"a/job0")]
    assert jobs.spans({"app": frozenset(map(str, many))}) is None
    assert jobs.spans({"id": frozenset([1])}) is None
    assert jobs.spans({"app": frozenset()}) == []
