"""Metrics port: measurements of one log while it works. By default they are dropped."""

from __future__ import annotations

from typing import Protocol


class LogMetrics(Protocol):
    """Receiver of the measurements of one log. Called on the log's threads, so it must be quick and must not raise."""

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        """A group was acknowledged: number of entries, their bytes in the log, seconds that the oldest waited in the ring, and
        seconds to write the group.
        """
        ...

    def synced(self, seconds: float) -> None:
        """An fdatasync took `seconds` seconds."""
        ...

    def refused(self, reason: str, submissions: int) -> None:
        """`submissions` submissions were refused; `reason` is the name of the error class."""
        ...


class NoMetrics:
    """Metrics that drop every measurement."""

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        """See `LogMetrics.group`."""

    def synced(self, seconds: float) -> None:
        """See `LogMetrics.synced`."""

    def refused(self, reason: str, submissions: int) -> None:
        """See `LogMetrics.refused`."""


NO_METRICS = NoMetrics()
