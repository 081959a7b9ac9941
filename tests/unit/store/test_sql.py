"""`Store.sql`: the tables of `kvwal query`, from a store that is open and from files, as a table of Arrow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import kvwal


@pytest.fixture(params=["open", "read only"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[kvwal.Store]:
    """A store with a business of three jobs, one of them deleted."""
    with kvwal.open(tmp_path) as writer:
        jobs = writer.map("jobs")
        jobs.put_many({f"job-{number}": {"ms": number} for number in (1, 9, 10)})
        del jobs["job-9"]
        if request.param == "open":
            yield writer
            return
    with kvwal.open(tmp_path, read_only=True) as reader:
        yield reader


def test_a_business_and_its_history_are_tables(store: kvwal.Store) -> None:
    assert store.sql("SELECT key, value->>'ms' AS ms FROM jobs").to_pydict() == {
        "key": ["job-1", "job-10"],
        "ms": ["1", "10"],
    }
    counted = store.sql(
        "SELECT key, count(*) AS n, bool_or(deleted) AS gone FROM jobs_history GROUP BY key ORDER BY key"
    )
    assert counted.to_pydict() == {"key": ["job-1", "job-10", "job-9"], "n": [1, 1, 2], "gone": [False, False, True]}


def test_sums_of_longs_are_longs_unless_they_are_too_large(store: kvwal.Store) -> None:
    table = store.sql("SELECT sum((value->>'ms')::BIGINT) AS ms, 3 * sum(4611686018427387904) AS large FROM jobs")
    assert table.schema.field("ms").type == pa.int64()
    assert table.to_pydict() == {"ms": [11], "large": [6 << 62]}


def test_pandas_and_polars_take_the_answer(store: kvwal.Store) -> None:
    table = store.sql("SELECT key, timestamp FROM jobs")
    assert table.to_pandas()["key"].tolist() == ["job-1", "job-10"]
    assert pl.from_arrow(table).shape == (2, 2)  # type: ignore[union-attr]


def test_a_statement_that_cannot_be_run_is_the_callers_to_mend(store: kvwal.Store) -> None:
    with pytest.raises(kvwal.ConfigError, match=r"job does not exist.*The maps here: jobs"):
        store.sql("FROM job")
    with pytest.raises(kvwal.ConfigError, match="2 statements"):
        store.sql("SELECT 1; SELECT 2")


CHANGES = (
    "DELETE FROM jobs",
    "UPDATE jobs SET key = 'a'",
    "INSERT INTO jobs (key) VALUES ('a')",
    "TRUNCATE jobs",
    "DROP TABLE jobs",
    "ALTER TABLE jobs ADD COLUMN state TEXT",
    "CREATE TABLE made AS SELECT key FROM jobs",
    "CREATE VIEW made AS SELECT key FROM jobs",
    "CREATE TABLE made AS PIVOT jobs ON key",
    "ATTACH ':memory:' AS made",
    "COPY jobs TO '{made}'",
    "EXPORT DATABASE '{made}'",
    "SET threads = 2",
    "PRAGMA threads = 2",
    "CHECKPOINT",
    "BEGIN",
    "WITH gone AS (DELETE FROM jobs RETURNING key) SELECT * FROM gone",
    "FROM (WITH made AS (INSERT INTO jobs (key) VALUES ('a') RETURNING key) SELECT * FROM made)",
)
"""Statements that would change nothing: a business is a table of DuckDB for the time of one statement."""


@pytest.mark.parametrize("statement", CHANGES)
def test_a_statement_that_does_not_read_is_refused(store: kvwal.Store, tmp_path: Path, statement: str) -> None:
    made = tmp_path / "made"
    with pytest.raises(kvwal.ConfigError, match=r"a query only reads.*put.*delete.*export"):
        store.sql(statement.format(made=made))
    assert not made.exists()
    assert store.sql("SELECT key FROM jobs").num_rows == 2


@pytest.mark.parametrize(
    "statement",
    [
        "FROM jobs",
        "VALUES (1)",
        "EXPLAIN FROM jobs",
        "PIVOT jobs ON key",
        "DESCRIBE jobs",
        "SUMMARIZE jobs",
        "SHOW jobs",
    ],
)
def test_every_statement_that_reads_is_answered(store: kvwal.Store, statement: str) -> None:
    assert store.sql(statement).num_rows > 0


def test_the_time_zone_of_a_statement_is_utc_on_every_machine(
    store: kvwal.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        recent = store.sql(
            "SELECT key FROM jobs WHERE time BETWEEN now() - INTERVAL 1 HOUR AND now() + INTERVAL 1 HOUR"
        )
    finally:
        monkeypatch.undo()
        time.tzset()
    assert recent.num_rows == 2


def test_a_variable_of_the_caller_is_no_table(store: kvwal.Store) -> None:
    mine = pa.table({"a": [1]})
    assert mine.num_rows == 1
    with pytest.raises(kvwal.ConfigError, match="mine does not exist"):
        store.sql("FROM mine")


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1
    with pytest.raises(kvwal.StoreClosed):
        store.sql("FROM jobs")
