"""The tables of SQL by name: names that differ in case only, hidden histories and typed tables, and lists of tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.cli import kvwal as command

Filled = Callable[..., kvwal.Store]


@pytest.fixture(params=["open", "read only"])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Filled]:
    """A function that opens a store in which each of these businesses has its own name under the key `k`."""
    opened: list[kvwal.Store] = []

    def fill(*names: str) -> kvwal.Store:
        writer = kvwal.open(tmp_path, archive=None)
        opened.append(writer)
        for name in names:
            writer.map(name)["k"] = name
        if request.param == "open":
            return writer
        writer.close()
        opened.append(kvwal.open(tmp_path, archive=None, read_only=True))
        return opened[-1]

    yield fill
    for store in reversed(opened):
        store.close()


def values(store: kvwal.Store, statement: str) -> list[Any]:
    """The first column of an answer."""
    return store.sql(statement).column(0).to_pylist()


@pytest.mark.parametrize(
    "names", [("jobs", "Jobs"), ("jobs", "Jobs", "JOBS"), ("a", "A_history"), ("a-b", "A-B"), ("spark", "Spark_Jobs")]
)
def test_each_business_is_the_table_of_its_exact_name(filled: Filled, names: Sequence[str]) -> None:
    store = filled(*names)
    for name in names:
        assert values(store, f"""SELECT value->>'$' FROM "{name}" """) == [name]
        assert values(
            store, f"""WITH other AS (SELECT 1 AS JOBS) SELECT t.value->>'$' FROM "{name}" AS t, other"""
        ) == [name]
        assert values(store, f"""SELECT value->>'$' FROM "{name}_history" """) == [name]
        assert values(store, f"""SELECT value->>'$' FROM history."{name}" """) == [name]
        for statement in ("DESCRIBE", "SUMMARIZE", "EXPLAIN FROM", "SHOW"):
            assert store.sql(f'{statement} "{name}"').num_rows > 0


def test_a_name_in_another_case_is_that_of_the_only_business(filled: Filled) -> None:
    store = filled("jobs", "Owners")
    assert values(store, "SELECT value->>'$' FROM JOBS") == ["jobs"]
    assert values(store, "SELECT value->>'$' FROM owners_History") == ["Owners"]


def test_a_name_that_may_be_one_of_two_is_refused(filled: Filled) -> None:
    store = filled("jobs", "Jobs")
    for statement in (
        "FROM JOBS",
        "SELECT * FROM jobs AS a JOIN JOBS AS b USING (key)",
        "FROM JOBS_HISTORY",
        "FROM history.JOBS",
    ):
        with pytest.raises(kvwal.ConfigError, match=r"JOBS\w* may be Jobs\w* or jobs\w*.*exactly"):
            store.sql(statement)
    with pytest.raises(kvwal.ConfigError, match=r"names Jobs and jobs.*one statement each"):
        store.sql('SELECT * FROM jobs AS a JOIN "Jobs" AS b USING (key)')


def test_a_text_is_no_name(filled: Filled) -> None:
    store = filled("jobs", "Jobs")
    assert values(store, "SELECT 'JOBS' FROM jobs") == ["JOBS"]
    assert values(store, "SELECT value->>'$' AS jobs FROM \"Jobs\" WHERE key != 'JOBS'") == ["Jobs"]
    assert values(store, "WITH JOBS AS (SELECT 7 AS n) SELECT n FROM JOBS") == [7]


def test_a_history_that_a_business_hides_has_another_name(filled: Filled, caplog: pytest.LogCaptureFixture) -> None:
    store = filled("jobs", "jobs_history")
    with caplog.at_level(logging.WARNING):
        assert values(store, "SELECT value->>'$' FROM jobs_history") == ["jobs_history"]
    assert [record.getMessage() for record in caplog.records] == [
        'jobs_history is the map of that name. The history of jobs is the table history."jobs".'
    ]
    caplog.clear()
    for name in ("history.jobs", 'history."jobs"', '"history" . jobs', "HISTORY.Jobs"):
        assert values(store, f"SELECT value->>'$' FROM {name} WHERE NOT deleted") == ["jobs"], name
    assert values(store, "SELECT value->>'$' FROM jobs_history_history") == ["jobs_history"]
    assert not caplog.records


def test_a_typed_table_that_a_business_hides_has_another_name(filled: Filled, caplog: pytest.LogCaptureFixture) -> None:
    store = filled("spark", "spark_jobs")
    with caplog.at_level(logging.WARNING):
        assert values(store, "SELECT value->>'$' FROM spark_jobs") == ["spark_jobs"]
    assert 'The typed table of spark is the table typed."spark_jobs".' in caplog.text
    assert values(store, "SELECT app FROM typed.spark_jobs") == []
    assert values(store, "SELECT app FROM spark_stages UNION SELECT app FROM typed.spark_stages") == []


def test_tables_are_listed(filled: Filled) -> None:
    store = filled("jobs", "owners", "owners_history", "spark")
    main = ["jobs", "jobs_history", "owners", "owners_history", "owners_history_history", "spark", "spark_history"]
    names = values(store, "SHOW TABLES")
    assert [name for name in names if not name.startswith("spark_") or name == "spark_history"] == main
    assert {"spark_apps", "spark_settings"} < set(names)
    listed = store.sql("SHOW ALL TABLES").to_pylist()
    assert [row["name"] for row in listed if row["schema"] == "main"] == names
    assert [row["name"] for row in listed if row["schema"] == "history"] == ["owners"]
    assert (
        values(store, "SELECT table_name FROM information_schema.tables WHERE table_schema = 'main' ORDER BY 1")
        == names
    )
    columns = {row["name"]: row["column_names"] for row in listed if row["schema"] == "main"}
    for name in names:
        assert columns[name] == values(store, f"SELECT column_name FROM (DESCRIBE {name})"), name


def test_names_that_differ_in_case_only_are_listed(filled: Filled) -> None:
    store = filled("jobs", "Jobs", "A_history", "a")
    names = ["A_history", "A_history_history", "Jobs", "Jobs_history", "a", "a_history", "jobs", "jobs_history"]
    assert sorted(values(store, "SHOW TABLES")) == names


def test_tables_of_all_namespaces_are_listed(tmp_path: Path) -> None:
    for namespace, name in (("one", "jobs"), ("two", "Jobs")):
        with kvwal.open(tmp_path, namespace=namespace, archive=None) as store:
            store.map(name)["k"] = name
    ran = command("query", tmp_path, "SHOW TABLES", "--namespace", "*", "--format", "csv")
    assert (ran.code, sorted(ran.out.split())) == (0, ["Jobs", "Jobs_history", "jobs", "jobs_history", "name"])
    described = command(
        "query", tmp_path, "SELECT column_name FROM (DESCRIBE jobs)", "--namespace", "*", "--format", "csv"
    )
    assert described.out.split()[1] == "namespace"
    for namespace, name in (("one", "jobs"), ("two", "Jobs")):
        ran = command("query", tmp_path, f'SELECT namespace, value FROM "{name}"', "--namespace", "*", "--json")
        assert (ran.code, ran.out) == (0, f'{{"namespace":"{namespace}","value":"\\"{name}\\""}}\n')
    ran = command("query", tmp_path, "FROM JOBS", "--namespace", "*")
    assert (ran.code, "JOBS may be Jobs or jobs" in ran.err) == (2, True)


def test_an_archive_has_the_same_names(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "data") as store:
        for name in ("jobs", "Jobs", "jobs_history"):
            store.map(name)["k"] = name
        store.archive()
    archive = tmp_path / "data" / "_archive"
    for table, name in (
        ('"Jobs"', "Jobs"),
        ("jobs", "jobs"),
        ("history.jobs", "jobs"),
        ("jobs_history", "jobs_history"),
    ):
        ran = command("query", archive, f"SELECT value->>'$' AS name FROM {table} WHERE key = 'k'", "--format", "csv")
        assert (ran.code, ran.out.split()) == (0, ["name", name]), ran
    assert "Jobs_history" in command("query", archive, "SHOW TABLES").out
