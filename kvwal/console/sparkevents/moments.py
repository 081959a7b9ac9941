"""Moments as Spark's REST API writes them: `2015-02-03T16:43:08.731GMT`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last one that can be written so."""
_LEAST = -_MOST // 8
"""In the tenth century: an earlier moment is a mistake, too."""
_ENDS = [f".{rest:03}GMT" for rest in range(1_000)]
"""The ends of moments by their milliseconds. An answer has hundreds of thousands of them."""


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]  # without the zone


def moment_text(ms: int) -> str:
    """A moment in Unix milliseconds as Spark writes it; -1 is Spark's sign of one that is not known."""
    if not _LEAST <= ms <= _MOST:
        ms = max(_LEAST, min(ms, _MOST))
    return _second(ms // 1_000) + _ENDS[ms % 1_000]


def known_moment(ms: int | None) -> str | msgspec.UnsetType:
    """A moment, left out if there is none."""
    return msgspec.UNSET if ms is None else moment_text(ms)
