"""The comparison with plain members, as `make compat` makes it of what the tests of Hazelcast's client came to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.repository.source import ROOT

SQL = "hazelcast.sql.HazelcastSqlError: A node of kvwal takes no SQL from clients; nothing was read or written."


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The folder of what was found, with a module in it, and the page."""
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    for kind, outcomes in {
        "plain": {"t.py::A::gets": "passed", "t.py::A::asks": "passed", "t.py::A::licensed": "failed"},
        "node": {"t.py::A::gets": "passed", "t.py::A::asks": "failed", "t.py::A::licensed": "failed"},
    }.items():
        (tmp_path / kind).mkdir()
        lines = [json.dumps({"test": test, "outcome": outcome, "why": SQL}) for test, outcome in outcomes.items()]
        (tmp_path / kind / "t.jsonl").write_text("\n".join(lines))
    return tmp_path, tmp_path / "page.md"


def test_a_difference_has_the_name_of_its_reason(written: tuple[Path, Path]) -> None:
    from compat import table

    assert table.write(*written, "5.7.0", ["t", "later"]) == 0
    text = written[1].read_text()
    assert "Of 2 tests that pass on plain members 1 pass on nodes." in text
    assert "| t | 2 | 1 | 1 SQL |" in text
    assert "Not run yet: later." in text


def test_a_difference_without_a_name_is_told_and_fails(
    written: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    from compat import table

    found, page = written
    lines = [
        {"test": "t.py::A::gets", "outcome": "passed", "why": ""},
        {"test": "t.py::A::gets", "outcome": "failed", "why": "0 != 1"},
    ]
    (found / "node" / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert table.write(found, page, "5.7.0", ["t"]) == 1
    assert "`t.py::A::gets`" in capsys.readouterr().out
    assert "- `t.py::A::gets`" in page.read_text()


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from compat import run

    assert "Check out the tag v" in str(run.check(tmp_path))
    (tmp_path / "tests" / "integration").mkdir(parents=True)
    (tmp_path / "hazelcast").mkdir()
    (tmp_path / "hazelcast" / "__init__.py").write_text('__version__ = "1.0"')
    assert "is another release" in str(run.check(tmp_path))
    monkeypatch.setattr(sys, "argv", ["run"])
    assert run.main() == 2
