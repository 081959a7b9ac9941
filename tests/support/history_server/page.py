"""The table in docs/spark-metadata.md of the fields of the History Server's REST API that no record holds.

`python -m tests.support.history_server.page` writes it into the page.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.repository.source import ROOT
from tests.support.history_server import fields

PAGE = ROOT / "docs" / "spark-metadata.md"
HEAD = "| answer | fields without a value of a record | why |\n|---|---|---|\n"


def table() -> str:
    """The table: a row for each reason within each answer."""
    return HEAD + "".join(_rows())


def written() -> str:
    """The text of the page with the table as it has to be."""
    before, _, rest = PAGE.read_text().partition(HEAD)
    _, _, after = rest.partition("\n\n")
    return f"{before}{table()}\n{after}"


def _rows() -> Iterator[str]:
    for answer, known in fields.TABLES.items():
        by_reason: dict[str, list[str]] = {}
        for field, value in known.items():
            if isinstance(value, str):
                by_reason.setdefault(value, []).append(f"`{field}`")
        for reason, names in by_reason.items():
            yield f"| {answer} | {', '.join(names)} | {reason} |\n"


if __name__ == "__main__":
    PAGE.write_text(written())
