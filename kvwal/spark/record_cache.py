"""The records at hand: those that changed, and those used lately. The rest stay in the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from kvwal.spark import plans, tasks
from kvwal.spark import records as rec

R = TypeVar("R", bound=rec.Record)

CACHED = 512


class RecordCache:
    """Records by key, fetched with `load(key)` (a stored object or None) when they are not at hand.

    `pending` is roughly how many bytes `take` would give.
    """

    def __init__(self, load: Callable[[str], Any]) -> None:
        self.pending = 0
        self._load = load
        self._records: dict[str, rec.Record] = {}
        self._changed: set[str] = set()

    def fetch(self, key: str, kind: type[R]) -> R | None:
        """The record, if there is one. Who changes it says so with `touch`."""
        record = self._records.pop(key, None)
        if record is None:
            value = self._load(key)
            if value is None:
                return None
            record = rec.from_value(value)
        self._records[key] = record  # the most recently used stand last
        return cast(R, record)

    def add(self, key: str, record: R) -> R:
        """Hold a new record, or one that replaces another."""
        self._records.pop(key, None)
        self._records[key] = record
        self.touch(key)
        return record

    def edit(self, key: str, kind: type[R]) -> R:
        """The record, new if need be, which the caller is about to change."""
        record = self.fetch(key, kind)
        if record is None:
            return self.add(key, kind())
        self.touch(key)
        return record

    def touch(self, key: str) -> None:
        """The record at hand has changed, or is about to."""
        if key not in self._changed:
            self._changed.add(key)
            self.pending += _rough_size(self._records[key])

    def take(self) -> dict[str, Any]:
        """What changed, as stored objects by key. The caller stores them before anything else is fetched."""
        changed = {key: self._records[key] for key in sorted(self._changed)}
        for record in changed.values():
            if isinstance(record, rec.Stage):
                tasks.summarise(record)
            elif isinstance(record, rec.Sql):
                plans.total_accesses(record)
        self._changed.clear()
        self.pending = 0
        for key in list(self._records)[: max(0, len(self._records) - CACHED)]:
            del self._records[key]
        return {key: rec.to_value(record) for key, record in changed.items()}


def _rough_size(record: rec.Record) -> int:
    """About how many bytes of JSON: enough to keep a transaction small."""
    if isinstance(record, rec.Sql):
        return 2_000 + len(record.plan) + 150 * len(record.metrics) + 8 * len(record.jobs)
    if isinstance(record, rec.Stage):
        failures = sum(len(failure.stack) + len(failure.message) + 200 for failure in record.failures)
        return 2_000 + 12 * len(record.buckets) + 30 * len(record.seen) + failures
    if isinstance(record, rec.Job):
        return 2_000 + 8 * (len(record.stages) + len(record.ran)) + (rec.MAX_STACK if record.error else 0)
    return 2_000
