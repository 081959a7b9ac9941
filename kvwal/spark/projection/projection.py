"""The projection of one application: events in, changed records out. It uses no files, no store and no clock.

An event may come twice and counts once: a job that has begun does not begin again, and a task's attempt is counted by its
number (`task_statistics.first_time`). So a log may be read again, in part or from a compacted copy, and the records stay the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.spark import records as rec
from kvwal.spark.events.parser import Event
from kvwal.spark.events.tasks import TaskEnd
from kvwal.spark.projection import application, executors, jobs, sql, storage, streaming
from kvwal.spark.projection.state import Handler, ProjectionState
from kvwal.spark.record_keys import damage_key
from kvwal.spark.redaction import Redaction, applied

_HANDLERS: dict[type, Handler] = {
    **application.HANDLERS, **executors.HANDLERS, **jobs.HANDLERS, **sql.HANDLERS, **storage.HANDLERS,
    **streaming.HANDLERS
}  # fmt: skip


class Projection:
    """The records of one application, as far as its events were applied.

    `load(key)` gives a stored object or None. `log` is the last part of the position's key: a live recorder and the event
    logs of one application each have a position of their own.
    """

    def __init__(self, prefix: str, load: Callable[[str], Any], *, log: str = "log") -> None:
        self.prefix = prefix
        self._state = ProjectionState(prefix, load, log=log)

    @property
    def position(self) -> rec.EventLogPosition:
        """The position in the log."""
        return self._state.position

    @property
    def pending(self) -> int:
        """Approximate bytes of the transaction that `take` would return."""
        return self._state.cache.pending

    def redact_by(self, rules: Redaction) -> None:
        """Redact by these rules, until an event brings the application's settings."""
        self._state.redaction = rules

    def moved(self, roll: int, event: int, lines: int, path: str) -> None:
        """Record that the log was read up to the `event`-th line of file `roll`; `lines` is their number since the last call."""
        position = self.position
        position.roll, position.event, position.path = roll, event, path
        position.events += lines

    def damaged(self, damage: rec.Damage) -> None:
        """Record a damaged line, once."""
        key = damage_key(self.prefix, damage.roll, damage.event)
        if self._state.cache.fetch(key, rec.Damage) is None:
            self._state.cache.add(key, damage)
            self.position.damaged += 1
            self._state.app().damaged += 1

    def apply(self, event: Event, size: int) -> None:
        """Apply an event to the records. `size` is the length of its line in bytes."""
        state = self._state
        if not isinstance(event, TaskEnd):
            state.cache.pending += size
            sql.record_metrics(state)
        with applied(state.redaction):
            _HANDLERS[type(event)](state, event)

    def take_dropped(self) -> list[str]:
        """The keys of the records of batches that are no longer kept. The caller deletes them in the transaction of `take`."""
        return self._state.cache.take_dropped()

    @property
    def has_waiting_metrics(self) -> bool:
        """Whether stages have counted metrics that the records of SQL executions lack: `take` was told to leave them out."""
        return bool(self._state.metrics_of_stages)

    def take(self, *, metrics: bool = True) -> dict[str, Any]:
        """The changed records and the position, as stored objects by key.

        The caller stores them in one transaction before it applies another event. Without `metrics`, what tasks have counted
        since the last other event waits in the position: the record of an SQL execution is large, and tasks end all the time.
        """
        if metrics:
            sql.record_metrics(self._state)
        else:
            sql.count_metrics(self._state)
        self.position.sql_metrics = {
            str(execution): {str(metric): value for metric, value in counted.items()}
            for execution, counted in self._state.metrics_of_stages.items()
        }
        self._state.cache.add(self._state.position_key, self.position)
        return self._state.cache.take()
