"""docs/operations.md has every setting with its default, and what it shows of them works."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from kvwal import Settings
from kvwal.config import Interval
from kvwal.node.config import read_file
from tests.repository.pages.test_docs import run_session
from tests.repository.source import ROOT

SECTION = re.compile(r"^## Settings\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+|None) \| (\w+) \|", re.MULTILINE)


def section() -> str:
    found = SECTION.search((ROOT / "docs" / "operations.md").read_text())
    assert found is not None
    return found[1]


COUNTS = ("ring_slots", "queue_memory")
"""Settings whose names do not end with their unit."""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", section(), re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_table_has_every_setting_with_its_default_and_unit() -> None:
    defaults = Settings()
    rows = [(name, None if told == "None" else int(told.replace(",", ""))) for name, told, _ in ROW.findall(section())]
    assert rows == [(name, getattr(defaults, name)) for name in Settings.__struct_fields__]
    units = {name: unit for name, _, unit in ROW.findall(section())}
    assert all(unit == name.rpartition("_")[2] for name, unit in units.items() if name not in COUNTS)


def test_the_lines_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_session(block("python"), "docs/operations.md")


def test_the_lines_of_a_nodes_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text(block("toml"))
    read = read_file(path)
    assert read.policies() == {"metrics.*": Interval(ms=100)}
    assert read.log.archive_seconds == tomllib.loads(block("toml"))["log"]["archive_seconds"]
