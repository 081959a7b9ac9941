"""docs/cli.md has a heading and a run example for every command, and what it shows is what the commands print.

The console blocks of the page are one session in a folder that has nothing but a Spark event log, logs of three other products,
and events of OpenLineage. `…` stands for anything on its line; times and timestamps may be any; `$ echo $?` shows the exit code
of the command before it.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest
import typer.main

from kvwal.cli.app import app_for
from tests.repository.source import ROOT
from tests.support.cli import Ran, kvwal

PAGE = ROOT / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z(?:\+\d+)?")
TIMESTAMP = re.compile(r"\b1\d{17}\b")


class Example(NamedTuple):
    """A line that was typed, and what the page says it printed."""

    typed: str
    printed: str


def commands() -> dict[str, str]:
    """Every command's full name and its help."""
    found: dict[str, str] = {}
    pending = [("kvwal", typer.main.get_command(app_for([])))]
    while pending:
        name, command = pending.pop()
        below = getattr(command, "commands", None)
        if below is None:
            found[name] = command.help or ""
        else:
            pending += [(f"{name} {part}", inner) for part, inner in below.items()]
    return found


def examples(page: str) -> Iterator[Example]:
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            typed, _, printed = part.partition("\n")
            yield Example(typed, printed)


def pattern(printed: str) -> str:
    """A regular expression for what may be printed instead: columns may be wider or narrower where times or … stand in them."""
    text = TIMESTAMP.sub("\0stamp\0", TIME.sub("\0time\0", printed.strip("\n")))
    text = re.escape(text).replace("\\\0", "\0").replace("\\\n", "\n").replace("…", ".*?")
    text = re.sub(r"(?:\\ )+", r" +", text)
    return text.replace("\0time\0", TIME.pattern).replace("\0stamp\0", TIMESTAMP.pattern) + r"\s*"


def test_every_command_has_help_and_a_heading_with_an_example() -> None:
    page = PAGE.read_text()
    sections = dict(re.findall(r"^## (kvwal [a-z ]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert not [name for name, text in commands().items() if not text]
    assert set(sections) == set(commands())
    assert not [name for name, text in sections.items() if f"$ {name} " not in text]


def test_what_holds_keys_is_a_map_in_every_help() -> None:
    """A business is the log of a map, and a name in outputs and options: nobody needs the word to type a command. But of a queue
    and of contents: they are named by their business, which is the boundary of their transactions.
    """
    named = {name for name in commands() if "business" in kvwal(*name.split()[1:], "--help").out.lower()}
    assert {
        name for name in named if not name.startswith(("kvwal queue ", "kvwal content ", "kvwal import flume"))
    } == set()


def test_the_version_is_that_of_the_package() -> None:
    assert kvwal("--version") == Ran(0, f"kvwal {version('kvwal')}\n", "")
    assert "`kvwal --version`" in PAGE.read_text()


def test_the_examples_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    shutil.copytree(ROOT / "tests" / "golden" / "event-log", "event-log")
    for name, log in (("imap", "seatunnel"), ("channel", "flume"), ("flowfile_repository", "nifi-sequential")):
        shutil.copytree(ROOT / "tests" / "golden" / "importers" / log, name)
    shutil.copy(ROOT / "tests" / "golden" / "openlineage" / "spark-4.3.jsonl", "events.jsonl")
    code = 0
    for example in examples(PAGE.read_text()):
        if example.typed == "echo $?":
            assert example.printed.strip() == str(code)
            continue
        program, *arguments = shlex.split(example.typed)
        assert program == "kvwal"
        ran = kvwal(*arguments)
        code = ran.code
        printed = "\n".join(line.rstrip() for line in (ran.out + ran.err).splitlines()).strip("\n")
        assert re.fullmatch(pattern(example.printed), printed), (
            f"$ {example.typed}\n{printed}\n--- the page says\n{example.printed}"
        )
