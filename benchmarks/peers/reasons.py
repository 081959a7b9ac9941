"""Why kvwal misses a target beside a peer, by the workload and the peer. A test asks for a reason of each miss."""

from __future__ import annotations

REASONS: dict[str, str] = {}
"""By the row's name, or by its beginning, where the reason holds for all rows of the workload."""


def reason(row: str) -> str:
    """The reason with the longest name that the row's name begins with; empty if there is none."""
    found = [name for name in REASONS if row.startswith(name)]
    return REASONS[max(found, key=len)] if found else ""
