"""The metrics of a follower in Prometheus' text format."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from kvwal.spark.follower.status import FollowerStatus, RoundCounts

_STATES = ("complete", "growing", "skipped", "stopped_early", "elsewhere")


class FollowerMetrics:
    """The Prometheus page of one follower."""

    def __init__(self, status: FollowerStatus) -> None:
        self._status = status
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(_Counters(status))

    def page(self) -> bytes:
        """The Prometheus page, as of now."""
        now = CollectorRegistry()
        gauges = {
            "lag_seconds": "How long ago the last whole round began: what was written before is recorded.",
            "waiting": "1 if the follower waits for its store or for the storage of the logs.",
        }
        values = {"lag_seconds": self._status.lag(), "waiting": float(self._status.waiting is not None)}
        for name, text in gauges.items():
            _gauge(now, name, text).set(values[name])
        if self._status.last is not None:
            _round(now, self._status.last)
        return generate_latest(self._registry) + generate_latest(now)


class _Counters(Collector):
    """Counters since the follower's start."""

    def __init__(self, status: FollowerStatus) -> None:
        self._status = status

    def collect(self) -> list[CounterMetricFamily]:
        """See `Collector`."""
        status = self._status
        counters = {
            "rounds": ("Rounds that ended.", status.rounds),
            "read_bytes": ("Bytes of event logs that were read, decompressed.", status.bytes),
            "events": ("Lines of event logs that were recorded.", status.events),
            "log_reads": ("Times that a log was read on.", status.logs_read),
            "kept_logs": ("Times that a log was kept.", status.logs_kept),
            "troubles": ("Times that the store, or the storage of the logs, did not answer or refused.", status.troubles),
        }  # fmt: skip
        return [
            CounterMetricFamily(f"kvwal_follower_{name}", text, value=value) for name, (text, value) in counters.items()
        ]


def _round(registry: CollectorRegistry, counts: RoundCounts) -> None:
    gauges = {
        "round_seconds": ("How long the last round took.", counts.seconds),
        "applications": ("Applications whose logs the last round saw.", len(counts.applications)),
        "damaged_lines": ("Damaged lines of these logs.", counts.damaged),
        "readers": ("Logs that grow and are kept open in memory.", counts.readers),
    }  # fmt: skip
    for name, (text, value) in gauges.items():
        _gauge(registry, name, text).set(value)
    logs = Gauge("kvwal_follower_logs", "Logs that the last round saw, by state.", ["state"], registry=registry)
    for state in _STATES:
        logs.labels(state).set(getattr(counts, state))


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(f"kvwal_follower_{name}", text, registry=registry)
