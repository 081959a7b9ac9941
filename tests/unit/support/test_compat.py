"""The comparison with plain members, as `make compat` makes it of what the tests of Hazelcast's client came to."""

from __future__ import annotations

import json
import signal
import socket
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


@pytest.mark.parametrize(
    ("outcome", "said", "cell", "code"),
    [
        ("failed", "a member ended with 1: CP subsystem is a licensed feature.", "needs Enterprise", 0),
        ("failed", "Unrecognized client message received with type: 0x1b1400", "needs Enterprise", 0),
        ("skipped", "Skipped", "skips its tests", 0),
        ("failed", "no port is free for a member", "**no test passes on plain members**", 1),
    ],
)
def test_a_module_that_passes_no_test_on_plain_members_has_a_reason_or_fails(
    written: tuple[Path, Path], outcome: str, said: str, cell: str, code: int
) -> None:
    from compat import table

    found, page = written
    for kind in ("plain", "node"):
        failed = {"test": "t.py::B::locks", "outcome": outcome, "why": said}
        (found / kind / "cp.jsonl").write_text(json.dumps(failed))
    assert table.write(found, page, "5.7.0", ["t", "cp"]) == code
    assert f"| cp | 0 | 0 | {cell} |" in page.read_text()


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of client sources, in which a test writes its module."""
    monkeypatch.syspath_prepend(str(ROOT / "tests"))
    from compat import run

    monkeypatch.setattr(run, "FOUND", tmp_path / "found")
    monkeypatch.setattr(run, "TIMEOUT_S", 1)
    folder = tmp_path / "client"
    (folder / "tests" / "integration").mkdir(parents=True)
    (folder / "tests" / "__init__.py").touch()
    return folder


def _outcomes(client: Path, source: str) -> tuple[str | None, dict[str, str]]:
    """Run a module of this source. Returns the fault of its run and the outcome of each of its tests."""
    from compat import run, table

    module = "tests/integration/a_test.py"
    (client / module).write_text(source)
    fault = run.run(client, "plain", module)
    report = run.report("plain", module)
    assert report.exists() == (fault is None)
    return fault, {test.rsplit("::", 1)[1]: outcome for test, outcome, _ in table.outcomes(report)} if not fault else {}


@pytest.mark.long
def test_a_test_that_times_out_fails_alone(client: Path) -> None:
    source = "import threading\ndef test_waits():\n    threading.Event().wait()\ndef test_passes():\n    pass\n"
    assert _outcomes(client, source) == (None, {"test_waits": "failed", "test_passes": "passed"})


@pytest.mark.long
@pytest.mark.parametrize(
    "source", ["", "import os\ndef test_dies():\n    os.kill(os.getpid(), 9)\n", "import nothing\n"]
)
def test_a_run_that_ended_abnormally_has_a_fault_and_no_report(client: Path, source: str) -> None:
    fault, _ = _outcomes(client, source)
    assert "a_test.py on plain members: pytest ended with" in str(fault)


@pytest.mark.long
def test_what_a_module_started_ends_with_the_module(client: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        child = (
            f"import socket, threading; link = socket.create_connection({server.getsockname()!r});"
            "print('connected', flush=True); threading.Event().wait()"
        )
        source = (
            "import subprocess, sys\ndef test_starts():\n"
            f"    child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE)\n"
            "    assert child.stdout.readline()\n"
        )
        assert _outcomes(client, source) == (None, {"test_starts": "passed"})
        link, _ = server.accept()
        with link:
            assert link.recv(1) == b""


@pytest.mark.long
def test_members_end_with_a_test_whose_set_up_fails(client: Path) -> None:
    source = """
import unittest
from tests.hzrc.client import HzRemoteController

class A(unittest.TestCase):
    def setUp(self):
        assert not HzRemoteController.not_exited
        HzRemoteController("127.0.0.1", 9701)
        raise RuntimeError("the client does not connect")

    def test_1(self):
        pass

    def test_2(self):
        pass

class B(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        assert not HzRemoteController.not_exited
        HzRemoteController("127.0.0.1", 9701)
        raise RuntimeError("the client does not connect")

    def test_3(self):
        pass

class C(unittest.TestCase):
    def test_4(self):
        assert not HzRemoteController.not_exited
"""
    from compat import run, table

    fault, outcomes = _outcomes(client, source)
    assert (fault, outcomes["test_4"]) == (None, "passed")
    said = [
        why
        for _, outcome, why in table.outcomes(run.report("plain", "tests/integration/a_test.py"))
        if outcome == "failed"
    ]
    assert len(said) == 3
    assert all("the client does not connect" in why for why in said)


@pytest.mark.long
def test_a_run_with_a_fault_ends_with_1(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compat import controller, jars, run, table

    (client / "tests" / "integration" / "a_test.py").touch()
    monkeypatch.setattr(sys, "argv", ["run", str(client)])
    monkeypatch.setattr(run, "check", lambda _: None)
    monkeypatch.setattr(controller, "is_free", lambda _: True)
    monkeypatch.setattr(jars, "bring", lambda: None)
    monkeypatch.setattr(table, "write", lambda *_: 0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert run.main() == 1


def test_a_port_in_use_is_said(
    client: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from compat import controller, run

    monkeypatch.setattr(sys, "argv", ["run", str(client)])
    monkeypatch.setattr(run, "check", lambda _: None)
    monkeypatch.setattr(controller, "is_free", lambda port: port != 5703)
    assert run.main() == 2
    assert "Port 5703 is in use." in capsys.readouterr().err


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
