"""The record cache of a projection: changed records, and those used last. All other records stay in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from kvwal.spark import records as rec
from kvwal.spark.projection import plans, task_statistics
from kvwal.spark.records.unknown_fields import has_unknown_fields, with_unknown_fields

R = TypeVar("R", bound=rec.Record)

MAX_CACHED = 512
"""Unchanged records that stay in the cache after a transaction."""


class RecordCache:
    """Records by key. `load(key)` gives the stored object, or None, of a key that is not in the cache.

    `pending` estimates the bytes of the next transaction. `touch` adds the size of a record once; the projection adds the size of
    task failures that come later. `drop` subtracts nothing, so `pending` may be too large.

    Fields that a newer version stored, and this version does not know, stay in the records that are stored again.
    """

    def __init__(self, load: Callable[[str], Any]) -> None:
        self.pending = 0
        self._load = load
        self._records: dict[str, rec.Record] = {}
        self._changed: set[str] = set()
        self._unknown_fields: dict[
            str, dict[str, Any]
        ] = {}  # stored objects with unknown fields, of records in the cache
        self._dropped: set[str] = set()

    def fetch(self, key: str, kind: type[R]) -> R | None:
        """The record, or None. A caller that changes it calls `touch`."""
        record = self._records.pop(key, None)
        if record is None and key in self._dropped:
            return None
        if record is None:
            value = self._load(key)
            if value is None:
                return None
            record = rec.from_value(value)
            if has_unknown_fields(value, type(record)):
                self._unknown_fields[key] = value
        self._records[key] = record  # the dict is in order of use, the last used record last
        return cast(R, record)

    def add(self, key: str, record: R) -> R:
        """Add a record, or replace it, and mark it as changed."""
        self._records.pop(key, None)
        self._dropped.discard(key)
        self._records[key] = record
        self.touch(key)
        return record

    def edit(self, key: str, kind: type[R]) -> R:
        """The record, created if it is missing, marked as changed."""
        record = self.fetch(key, kind)
        if record is None:
            return self.add(key, kind())
        self.touch(key)
        return record

    def touch(self, key: str) -> None:
        """Mark a record of the cache as changed."""
        if key not in self._changed:
            self._changed.add(key)
            self.pending += _approximate_size(self._records[key])

    def drop(self, key: str) -> None:
        """Remove a record from the cache, and list its key for `take_dropped`: the caller deletes it in the store."""
        self._records.pop(key, None)
        self._changed.discard(key)
        self._dropped.add(key)

    def take_dropped(self) -> list[str]:
        """The keys of the records that were dropped since the last call. The caller deletes them in the transaction of `take`."""
        dropped, self._dropped = sorted(self._dropped), set()
        return dropped

    def take(self) -> dict[str, Any]:
        """The changed records, as stored objects by key.

        Completes derived fields (statistics, totals, core time), and evicts the least recently used records. Afterwards no record
        is marked as changed. The caller stores the result before its next `fetch`: a changed record may have been evicted.
        """
        changed = {key: self._records[key] for key in sorted(self._changed)}
        for record in changed.values():
            if isinstance(record, rec.Stage):
                task_statistics.summarise(record)
            elif isinstance(record, rec.Sql):
                plans.total_accesses(record)
            elif isinstance(record, rec.Application):
                record.core_ms = max(0, record.cores * (record.ended or record.last_event) - record.core_offset_ms)
        self._changed.clear()
        self.pending = 0
        for key in list(self._records)[: max(0, len(self._records) - MAX_CACHED)]:
            del self._records[key]
        values = {key: rec.to_value(record) for key, record in changed.items()}
        unknown = self._unknown_fields
        for key in unknown.keys() & values.keys():
            values[key] = unknown[key] = with_unknown_fields(values[key], unknown[key], type(changed[key]))
        self._unknown_fields = {key: value for key, value in unknown.items() if key in self._records}
        return values


def _approximate_size(record: rec.Record) -> int:
    """Approximate bytes of JSON, exact enough to bound a transaction."""
    if isinstance(record, rec.Sql):
        return 2_000 + len(record.plan) + 100 * len(record.nodes) + 150 * len(record.metrics) + 8 * len(record.jobs)
    if isinstance(record, rec.Stage):
        failures = sum(len(failure.stack) + len(failure.message) + 200 for failure in record.failures)
        buckets = len(record.buckets) + _buckets(record.histograms)
        metrics = record.sql_metrics or rec.StageMetrics()
        counted = 20 * sum(map(len, (metrics.totals, *metrics.unsuccessful.values())))
        ranges = 30 * (len(record.seen) + len(record.resubmitted) + len(metrics.unsuccessful))
        return 2_500 + 12 * buckets + 300 * len(record.accumulators) + ranges + counted + failures
    if isinstance(record, rec.Job):
        numbers, accesses = len(record.stages) + len(record.ran), len(record.reads) + len(record.writes)
        return 2_000 + 8 * numbers + 200 * accesses + (rec.MAX_STACK if record.error else 0)
    return 2_000


def _buckets(histograms: rec.Histograms | None) -> int:
    """The buckets of all histograms of a stage."""
    if histograms is None:
        return 0
    each: list[rec.Histogram | None] = [getattr(histograms, name) for name in rec.TaskQuantiles.__struct_fields__]
    return sum(len(histogram.buckets) for histogram in each if histogram is not None)
