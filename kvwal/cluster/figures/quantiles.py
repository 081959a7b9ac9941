"""Quantiles of histograms, as Prometheus counts them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

Bucket = tuple[float, int]
"""Of a histogram: an upper bound in seconds, and how many measurements were at most that."""


def quantile(buckets: Sequence[Bucket], share: float) -> float | None:
    """The value below which this share of the measurements lies, in seconds; None without a measurement.

    Inside of a bucket they count as evenly spread, as in Prometheus. Of those beyond the last bound only that bound is known.
    """
    total = buckets[-1][1] if buckets else 0
    if not total:
        return None
    low, before = 0.0, 0
    for high, count in buckets:
        if count >= share * total:
            return low if high == inf else low + (high - low) * (share * total - before) / max(1, count - before)
        low, before = high, count
    return low


def since(earlier: Sequence[Bucket], now: Sequence[Bucket]) -> list[Bucket]:
    """The histogram of what was measured between two of them of the same process."""
    counts = dict(earlier)
    return [(bound, count - counts.get(bound, 0)) for bound, count in now]
