"""The keys that a query asks for: found where the SQL says it plainly, and nowhere else."""

from __future__ import annotations

import duckdb
import pytest

from kvwal.location.key_filter import KeyFilter, key_filter


def texts(*keys: str) -> KeyFilter:
    return KeyFilter(frozenset(keys))


@pytest.mark.parametrize(
    ("sql", "condition"),
    [
        ("SELECT * FROM jobs WHERE key = 'a'", texts("a")),
        ("SELECT value FROM Jobs AS j WHERE 'a' = j.key AND value->>'x' = '1' ORDER BY 1 LIMIT 2", texts("a")),
        ("FROM jobs WHERE key IN ('a', 'b''c')", texts("a", "b'c")),
        ("SELECT count(*) FROM jobs WHERE key LIKE 'app/1_%'", KeyFilter(None, "app/1")),
        ("SELECT * FROM jobs WHERE starts_with(key, 'a%')", KeyFilter(None, "a%")),
        ("SELECT * FROM jobs", None),
        ("SELECT * FROM jobs WHERE key = 'a' OR key = 'b'", None),
        ("SELECT * FROM jobs WHERE NOT key = 'a'", None),
        ("SELECT * FROM jobs WHERE key != 'a'", None),
        ("SELECT * FROM jobs WHERE key = value->>'x'", None),
        ("SELECT * FROM jobs WHERE key IN ('a', NULL)", None),
        ("SELECT * FROM jobs WHERE key = 5", None),
        ("SELECT * FROM jobs WHERE lower(key) = 'a'", None),
        ("SELECT * FROM jobs WHERE key = 'a' AND value IN (SELECT value FROM jobs)", None),
        ("SELECT * FROM jobs JOIN owners USING (key) WHERE key = 'a'", None),
        ("SELECT * FROM jobs WHERE key = 'a' UNION ALL SELECT * FROM jobs", None),
        ("SELECT * FROM owners WHERE key = 'a'", None),
        ("WITH j AS (SELECT * FROM jobs) SELECT * FROM j WHERE key = 'a'", None),
    ],
)
def test_a_condition_on_the_key_is_found_only_where_it_holds_for_all_rows(
    sql: str, condition: KeyFilter | None
) -> None:
    with duckdb.connect() as connection:
        assert key_filter(connection, sql, "jobs") == condition


def test_a_condition_accepts_what_duckdb_would() -> None:
    assert [texts("a").accepts(text) for text in ("a", "ab")] == [True, False]
    assert [KeyFilter(None, "a").accepts(text) for text in ("a", "ab", "b")] == [True, True, False]


def test_sql_that_is_no_select_has_no_condition() -> None:
    with duckdb.connect() as connection:
        assert key_filter(connection, "CREATE TABLE x AS SELECT * FROM jobs WHERE key = 'a'", "jobs") is None
