"""Figures of an archive: what it holds of each log, and how old the newest object is."""

from __future__ import annotations

from kvwal.console.figures.rows import ArchivedRow, Figures
from kvwal.location.archived import ArchiveReader


def of_archive(archive: ArchiveReader) -> Figures:
    """The figures. The objects of each log are listed, and their footers read."""
    rows = [
        ArchivedRow(
            business, node, log["objects"], log["entries"], log["bytes"], log["last_sequence"], log["newest_object_ms"]
        )
        for business, nodes in archive.stats()["businesses"].items()
        for node, log in nodes.items()
    ]
    return Figures("archive", archived=rows)
