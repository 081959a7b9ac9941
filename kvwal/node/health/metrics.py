"""Metrics of a node for Prometheus: gauges of its logs, and counters of the writes since its start."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from kvwal.cluster.figures.quantiles import Bucket
from kvwal.ports.clock import SYSTEM
from kvwal.prometheus import REST, FiguresOfQueues

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LEVELS = ("warning", "error")
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_PER_BUSINESS = {
    "last_sequence": "Entries written to the log so far.",
    "log_bytes": "Bytes of log that are kept.",
    "segments": "Segments that are kept.",
    "snapshot_sequence": "The last entry that a snapshot holds.",
    "checkpoint_age_seconds": "How long ago the last checkpoint was made; since the log was opened, if none was.",
    "archive_lag_entries": "Entries that the archive does not hold yet.",
    "archive_lag_seconds": "How long the oldest entry that the archive does not hold has waited for it.",
    "lost_tails": "Intervals on record in the archive of which a lost disk may have taken changes along, of all members.",
    "archive_requests": "Requests to the archive of jobs that succeeded since the log was opened.",
    "ring_slots": "Batches that wait for the log writer.",
    "ring_bytes": "Bytes that wait for the log writer.",
    "slowed": "The share of the time that writers wait, because archive and checkpoints do not keep up with them.",
    "slowed_seconds": "How long the log writer has waited for this reason since the log was opened.",
}
MOST = 50
"""Maps that have lines of their own: the largest. What a page costs, here and in Prometheus, must not grow with the maps."""
_SICK = ("failed", "archive_error", "maintenance", "damage")
_OLDEST = ("checkpoint_age_seconds", "archive_lag_seconds", "slowed")
"""Metrics whose greatest value stands for the rest of the maps. Of all other metrics it is the sum."""


class Metrics:
    """One node's registry, and the `LogMetrics` of its logs."""

    def __init__(self, volatile: Sequence[str] = ()) -> None:
        """`volatile` are the services without a log that the node's file allows."""
        self.started_ms = SYSTEM.wall_ms()
        """Since when they are counted (unix ms)."""
        self._registry = CollectorRegistry()
        services = self._gauge(
            "kvwal_volatile_service", "1 for a service without a log that clients may use.", "service"
        )
        for service in volatile:
            services.labels(service).set(1)
        self._certificate = self._gauge(
            "kvwal_certificate_days_left", "Days until the certificate of this node ends.", "file"
        )
        self._tokens = self._gauge(
            "kvwal_accepted_tokens", "Tokens of the file that count now: two while the token is changed.", "file"
        )
        self._token_failures = self._gauge(
            "kvwal_token_file_failing", "1 if the file cannot be used, and its earlier tokens count.", "file"
        )
        ProcessCollector(registry=self._registry)
        self._entries = Counter("kvwal_entries", "Entries that were written to the log.", registry=self._registry)
        self._refused = Counter(
            "kvwal_refused_writes", "Submissions that were not written, by error.", ["reason"], registry=self._registry
        )
        self._lines = Counter(
            "kvwal_log_lines", "Warnings and errors that this node has logged.", ["level"], registry=self._registry
        )
        for level in _LEVELS:
            self._lines.labels(level)
        self._group = self._histogram("kvwal_group_entries", "Entries written as one group.", _SIZES)
        self._bytes = Counter("kvwal_written_bytes", "Bytes that groups took in the log.", registry=self._registry)
        self._queued = self._histogram("kvwal_queue_seconds", "How long the first of a group waited.", _SECONDS)
        self._seconds = self._histogram("kvwal_group_seconds", "How long writing a group took.", _SECONDS)
        self._sync = self._histogram("kvwal_fsync_seconds", "How long an fdatasync took.", _SECONDS)

    def certificate(self, file: str, days_left: float) -> None:
        """Note how many days are left to the certificate of this node."""
        self._certificate.labels(file).set(days_left)

    def token_file(self, file: str, accepted: int, *, failing: bool) -> None:
        """Note how many tokens of a file count, and whether the file cannot be used at this moment."""
        self._tokens.labels(file).set(accepted)
        self._token_failures.labels(file).set(failing)

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        """See `LogMetrics.group`."""
        self._entries.inc(entries)
        self._bytes.inc(size)
        self._group.observe(entries)
        self._queued.observe(queued)
        self._seconds.observe(seconds)

    def synced(self, seconds: float) -> None:
        """See `LogMetrics.synced`."""
        self._sync.observe(seconds)

    def refused(self, reason: str, submissions: int) -> None:
        """See `LogMetrics.refused`."""
        self._refused.labels(reason).inc(submissions)

    def line(self, level: int) -> None:
        """Count a line of this node's log, by its level in the module `logging`."""
        if level >= logging.WARNING:
            self._lines.labels(_LEVELS[level >= logging.ERROR]).inc()

    def fsyncs(self) -> list[Bucket]:
        """The histogram of the fdatasyncs since the start."""
        samples = [sample for family in self._sync.collect() for sample in family.samples]
        return [(float(one.labels["le"]), int(one.value)) for one in samples if one.name.endswith("_bucket")]

    def written(self) -> int:
        """The number of entries written since the start."""
        return sum(_counted(self._entries, None).values())

    def refused_writes(self) -> dict[str, int]:
        """The number of submissions that were refused since the start, by error."""
        return _counted(self._refused, "reason")

    def lines(self) -> dict[str, int]:
        """The number of warnings and of errors in this node's log since the start."""
        return _counted(self._lines, "level")

    def page(
        self,
        gauges: dict[str, tuple[str, float]],
        businesses: dict[str, dict[str, Any]],
        maps: dict[str, tuple[int, int]],
    ) -> bytes:
        """All of it, as Prometheus reads it. `gauges`: by name, a help text and a value; `businesses`: their `stats`; `maps`: of
        each the entries in memory, and the bytes that these take. Of many businesses the largest and the sick are told one by
        one, the others together."""
        count = len(businesses)
        now = CollectorRegistry()
        now.register(FiguresOfQueues(partial(dict, businesses)))
        businesses = bounded(businesses)
        for name, (text, value) in gauges.items():
            Gauge(f"kvwal_{name}", text, registry=now).set(value)
        for name, text in _PER_BUSINESS.items():
            family = Gauge(f"kvwal_{name}", text, ["business"], registry=now)
            for business, stats in businesses.items():
                if stats[name] is not None:
                    family.labels(business).set(stats[name])
        failed = Gauge("kvwal_failed", "1 if the log takes no more writes.", ["business"], registry=now)
        damaged = Gauge(
            "kvwal_damaged", "1 if a job of the maintenance meets a damaged file or object.", ["business"], registry=now
        )
        reached = Gauge("kvwal_archive_up", "1 unless the last try to archive failed.", ["business"], registry=now)
        failing = Gauge(
            "kvwal_maintenance_failing",
            "Jobs whose last try failed: archive, checkpoint, sweep.",
            ["business"],
            registry=now,
        )
        for business, stats in businesses.items():
            failing.labels(business).set(len(stats["maintenance"]))
            failed.labels(business).set(stats["failed"] is not None)
            damaged.labels(business).set(stats["damage"] is not None)
            reached.labels(business).set(stats["archive_error"] is None)
        now_open = Gauge("kvwal_maps", "Maps that have a log here.", registry=now)
        now_open.set(count)
        entries = Gauge("kvwal_map_entries", "Entries in memory, copies of others' included.", ["map"], registry=now)
        bytes_ = Gauge("kvwal_map_bytes", "About what these take of the JVM's heap.", ["map"], registry=now)
        for name, (held, size) in maps.items():
            entries.labels(name).set(held)
            bytes_.labels(name).set(size)
        return generate_latest(self._registry) + generate_latest(now)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self._registry)


def _counted(counter: Counter, label: str | None) -> dict[str, int]:
    """The values of a counter by its label."""
    samples = [sample for family in counter.collect() for sample in family.samples if sample.name.endswith("_total")]
    return {sample.labels[label] if label else "": int(sample.value) for sample in samples}


class LineCount(logging.Handler):
    """A handler that counts the lines of a node's log."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        self._metrics.line(record.levelno)


def bounded(businesses: dict[str, dict[str, Any]], most: int = MOST) -> dict[str, dict[str, Any]]:
    """The `stats` of the `most` businesses with the largest logs, and of as many that have failed, or whose maintenance fails;
    those of all others as one, `REST`: what one of them suffers from, that one has.
    """
    if len(businesses) <= most:
        return businesses
    sick = [name for name, stats in businesses.items() if any(stats[what] for what in _SICK)]
    large = heapq.nlargest(most, businesses, key=lambda name: businesses[name]["log_bytes"])
    kept = dict.fromkeys([*large, *sick[:most]])
    rest = [stats for name, stats in businesses.items() if name not in kept]
    single = {name: businesses[name] for name in sorted(kept)}
    return single | {REST: _together(rest)} if rest else single


def _together(rest: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for name in _PER_BUSINESS:
        values = [each[name] for each in rest if each[name] is not None]
        fold: Callable[[list[Any]], Any] = max if name in _OLDEST else sum
        total[name] = fold(values) if values else None
    for name in _SICK:
        total[name] = next((each[name] for each in rest if each[name]), rest[0][name])
    return total
