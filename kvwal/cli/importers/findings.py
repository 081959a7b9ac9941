"""What an import finds in the files of a log, on standard error: each place by file and offset."""

from __future__ import annotations

from pathlib import Path

import typer

from kvwal.cli import show
from kvwal.counted import counted

MOST_NAMED = 100
"""How many findings get a line. A log of which half is damaged has very many."""


class Findings:
    """The findings of one import. See `kvwal.importers.source.Report`."""

    def __init__(self) -> None:
        self.count = 0
        """Places that were not imported."""
        self._named = 0

    def damaged(self, path: Path, offset: int, end: int, what: str) -> None:
        """See `Report.damaged`."""
        self.count += 1
        where = f"bytes {offset:,} to {end:,} are" if end > offset else f"from byte {offset:,} on it is"
        self._say(f"{path}: {where} damaged and not imported: {what}.")

    def torn(self, path: Path, offset: int, what: str) -> None:
        """See `Report.torn`."""
        self._say(
            f"{path}: at byte {offset:,} a crash cut the last write short: {what}. Nothing that was done is missing."
        )

    def left_out(self, path: Path, offset: int, what: str) -> None:
        """See `Report.left_out`."""
        self.count += 1
        self._say(f"{path}: at byte {offset:,}: {what}; it is not imported.")

    def swapped_out(self, path: str) -> None:
        """A swap file of NiFi, whose records are not in its repository."""
        self.count += 1
        self._say(f"{path}: NiFi swapped records out to this file; they are not imported.")

    def end(self) -> None:
        """Say how many findings were not named. Raises `typer.Exit`, as for damage, if something was not imported."""
        if self._named > MOST_NAMED:
            show.note(f"kvwal: {counted(self._named - MOST_NAMED, 'more place', 'more places')} of this kind.")
        if self.count:
            raise typer.Exit(show.DAMAGED)

    def _say(self, text: str) -> None:
        self._named += 1
        if self._named <= MOST_NAMED:
            show.note(f"kvwal: {text}")
