"""kvwal stats: the figures of each log, and the space on the disk."""

from __future__ import annotations

from typing import Any

from kvwal.cli import show
from kvwal.cli.locations import StoreSelection
from kvwal.cli.options import Json
from kvwal.cli.tables import print_table


def stats(selection: StoreSelection, json: Json = False) -> None:
    """Print the figures of each log and the space on the disk; of a cluster, its members and its maps."""
    selection.check_there()
    with selection.reader() as store:
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
