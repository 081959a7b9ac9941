"""The timetable of jobs that run one at a time: which of the wanted jobs begins next. Pure: it has no clock and no log.

The law, for any sequence of wishes, durations and failures (tests/unit/archiver/test_timetable_laws.py): a job that is
wanted begins after at most the rest of the run under way and one run of each other job. A job that failed is not wanted
before its retry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

FIRST_RETRY_SECONDS = 1.0
"""A job that failed once is tried again after this time. Each further failure doubles the time, up to the job's limit."""


class _Row:
    """One job of a timetable."""

    def __init__(self, longest_retry: float) -> None:
        self.longest_retry = longest_retry
        self.wanted_since: float | None = None
        self.began = float("-inf")
        self.failures = 0
        self.not_before = float("-inf")

    def is_due(self, now: float) -> bool:
        return self.wanted_since is not None and self.not_before <= now

    def order(self) -> tuple[float, float]:
        """Jobs with a smaller value go first: the moment since which the job is due, then the moment at which it last began."""
        since = self.not_before if self.wanted_since is None else max(self.wanted_since, self.not_before)
        return since, self.began


class Timetable:
    """Of several jobs that are due, the one that is due longest goes first."""

    def __init__(self, longest_retry: Mapping[str, float]) -> None:
        """The jobs by name, and the longest time between two tries of each while it fails."""
        self._rows = {name: _Row(seconds) for name, seconds in longest_retry.items()}
        self._running: str | None = None

    def note(self, wanted: Collection[str], now: float) -> None:
        """These jobs are wanted now, and no others. To be called while a job runs, too: other jobs become due meanwhile."""
        for name, row in self._rows.items():
            if name not in wanted or name == self._running:
                row.wanted_since = None
            elif row.wanted_since is None:
                row.wanted_since = now

    def begin(self, now: float) -> str | None:
        """The job that is to begin now, None if none is due. It runs until `ended`."""
        due = [name for name, row in self._rows.items() if row.is_due(now)]
        if not due:
            return None
        name = min(due, key=lambda name: self._rows[name].order())
        row = self._rows[name]
        row.wanted_since, row.began, self._running = None, now, name
        return name

    def ended(self) -> None:
        """The job that was begun has ended."""
        self._running = None

    def failed(self, name: str, now: float) -> None:
        """A try of this job failed: the next try waits, twice as long as after the failure before."""
        if (row := self._rows.get(name)) is None:
            return
        row.failures += 1
        # 64 failures reach any limit, and a larger exponent would end as an OverflowError.
        row.not_before = now + min(row.longest_retry, FIRST_RETRY_SECONDS * 2.0 ** min(row.failures - 1, 64))

    def reset(self, name: str) -> None:
        """The job succeeded, or was asked for by a caller: its next try does not wait for earlier failures."""
        if (row := self._rows.get(name)) is not None:
            row.failures, row.not_before = 0, float("-inf")
