"""The changes of several logs as one sequence, in the order of (timestamp, node, sequence)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from kvwal.errors import KvwalError
from kvwal.history.feeds.log_feed import ArchivedLogFeed, LogFeed
from kvwal.structures.watch import Change

OneLog: TypeAlias = LogFeed | ArchivedLogFeed
PAGE_CHANGES, PAGE_BYTES = 2_000, 1 << 20
"""A page ends when it has so many changes, or values of so many bytes."""


class MergedFeed:
    """The feed of several logs. Of each log one page is in memory."""

    def __init__(self, feeds: Iterable[OneLog], until: Callable[[], int | None] = lambda: None) -> None:
        """`until` is the last sequence to read of a log that this process writes."""
        self._until = until
        self._waiting: dict[str, tuple[OneLog, deque[Change]]] = {}
        self._dry: set[str] = set()
        for feed in feeds:
            self.add(feed)

    def add(self, feed: OneLog) -> None:
        """Merge another log from now on."""
        self._waiting[feed.place.node] = (feed, deque())

    def archived(self, node: str) -> ArchivedLogFeed | None:
        """The feed of this node's log, if it is read from the archive alone."""
        feed = self._waiting[node][0] if node in self._waiting else None
        return feed if isinstance(feed, ArchivedLogFeed) else None

    def replace(self, feed: LogFeed) -> None:
        """Read on with this feed, which begins where the one of the same node is."""
        self._waiting[feed.place.node] = (feed, self._waiting[feed.place.node][1])

    @property
    def nodes(self) -> set[str]:
        """The nodes whose logs are merged."""
        return set(self._waiting)

    def read(self, skip: Iterable[str] = ()) -> list[Change]:
        """The next changes, none if there are none yet. Those logs of the nodes `skip` that had no more are not looked at.

        A change that a log gets later comes later, also if its timestamp is lower: logs of different processes have different
        clocks.
        """
        skipped = self._dry.intersection(skip)
        taken: list[Change] = []
        if len(self._waiting) == 1:
            return self._only(skipped)
        empty = {node for node in self._waiting if node in skipped}
        size = 0
        while len(taken) < PAGE_CHANGES and size < PAGE_BYTES:
            try:
                if not self._fill(empty):
                    break
            except (KvwalError, OSError):
                if not taken:
                    raise
                break  # what is taken is given first: the next call raises the error
            heads = [(waiting[0].order, node) for node, (_, waiting) in self._waiting.items() if waiting]
            (_, node) = min(heads)
            taken.append(self._waiting[node][1].popleft())
            size += len(taken[-1].entry.value)
        return taken

    def _only(self, skipped: set[str]) -> list[Change]:
        ((node, (feed, _)),) = self._waiting.items()
        taken: list[Change] = []
        size = 0
        while node not in skipped and len(taken) < PAGE_CHANGES and size < PAGE_BYTES:
            try:
                rows = feed.read(self._until())
            except (KvwalError, OSError):
                if not taken:
                    raise
                break  # what is taken is given first: the next call raises the error
            if not rows:
                self._dry.add(node)
                break
            self._dry.discard(node)
            taken += [Change(node, *row) for row in rows]
            size += sum(len(entry.value) for _, entry in rows)
        return taken

    def _fill(self, empty: set[str]) -> bool:
        """Load a page of every log of which none is loaded, but not of those in `empty`. Whether any change is there."""
        for node, (feed, waiting) in self._waiting.items():
            if not waiting and node not in empty:
                waiting.extend(Change(node, *row) for row in feed.read(self._until()))
                if not waiting:
                    empty.add(node)
                    self._dry.add(node)
                else:
                    self._dry.discard(node)
        return any(waiting for _, waiting in self._waiting.values())
