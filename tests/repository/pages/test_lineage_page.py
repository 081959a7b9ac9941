"""The lines of docs/lineage.md run, and give what the page shows. Its console blocks are one session."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import kvwal
from kvwal.spark.lineage.names import name_of_path
from tests.repository.pages.test_cli_docs import examples, pattern
from tests.repository.source import ROOT
from tests.support.cli import kvwal as command
from tests.support.spark_records import records

PAGE = (ROOT / "docs" / "lineage.md").read_text()
EVENTS, SQL = (re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for kind in ("json", "sql"))


def test_the_session_of_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    Path("events.jsonl").write_text(EVENTS[0])
    typed = list(examples(PAGE))
    assert len(typed) >= 5
    for example in typed:
        ran = command(*shlex.split(example.typed)[1:])
        printed = "\n".join(line.rstrip() for line in (ran.out + ran.err).splitlines()).strip("\n")
        assert re.fullmatch(pattern(example.printed), printed), f"$ {example.typed}\n{printed}"


def test_the_sql_of_the_page_is_a_step_down(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("spark").put_many(records())
        (row,) = store.sql(SQL[0]).to_pylist()
        assert kvwal.spark.table(store, "lineage").num_rows == 2
    assert (row["source"], row["target"], row["app"]) == ("file:///in", "s3://lake/delays", "a")


def test_the_spellings_of_the_page_are_one_data_set() -> None:
    rows = re.findall(r"^\| (`[^|]*[/][^|]*`) \| (`[^|]*`) \| [^|]* \|$", PAGE, re.MULTILINE)
    assert rows
    for typed, shown in rows:
        names = [name_of_path(text) for text in re.findall(r"`([^`]+)`", typed)]
        texts = re.findall(r"`([^`]+)`", shown)
        assert {name.text for name in names if name is not None} == set(texts)
        assert None not in names
