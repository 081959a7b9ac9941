"""Records that are read while another node begins to record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.spark import index
from kvwal.spark.record_reader import IndexedReader, records_of
from kvwal.spark.records import Application, to_value
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from tests.support.disk.faults import make_options


def record(store: kvwal.Store, app: str) -> None:
    records = store.map("spark")
    found = {f"{app}/app": to_value(Application(id=app, name="report", started=1))}
    records.put_many(found | index.index_entries(found) | index.mark_of(records, store.node or ""))


def test_a_node_that_has_recorded_nothing_yet_needs_no_mark(tmp_path: Path) -> None:
    """Otherwise all records of all nodes are read into memory, without the index, until its first application begins."""
    with kvwal.open(tmp_path, node="old") as old, kvwal.open(tmp_path, node="new") as new:
        record(old, "app-1")
        assert len(new.map("spark")) == 0
        with ReadOnlyStore(make_options(tmp_path)) as reading:
            assert reading.read_business("spark").nodes == ["new", "old"]
            records = records_of(reading)
        assert isinstance(records, IndexedReader)
        assert records.has_edges
        record(new, "app-2")
        with ReadOnlyStore(make_options(tmp_path)) as reading:
            records = records_of(reading)
            assert [prefix for prefix, _ in records.applications()] == ["app-1", "app-2"]
        new.map("spark").delete(index.mark_key("new"))
        with ReadOnlyStore(make_options(tmp_path)) as reading:
            assert not isinstance(records_of(reading), IndexedReader), "its records may lack their index"


def test_a_node_that_begins_while_the_index_is_read_needs_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is read first, and the marks are looked for later."""
    with kvwal.open(tmp_path, node="old") as old, kvwal.open(tmp_path, node="new") as new:
        record(old, "app-1")
        assert len(new.map("spark")) == 0
        read = ReadOnlyBusiness.between

        def begins_then(self: ReadOnlyBusiness, *wanted: Any) -> Any:
            found = list(read(self, *wanted))
            if not len(new.map("spark")):
                record(new, "app-2")
            return iter(found)

        monkeypatch.setattr(ReadOnlyBusiness, "between", begins_then)
        with ReadOnlyStore(make_options(tmp_path)) as reading:
            records = records_of(reading)
            assert isinstance(records, IndexedReader)
            assert records.has_edges
