"""Counts in sentences: 1 entry, 2,000 entries."""

from __future__ import annotations


def counted(count: int, one: str, many: str | None = None) -> str:
    """The count with its word. `many` is the word for any other number than 1: `one` with an s by default."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
