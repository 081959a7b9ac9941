"""Latency of fdatasync over the last minutes: nodes tell it since their start, and a month would hide what a disk does now."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kvwal.cluster.figures.quantiles import Bucket, quantile, since

WINDOW_SECONDS = 300.0
_PAUSE_SECONDS = 5.0
"""The least time between two samples of a node."""


class Latency(NamedTuple):
    """The number of fdatasyncs within some seconds, and how long the half of them, and 99 of 100, took at most, in seconds."""

    fsyncs: int
    within_seconds: float
    p50: float | None
    p99: float | None


class Fsyncs:
    """Samples of the histograms of nodes. Not for several threads at once.

    The first look at a node shows its latency since its start, later ones that since the first look, and that of `WINDOW_SECONDS`
    at most.
    """

    def __init__(self) -> None:
        self._samples: dict[str, tuple[int, deque[tuple[float, list[Bucket]]]]] = {}

    def look(self, node: str, started_ms: int, running_seconds: float, buckets: list[Bucket], now: float) -> Latency:
        """Take a sample at the moment `now`, of a node that has been running for some seconds."""
        known = self._samples.get(node)
        samples = known[1] if known is not None and known[0] == started_ms else deque[tuple[float, list[Bucket]]]()
        self._samples[node] = started_ms, samples
        while len(samples) > 1 and now - samples[1][0] >= WINDOW_SECONDS:
            samples.popleft()
        if not samples or now - samples[0][0] > 2 * WINDOW_SECONDS:  # nobody looked meanwhile
            samples.clear()
            told = _latency(buckets, running_seconds)
        else:
            told = _latency(since(samples[0][1], buckets), now - samples[0][0])
        if told.fsyncs == 0:
            told = _latency(buckets, running_seconds)
        if not samples or now - samples[-1][0] >= _PAUSE_SECONDS:
            samples.append((now, buckets))
        return told

    def keep(self, nodes: Sequence[str]) -> None:
        """Forget all other nodes."""
        self._samples = {name: self._samples[name] for name in nodes if name in self._samples}


def _latency(buckets: Sequence[Bucket], seconds: float) -> Latency:
    return Latency(buckets[-1][1] if buckets else 0, seconds, quantile(buckets, 0.5), quantile(buckets, 0.99))
