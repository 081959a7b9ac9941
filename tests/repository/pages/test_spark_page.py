"""docs/spark.md types what there is: services of docker-compose.yml, programs of examples/, commands of kvwal, SQL that runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.repository.pages.test_cli_docs import BLOCK, commands
from tests.repository.source import ROOT
from tests.support.cli import kvwal
from tests.support.deploy import compose

PAGE = ROOT / "docs" / "spark.md"
CLUSTER = "kvwal://node-1:5701"


def typed() -> list[list[str]]:
    """The words of each line that the page types; a line that ends in a backslash, or within quotes, goes on in the next."""
    found = []
    for block in BLOCK.findall(PAGE.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.split("\n")
            text = lines.pop(0)
            while text.endswith("\\") or text.count('"') % 2:
                text = text.removesuffix("\\") + "\n" + lines.pop(0)
            found.append(shlex.split(text, comments=True))
    return found


def of_kvwal() -> list[list[str]]:
    """What the page types to kvwal in the recorder's container, from the command on."""
    start = ["docker", "compose", "exec", "recorder", "kvwal"]
    return [words[len(start) :] for words in typed() if words[: len(start)] == start]


def test_every_service_that_is_typed_is_one_of_the_compose_file() -> None:
    services = compose.load(compose.filled())["services"]
    named = [words for words in typed() if words[:2] == ["docker", "compose"] and words[2] in {"run", "exec", "logs"}]
    assert named
    for words in named:
        assert next(word for word in words[3:] if not word.startswith("-")) in services, words


def test_every_program_that_is_submitted_is_there() -> None:
    programs = {word for words in typed() if "submit" in words for word in words if word.endswith(".py")}
    assert programs == {"examples/flights/app.py", "examples/orders.py"}
    assert all((ROOT / program).is_file() for program in programs)


def test_every_command_of_kvwal_is_understood_and_its_sql_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "tests" / "golden" / "event-log", "event-log")
    names = ["--cluster", "kvwal", "--namespace", "spark"]
    assert kvwal("record", "data", "event-log", *names).code == 0
    asked = of_kvwal()
    assert {words[0] for words in asked} == {"jobs", "query", "history", "put"}
    for words in asked:
        assert f"kvwal {words[0]}" in commands()
        assert words[1] == CLUSTER
        assert words[-4:] == names
        known = set(re.findall(r"--[a-z-]+", kvwal(words[0], "--help").out))
        assert {word for word in words if word.startswith("--")} <= known
        if words[0] == "query":
            ran = kvwal("query", "data", *words[2:])
            assert ran.code == 0, ran.err
