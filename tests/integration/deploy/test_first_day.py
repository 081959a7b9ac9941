"""The README's first screens and the day of docs/spark.md, typed line by line in a fresh clone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deploy.clone import clone
from tests.support.deploy.terminal import Terminal, Typed, pattern, plain, typed

OF_THE_RUN = ("MAKE", "MFLAGS", "PYTEST", "PYTHONPATH", "PYSPARK", "VIRTUAL_ENV", "KVWAL")
"""Variables that begin so come from the run of the tests. A new terminal does not have them."""
EVENT_LOGS = ("/var/log/spark-events", "tests/golden/event-log")
"""What the README names for logs of the reader's own, and the logs that are read instead."""


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clone, whose files are not those of a store: so it is not in the test's own folder, whose files must have an owner."""
    return clone(tmp_path_factory.mktemp("first-day") / "clone")


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    """In the clone, with neither its environment activated nor a variable of this run."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(OF_THE_RUN)}
    opened = Terminal(folder, {**variables, "TERM": "dumb", "TZ": "Asia/Kolkata"})
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.long
def test_the_first_screens_of_the_readme_do_what_they_say(folder: Path, terminal: Terminal) -> None:
    readme = (folder / "README.md").read_text().partition("\n## How fast\n")[0]
    (excerpt,) = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    terminal.type(Typed("console", ". .venv/bin/activate", ""))
    lines = list(typed(readme))
    assert [line.language for line in lines[:1]] == ["python"]
    for line in lines:
        if line.text.startswith("make test "):  # it would run this test
            continue
        printed = terminal.type(line._replace(text=line.text.replace(*EVENT_LOGS)))
        if line.text.startswith("make run "):
            assert re.search(pattern(without_numbers(excerpt)), without_numbers(printed)), printed


def without_numbers(text: str) -> str:
    """The text with a word for each number but 0: what a demonstration finds lost, or different, has to be 0."""
    return re.sub(r"\b(?!0(?![\d,.]*\d))\d[\d,.]*", "NUMBER", plain(text, []))


@pytest.mark.long
def test_a_day_with_spark_goes_as_the_page_says(folder: Path, terminal: Terminal) -> None:
    day, containers, _ = (folder / "docs" / "spark.md").read_text().partition("\n## The same day in containers\n")
    assert containers
    for line in typed(day):
        terminal.type(line)
