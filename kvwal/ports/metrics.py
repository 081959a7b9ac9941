"""The door to measurements: what a log tells of itself while it works. By default nobody listens."""

from __future__ import annotations

from typing import Protocol


class LogMetrics(Protocol):
    """Hears what one log does. Called on the log's threads, so it must be quick, and must not raise."""

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        """A group was acknowledged: its entries, their bytes in the log, how long the first of them had waited in the ring,
        and how long writing the group took, in seconds.
        """
        ...

    def synced(self, seconds: float) -> None:
        """An fdatasync took this long."""
        ...

    def refused(self, reason: str, submissions: int) -> None:
        """So many submissions were refused; `reason` is the name of the error."""
        ...


class NoMetrics:
    """Hears nothing."""

    def group(self, entries: int, size: int, queued: float, seconds: float) -> None:
        """See `LogMetrics.group`."""

    def synced(self, seconds: float) -> None:
        """See `LogMetrics.synced`."""

    def refused(self, reason: str, submissions: int) -> None:
        """See `LogMetrics.refused`."""


NO_METRICS = NoMetrics()
