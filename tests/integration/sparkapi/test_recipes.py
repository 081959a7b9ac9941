"""The `curl` and `jq` recipes of docs/history-server.md, and its fields for dashboards, asked of a console over a kept log."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.repository.source import ROOT
from tests.support.spark_api.comparison import ask
from tests.support.spark_api.measured import recorded

LOGS = ROOT / "tests" / "golden" / "event-log"
APP = "local-1795237371242"
PAGE = (ROOT / "docs" / "history-server.md").read_text()
RECIPES = re.findall(r"^curl -s \"\$URL/applications.*$", PAGE, re.MULTILINE)
PANELS = re.findall(r"^\| [^|]+ \| `/(applications[^`]*)` \| (`\$.*`) \|$", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with recorded(tmp_path_factory.mktemp("recipes") / "root", LOGS) as running:
        yield running


@pytest.mark.skipif(shutil.which("jq") is None or shutil.which("curl") is None, reason="needs curl and jq")
def test_each_recipe_prints_rows(url: str) -> None:
    assert len(RECIPES) == 7
    for recipe in RECIPES:
        ran = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {recipe}"], env={**os.environ, "URL": f"{url}/api/v1", "APP": APP},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (0, ""), recipe
        assert ran.stdout.strip(), recipe
        assert all("\t" in line for line in ran.stdout.splitlines()), recipe


def test_each_field_of_a_panel_has_a_value_in_each_row(url: str) -> None:
    paths = [path for _, fields in PANELS for path in re.findall(r"`([^`]+)`", fields)]
    assert len(PANELS) == 6
    assert f"these {len(paths)} fields" in PAGE
    for question, fields in PANELS:
        answer = ask(url, question.replace("${app}", APP))
        assert answer.body, question
        for path in re.findall(r"`([^`]+)`", fields):
            assert None not in [taken(row, path.removeprefix("$[*].")) for row in answer.body], (question, path)


def taken(row: Any, path: str) -> Any:
    """What a JSONPath of names and places takes from a row."""
    for name, place in re.findall(r"(\w+)(?:\[(\d+)\])?", path):
        row = row[name][int(place)] if place else row[name]
    return row
