"""A store may be called as a product is: lines that import a file into it go on working."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.cli.importers.chosen import is_product


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("import flume channel data", True),
        ("import nifi repository data --map m", True),
        ("import seatunnel imap kvwal://host:5701", True),
        ("import flume --help", True),
        ("import flume", True),
        ("import flume jobs", False),
        ("import flume jobs rows.csv", False),
        ("import flume jobs -", False),
        ("import flume jobs rows --key id", False),
        ("import flume jobs rows --format=csv", False),
        ("import nifi jobs", True),
        ("import data jobs rows.csv", False),
        ("import ./flume channel data", False),
        ("import", False),
        ("export flume jobs", False),
        ("import flume rows.csv data", True),
    ],
)
def test_which_import_a_line_is(line: str, answer: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder with a store `flume`, folders that are no stores, and a file `rows.csv`."""
    monkeypatch.chdir(tmp_path)
    for name in ("channel", "data", "nifi"):
        Path(name).mkdir()
    with kvwal.open("flume", archive=None) as store:
        store.map("jobs")["job-1"] = 1
    Path("rows.csv").touch()
    assert is_product(line.split()) is answer
