"""Behind each promise stands a test by its name, and behind each bug that was found."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.repository.source import ROOT, functions

TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
PROMISES = 8


@cache
def named_in(path: str) -> set[str]:
    """The names of the functions of a file; none if there is no such file."""
    file = ROOT / path
    return {function.name for function in functions(ast.parse(file.read_text()))} if file.is_file() else set()


def missing(text: str) -> list[str]:
    """What the text names that is not there."""
    return [
        f"{path}::{name}" if name else path
        for path, name in TEST.findall(text)
        if not named_in(path) or (name and name not in named_in(path))
    ]


def sections() -> dict[str, str]:
    """The text of each promise, by its number."""
    page = (ROOT / "docs" / "guarantees.md").read_text()
    return dict(re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))


def test_each_promise_names_tests_that_are_there() -> None:
    found = sections()
    assert list(found) == [str(number) for number in range(1, PROMISES + 1)]
    for number, text in found.items():
        assert any(name for _, name in TEST.findall(text)), f"promise {number} names no test"
        assert not missing(text)


def test_each_line_beside_flume_and_nifi_names_a_test_or_says_that_there_is_nothing() -> None:
    page = (ROOT / "docs" / "decisions" / "0100-beside-flume-and-nifi.md").read_text()
    rows = [line.strip("|").split(" | ") for line in page.splitlines() if re.match(r"\| (?!Flume|NiFi \|)", line)]
    assert len(rows) > 30
    for theirs, ours, tests in rows:
        assert theirs
        assert TEST.findall(tests) or "*Not here*" in ours, theirs
    assert not missing(page)


def test_each_bug_names_a_promise_and_a_test_that_is_there() -> None:
    rows = re.findall(r"^\| (?!what happened|-)(.*) \|$", (ROOT / "docs" / "bugs.md").read_text(), re.MULTILINE)
    assert rows
    for row in rows:
        what, promise, test = row.split(" | ")
        assert promise == "-" or all(1 <= int(part) <= PROMISES for part in promise.split(", ")), row
        assert what
        named = TEST.findall(test)
        assert named, row
        assert all(name for _, name in named), row
        assert not missing(test)
