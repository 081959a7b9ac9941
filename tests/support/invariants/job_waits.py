"""No maintenance job waits longer than its interval and one run of each other job.

Three laws, none of which goes by how fast this machine is. They are looked at wherever a store ticks:
(1) while a job is due, each other job begins once at most; (2) the log's jobs are never idle while the archive lags by more than
the interval, or the log after the snapshot is as large as a checkpoint; (3) a job that has ended is not taken for one that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from kvwal.store.maintenance import Maintenance
from kvwal.store.scheduling.timetable import Timetable


class Passed:
    """The jobs that began while others were due, by timetable."""

    def __init__(self) -> None:
        self._passed: WeakKeyDictionary[Timetable, dict[str, Counter[str]]] = WeakKeyDictionary()

    def began(self, timetable: Timetable, due: set[str], name: str | None) -> Iterator[str]:
        """Of the jobs that were `due`, this one began. Yields the law that is broken."""
        passed = self._passed.setdefault(timetable, {})
        for gone in set(passed) - due:
            del passed[gone]
        if name is None:
            return
        passed.pop(name, None)
        for other in sorted(due - {name}):
            counts = passed.setdefault(other, Counter())
            counts[name] += 1
            if counts[name] > 1:
                yield f"the job {other} is due, and {name} began {counts[name]} times meanwhile"


def due_jobs(timetable: Timetable, now: float) -> set[str]:
    """The jobs of a timetable that are due."""
    return {name for name, row in timetable._rows.items() if row.is_due(now)}


class Idle:
    """What each log's maintenance leaves undone while it has nothing to do. `ticked` is to be called after each tick."""

    def __init__(self) -> None:
        self._last: WeakKeyDictionary[Maintenance, float] = WeakKeyDictionary()

    def ticked(self, maintenance: Maintenance) -> Iterator[str]:
        """Yields the laws that are broken."""
        now = maintenance._context.ports.clock.elapsed()
        since_tick = now - self._last.get(maintenance, now)
        self._last[maintenance] = now
        running = maintenance._running
        if running is not None:
            if running.done():
                yield "a maintenance job that has ended is taken for one that runs: no other one will begin"
            return
        if maintenance.log.writer.failed is None and maintenance._context.archive_url is not None:
            yield from self._archive(maintenance, since_tick)
        if maintenance.log.writer.failed is None:
            yield from self._checkpoint(maintenance)

    def _archive(self, maintenance: Maintenance, since_tick: float) -> Iterator[str]:
        context: Any = maintenance._context
        is_known = maintenance.archive_seen or maintenance.log.sealed
        if not is_known or "archive" in maintenance.failing.failures:
            return  # of a log that was opened again, and has nothing to archive, nobody knows how far the archive is
        lag, most = (
            maintenance.archive_lag_seconds(),
            context.settings.archive_seconds * context.archive_interval_factor(),
        )
        if lag > most + since_tick + 1:
            yield f"nothing runs, and the archive is {lag:.1f} s behind: its interval is {most} s"

    def _checkpoint(self, maintenance: Maintenance) -> Iterator[str]:
        size = maintenance._context.settings.checkpoint_bytes
        if "checkpoint" not in maintenance.failing.failures and maintenance._schedule.uncovered() >= size:
            yield f"nothing runs, and {maintenance._schedule.uncovered()} bytes of log wait for a checkpoint: it is due at {size}"
