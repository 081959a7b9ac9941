"""docs/mistakes.md as rows: what was typed, what is said, and how it ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.repository.source import ROOT

PAGE = ROOT / "docs" / "mistakes.md"
_CELL = re.compile(r"(?<!\\)\|")
PYTHON = "In Python"
"""The section whose rows are statements of Python, and whose last column is an exception."""


class Row(NamedTuple):
    """A row of a table. `ends` is an exit code, or the name of an exception."""

    section: str
    typed: str
    says: str
    ends: str

    def is_said_by(self, text: str) -> bool:
        """Whether the text is the sentence of the row, in which `…` stands for what differs."""
        parts = (r"\s+".join(map(re.escape, part.split(" "))) for part in self.says.split("…"))
        return re.fullmatch(".*?".join(parts), " ".join(text.split()), re.DOTALL) is not None


def rows() -> Iterator[Row]:
    """The rows of all tables of the page, in order."""
    section = ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        if not section or not line.startswith("| `"):
            continue
        typed, says, ends = (cell.strip().replace(r"\|", "|") for cell in _CELL.split(line)[1:-1])
        yield Row(section, typed.strip("`"), "" if says == "(nothing)" else says, ends)
