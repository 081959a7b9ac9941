"""Latency of fdatasync from the histograms of nodes: as Prometheus counts it, and over the last minutes."""

from __future__ import annotations

from math import inf

import pytest

from kvwal.cluster.figures.quantiles import Bucket, quantile
from kvwal.console.figures.fsyncs import WINDOW_SECONDS, Fsyncs
from kvwal.node.health.metrics import Metrics

BOUNDS = (0.001, 0.01, 0.1, inf)


def buckets(*counts: int) -> list[Bucket]:
    """A histogram whose buckets have these counts of measurements."""
    return [(bound, sum(counts[: number + 1])) for number, bound in enumerate(BOUNDS)]


@pytest.mark.parametrize(
    ("counts", "share", "value"),
    [
        ((0, 0, 0, 0), 0.5, None),
        ((100, 0, 0, 0), 0.5, 0.0005),
        ((0, 100, 0, 0), 0.5, 0.0055),
        ((90, 9, 1, 0), 0.99, 0.01),
        ((0, 0, 0, 7), 0.99, 0.1),
    ],
)
def test_a_quantile_is_that_of_prometheus(counts: tuple[int, ...], share: float, value: float | None) -> None:
    found = quantile(buckets(*counts), share)
    assert found == (value if value is None else pytest.approx(value))


def test_the_histogram_is_that_of_the_metrics() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.003, 0.003, 7.0):
        metrics.synced(seconds)
    lines = [
        line for line in metrics.page({}, {}, {}).decode().splitlines() if line.startswith("kvwal_fsync_seconds_bucket")
    ]
    assert [int(float(line.rsplit(" ", 1)[1])) for line in lines] == [count for _, count in metrics.fsyncs()]
    assert metrics.fsyncs()[-1] == (inf, 4)


def test_a_disk_that_turns_slow_is_seen_after_a_month_of_quick_ones() -> None:
    fsyncs = Fsyncs()
    first = fsyncs.look("one", 1, 2_600_000.0, buckets(1_000_000, 0, 0, 0), 0.0)
    assert (first.fsyncs, first.within_seconds) == (1_000_000, 2_600_000.0)
    then = fsyncs.look("one", 1, 2_600_010.0, buckets(1_000_000, 0, 50, 0), 10.0)
    assert (then.fsyncs, then.within_seconds) == (50, 10.0)
    assert then.p50 == pytest.approx(0.055)
    now, slow = 10.0, 50
    while now < 4 * WINDOW_SECONDS:
        now += 10.0
        told = fsyncs.look("one", 1, 2_600_000.0 + now, buckets(1_000_000, 0, slow, 0), now)
    assert told.within_seconds == 2_600_000.0 + now  # nothing was written for a while: what is known since the start
    assert (
        fsyncs.look("one", 1, 2_600_000.0 + now, buckets(1_000_001, 0, slow, 0), now).within_seconds
        <= WINDOW_SECONDS + 10
    )


def test_a_restart_and_a_long_pause_begin_anew() -> None:
    fsyncs = Fsyncs()
    fsyncs.look("one", 1, 100.0, buckets(10, 0, 0, 0), 0.0)
    again = fsyncs.look("one", 2, 3.0, buckets(4, 0, 0, 0), 10.0)
    assert (again.fsyncs, again.within_seconds) == (4, 3.0)
    assert (again.p50, again.p99) == (pytest.approx(0.0005), pytest.approx(0.00099))
    later = fsyncs.look("one", 2, 9_003.0, buckets(6, 0, 0, 0), 9_000.0)
    assert (later.fsyncs, later.within_seconds) == (6, 9_003.0)
    fsyncs.keep([])
    assert fsyncs.look("one", 2, 9_013.0, buckets(7, 0, 0, 0), 9_010.0).fsyncs == 7
