"""Small stores with files of known ranges, for what looks at them, damages them and repairs them."""

from __future__ import annotations

from pathlib import Path

from kvwal.store import WritableStore
from tests.support.archiver import InProcess
from tests.support.faults import make_options

EACH = 3
"""Entries of a segment."""


def open_with_archiver(root: Path, archive: Path | None) -> WritableStore:
    """A store whose archiver works in this process."""
    return WritableStore(make_options(root, archive=archive, start_archiver=lambda: InProcess("")))


def fill_segments(
    root: Path, *, segments: int, archived: int, checkpointed: int = 0, archive: Path | None = None
) -> dict[str, int]:
    """The business `b` in segments of three puts each, one a transaction, closed. Of the first `archived` the archive has an
    object each; the first `checkpointed` of them are in a snapshot. Returns what the map holds: `key-N` is N.
    """
    held = {}
    for number in range(segments):
        store = open_with_archiver(root, (archive or root / "_archive") if number < archived else None)
        b = store.map("b")
        for sequence in range(EACH * number + 1, EACH * (number + 1) + 1):
            b[f"key-{sequence}"] = held[f"key-{sequence}"] = sequence
        if number < archived:
            store.archive()
        if number + 1 == checkpointed:
            store.checkpoint()
        store.close(archive=False)
    return held
