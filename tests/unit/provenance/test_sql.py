"""The table of events in SQL: of a store that is open, of its folder and of its archive."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ConfigError
from tests.repository.source import ROOT
from tests.support.cli import kvwal as command

PAGE = (ROOT / "docs" / "provenance.md").read_text()
COUNTS = 'SELECT type, count(*) AS n FROM "work/provenance" GROUP BY type ORDER BY type'
EXPECTED = [{"type": "create", "n": 2}, {"type": "drop", "n": 1}, {"type": "modify content", "n": 2}]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[kvwal.Store]:
    with kvwal.open(tmp_path / "data", archive=tmp_path / "archive") as store:
        store.provenance("work")
        work = store.map("work")
        work["a"] = {"state": "NEW", "size": 7}
        work["a"] = {"state": "FAILED", "size": 7}
        store.checkpoint()
        work["b"] = b"\xff" * 5_000
        work["b"] = "text"
        del work["a"]
        store.archive()
        yield store


def test_every_place_has_the_same_table(store: kvwal.Store, tmp_path: Path) -> None:
    assert store.sql(COUNTS).to_pylist() == EXPECTED
    with kvwal.open(tmp_path / "data", read_only=True) as reader:
        assert reader.sql(COUNTS).to_pylist() == EXPECTED
    for place in ("data", "archive"):
        ran = command("query", tmp_path / place, COUNTS, "--json")
        assert [json.loads(line) for line in ran.out.splitlines()] == EXPECTED, ran.err


def test_the_columns_are_those_of_the_page(store: kvwal.Store) -> None:
    found = store.sql('SELECT * FROM "work/provenance" ORDER BY timestamp').to_pylist()
    page = PAGE.partition("## SQL")[2].partition("```")[0]
    assert all(f"`{name}`" in page for name in found[0])
    events = store.provenance("work").events(limit=None)[::-1]
    assert [(row["event"], row["timestamp"], row["key"]) for row in found] == [
        (event.id, event.timestamp, event.key) for event in events
    ]
    (before,) = json.loads(found[1]["before"])
    assert (before["key"], before["value"]) == ("a", {"state": "NEW", "size": 7})
    large = json.loads(found[2]["after"])[0]
    assert (large["bytes"], large["value"]) == (5_000, None)


def test_the_sql_of_the_page_runs(store: kvwal.Store) -> None:
    (asked,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert store.sql(asked).to_pylist() == [{"component": "", "failed": 1}]


def test_a_business_without_events_has_an_empty_table(store: kvwal.Store) -> None:
    store.map("other")["a"] = 1
    assert store.sql('SELECT count(*) AS n FROM "other/provenance"').to_pylist() == [{"n": 0}]


def test_an_earlier_moment_has_no_table(store: kvwal.Store, tmp_path: Path) -> None:
    ran = command("query", tmp_path / "data", COUNTS, "--at", "0s")
    assert (ran.code, "has no table of events" in ran.err) == (2, True)
    with pytest.raises(ConfigError, match="history"):
        store.sql('SELECT * FROM "work/provenance_history"')
