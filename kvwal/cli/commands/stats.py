"""kvwal stats: the figures of each log, and the space on the disk."""

from __future__ import annotations

from typing import Any

from kvwal.cli import show
from kvwal.cli.options import Json, LogSelection
from kvwal.cli.tables import print_table


def stats(selection: LogSelection, json: Json = False) -> None:
    """Print the figures of each log, the position of its snapshot, and the space on the disk."""
    selection.logs()
    with selection.open(read_only=True) as store:
        figures = store.stats()
    if json:
        show.json_line(figures)
    else:
        print_table(["", ""], flattened(figures))


def flattened(figures: dict[str, Any], above: str = "") -> list[tuple[str, Any]]:
    """Nested figures as rows, each named by its path with dots."""
    rows: list[tuple[str, Any]] = []
    for name, value in figures.items():
        if isinstance(value, dict):
            rows += flattened(value, f"{above}{name}.")
        else:
            rows.append((f"{above}{name}", value))
    return rows
