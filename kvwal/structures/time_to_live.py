"""Times to live, as callers give them, and when what lives so long expires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias

from kvwal.errors import CodecError

MOST_SECONDS = 1000 * 365 * 86400.0
"""The longest time to live."""
TimeToLive: TypeAlias = float | timedelta
"""A time to live: seconds, or a `timedelta`."""


def expiry_of(ttl: Any, now_ms: int) -> int:
    """When what is put at `now_ms` expires (unix ms). Raises `CodecError` if `ttl` is no time to live."""
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if not (isinstance(seconds, int | float) and type(seconds) is not bool and 0 < seconds <= MOST_SECONDS):
        raise CodecError(
            f"ttl={ttl!r} must be a number of seconds above 0 and below a thousand years, or a timedelta of that length."
        )
    return now_ms + max(1, round(seconds * 1000))
