"""Values and keys that are typed, piped or in files: `kvwal put` and what comes back."""

from __future__ import annotations

import io
import json
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import kvwal
from tests.support.cli import Ran
from tests.support.cli import kvwal as run


def piped(data: bytes, *typed: object) -> Ran:
    """A command with these bytes as its standard input."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return run(*typed)


@pytest.fixture
def terminal() -> Iterator[IO[str]]:
    """A standard input at which somebody sits."""
    outer, inner = pty.openpty()
    with os.fdopen(outer, "w"), os.fdopen(inner) as terminal:
        yield terminal


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"x", "x"),
        (b"x\n", "x"),
        (b"x\r\n", "x"),
        (b"x\n\n", "x\n"),
        (b"\n", ""),
        ("é\n".encode(), "é"),
        (b'{"a": [1]}\n', {"a": [1]}),
        (b"-5\n", -5),
        (b"x" * (1 << 20), "x" * (1 << 20)),
    ],
)
def test_a_value_comes_from_standard_input_or_a_file(tmp_path: Path, data: bytes, value: object) -> None:
    """Without the line end that `get` adds."""
    root, file = tmp_path / "root", tmp_path / "file"
    file.write_bytes(data)
    assert piped(data, "put", root, "b", "piped", "-").code == 0
    assert run("put", root, "b", "file", "--file", file).code == 0
    with kvwal.open(root, archive=None, read_only=True) as store:
        assert dict(store.map("b")) == {"piped": value, "file": value}
    printed = run("get", root, "b", "piped").out
    assert piped(printed.encode(), "put", root, "b", "again", "-").code == 0
    assert run("get", root, "b", "again").out == printed


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "{} is empty; nothing was put."),
        (b"a\0b", "{} is no text: byte 1 is NUL; nothing was put."),
        (b"ab\xff\n", "{} is no UTF-8 text: byte 2 is 0xff; nothing was put."),
    ],
)
def test_input_that_is_no_text_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    root, file = tmp_path / "root", tmp_path / "file"
    file.write_bytes(data)
    for ran, source in (
        (piped(data, "put", root, "b", "k", "-"), "standard input"),
        (run("put", root, "b", "k", "--file", file), str(file)),
    ):
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran
        assert says.format(source) in ran.err
    assert not root.exists()


def test_a_terminal_is_not_waited_for(tmp_path: Path, terminal: IO[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", terminal)
    for typed in (["put", tmp_path, "b", "k", "-"], ["import", tmp_path, "b"]):
        ran = run(*typed)
        assert (ran.code, "standard input is a terminal; nothing was put." in ran.err) == (2, True), ran


def test_a_value_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    for typed, says in (
        ([], "needs a value"),
        (["1", "--file", tmp_path / "file"], "not both"),
        (["--file", tmp_path / "absent"], "absent: cannot be read (No such file or directory)"),
        (["--file", tmp_path], "cannot be read (Is a directory)"),
    ):
        ran = run("put", tmp_path / "root", "b", "k", *typed)
        assert (ran.code, says in ran.err, ran.err.count("\n")) == (2, True, 1), ran


def test_strict_takes_json_only(tmp_path: Path) -> None:
    root, file = tmp_path / "root", tmp_path / "file"
    file.write_text("{a")
    for ran, source in (
        (run("put", root, "b", "k", "text", "--strict"), "VALUE"),
        (run("put", root, "b", "k", os.fsdecode(b"\xff"), "--strict"), "VALUE"),
        (run("put", root, "b", "k", "NaN", "--strict"), "VALUE"),
        (run("put", root, "b", "k", "--file", file, "--strict"), str(file)),
        (piped(b"text", "put", root, "b", "k", "-", "--strict"), "standard input"),
    ):
        assert (ran.code, f"{source} is no JSON" in ran.err, "nothing was put" in ran.err) == (2, True, True), ran
    assert run("put", root, "b", "k", '{"a": 1}', "--strict").code == 0
    assert run("put", root, "b", "text", "{a").code == 0


@pytest.mark.parametrize(("number", "class_name"), [("-5", "int"), ("-1.5", "float"), ("-Infinity", "float")])
def test_a_negative_number_is_a_value_and_a_key(tmp_path: Path, number: str, class_name: str) -> None:
    of_class = ("--key-class", class_name)
    assert run("put", tmp_path, "b", number, number, *of_class, "--archive", "none").code == 0
    assert run("put", tmp_path, "b", number, "text").code == 0
    assert run("get", tmp_path, "b", number, *of_class).out == f"{number}\n"
    assert run("get", tmp_path, "b", number).out == "text\n"
    assert len(run("history", tmp_path, "b", number).out.splitlines()) == 2
    assert json.loads(run("scan", tmp_path, "b", "--prefix", "-", "--json").out) == {"key": number, "value": "text"}
    assert run("delete", tmp_path, "b", number).code == 0
    assert run("get", tmp_path, "b", number).code == 1


def test_a_mistyped_option_beside_a_negative_number_is_named(tmp_path: Path) -> None:
    ran = run("put", tmp_path, "b", "k", "-5", "--tll", "7")
    assert (ran.code, "No such option: --tll" in ran.err) == (2, True), ran
    assert run("put", tmp_path, "b", "k", "--", "--tll").code == 0
    assert run("get", tmp_path, "b", "k").out == "--tll\n"
