"""JSON has no infinity: every output shows it by its name, and none as null, which is the value None."""

from __future__ import annotations

import csv
import io
import json
from math import inf
from pathlib import Path

import pytest

import kvwal
from tests.support.cli import kvwal as run

VALUES = {"above": inf, "below": -inf, "half": 0.5, "none": None, inf: 1, -inf: 2}
SHOWN = {"above": "Infinity", "below": "-Infinity", "half": 0.5, "none": None, "Infinity": 1, "-Infinity": 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    with kvwal.open(root, archive=None) as store:
        store.map("b").put_many(VALUES)
    return root


def text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def test_every_output_names_infinity(root: Path) -> None:
    rows = [json.loads(row) for row in run("scan", root, "b", "--format", "json").out.splitlines()]
    assert {row["key"]: row["value"] for row in rows} == SHOWN
    table = list(csv.DictReader(io.StringIO(run("scan", root, "b", "--format", "csv").out)))
    assert {row["key"]: row["value"] for row in table} == {key: text(value) for key, value in SHOWN.items()}
    assert run("get", root, "b", "above").out.rstrip("\n") == "Infinity"
    got = json.loads(run("get", root, "b", "below", "--json").out)
    assert (got["value"], got["value_class"]) == ("-Infinity", "float")
    assert run("get", root, "b", "Infinity", "--key-class", "float").out.rstrip("\n") == "1"
    assert "Infinity" in run("history", root, "b", "above").out


def test_sql_reads_infinity_as_a_number(root: Path) -> None:
    with kvwal.open(root, archive=None, read_only=True) as store:
        table = store.sql("SELECT key, value::DOUBLE AS value FROM b WHERE value_class = 'float' ORDER BY key")
        history = store.sql("SELECT value::DOUBLE AS value FROM b_history WHERE key = 'below'")
    assert table.to_pylist() == [
        {"key": "above", "value": inf}, {"key": "below", "value": -inf}, {"key": "half", "value": 0.5},
    ]  # fmt: skip
    assert history.to_pylist() == [{"value": -inf}]
    asked = "SELECT 'inf'::DOUBLE AS a, ['-inf'::DOUBLE, 'nan'::DOUBLE] AS b, NULL AS c"
    assert json.loads(run("query", root, asked, "--format", "json").out) == {
        "a": "Infinity", "b": ["-Infinity", "NaN"], "c": None,
    }  # fmt: skip
    assert "Infinity" in run("query", root, asked, "--format", "csv").out


def test_an_export_brings_infinity_to_another_store(root: Path, tmp_path: Path) -> None:
    assert run("export", root, "b", tmp_path / "file").code == 0
    assert run("import", tmp_path / "new", "b", tmp_path / "file", "--archive", "none").code == 0
    with kvwal.open(tmp_path / "new", archive=None) as store:
        assert dict(store.map("b")) == VALUES
