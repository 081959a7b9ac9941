"""Batches of the changes of a cluster's map: what is there now, within limits, and what a planned batch had, read again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from kvwal.cluster.requests import POLL_SECONDS, WatchStarted
from kvwal.errors import ArchiveGap
from kvwal.ports.locks import Signal
from kvwal.structures.watch import Change, Positions, Start


class ChangeSource(Protocol):
    """The changes of a map in the logs of all nodes: see `client.member_tasks.MapChanges`."""

    def begin(self, start: Start) -> WatchStarted:
        """See `MapChanges.begin`."""
        ...

    def begin_with_all(self) -> WatchStarted:
        """See `MapChanges.begin_with_all`."""
        ...

    def page(self, at: WatchStarted) -> tuple[list[Change], Positions]:
        """See `MapChanges.page`."""
        ...


class Limits(NamedTuple):
    """The most changes of a batch, and about the most bytes of their keys and values; None: no limit."""

    rows: int | None = None
    bytes: int | None = None


class ClusterBatches:
    """Reads batches, each after a place. Used by one thread.

    A page that a limit has cut is kept for the next batch.
    """

    def __init__(self, source: ChangeSource, label: str) -> None:
        """`label` names the map in errors."""
        self.source = source
        self._label = label
        self._given: WatchStarted | None = None
        self._read_to: Positions = {}
        self._page: deque[Change] = deque()

    def read(
        self, at: WatchStarted, limits: Limits, target: Positions | None = None
    ) -> tuple[list[Change], WatchStarted]:
        """The changes after a place that are there now, and the place after them. None after the positions `target` is taken.

        Without a change the place stays the same. With a target it waits for changes that a living member has and does not give
        yet, because the clock of another one is behind.
        """
        if self._given != at:
            self._read_to = dict(at.positions)
            self._page.clear()
        taken: list[Change] = []
        positions = dict(at.positions)
        size = 0
        while not _is_full(limits, len(taken), size):
            if self._page:
                change = self._page.popleft()
                if target is None or change.sequence <= target.get(change.node, 0):
                    taken.append(change)
                    positions[change.node] = change.sequence
                    size += data_bytes(change)
            elif _reaches(self._read_to, target) or (not self._load(at) and (taken or not self._waits(target))):
                break
        if taken and not self._page:
            positions = _up_to(self._read_to, positions, target)
        self._given = replace(at, positions=positions if taken else at.positions)
        return taken, self._given

    def replay(self, at: WatchStarted, end: Positions) -> list[Change]:
        """All changes after a place, up to the positions `end`. Raises `ArchiveGap` if a node that has some of them is away."""
        taken: list[Change] = []
        self._check_at_hand(at.positions, end)
        while not _reaches(at.positions, end):
            page, positions = self.source.page(at)
            wanted = [change for change in page if change.sequence <= end.get(change.node, 0)]
            taken += wanted
            moved, at = positions != at.positions, replace(at, positions=positions)
            if not wanted:
                self._check_at_hand(positions, end)
            if not moved:
                Signal().wait(POLL_SECONDS)
        return taken

    def _load(self, at: WatchStarted) -> bool:
        """Load a page. Whether the logs have moved."""
        page, positions = self.source.page(replace(at, positions=self._read_to))
        moved, self._read_to = positions != self._read_to, positions
        self._page.extend(page)
        return moved

    def _waits(self, target: Positions | None) -> bool:
        """Wait a moment if a living member still has changes up to the target. Returns whether it waited."""
        if target is None or not self._at_hand(_lacking(self._read_to, target), target):
            return False
        Signal().wait(POLL_SECONDS)
        return True

    def _at_hand(self, nodes: Iterable[str], end: Positions) -> list[str]:
        """Those of these nodes whose logs can be read up to `end` now."""
        there = self.source.begin(None).positions
        return [node for node in nodes if there.get(node, 0) >= end[node]]

    def _check_at_hand(self, positions: Positions, end: Positions) -> None:
        lacking = _lacking(positions, end)
        away = sorted(set(lacking) - set(self._at_hand(lacking, end))) if lacking else []
        if away:
            node = away[0]
            raise ArchiveGap(
                f"{self._label}: {node} is away, and its changes up to sequence {end[node]} are not in the archive: a planned"
                f" batch has those after sequence {positions.get(node, 0)}. They are on the disk of {node}.",
                hint=f"Bring {node} back with its disk and start the query again, or begin anew with a new checkpoint.",
            )


def data_bytes(change: Change) -> int:
    """The bytes of a change's key and value."""
    return len(change.entry.key) + len(change.entry.value)


def _lacking(positions: Positions, end: Positions) -> list[str]:
    return [node for node, last in end.items() if positions.get(node, 0) < last]


def _reaches(positions: Positions, target: Positions | None) -> bool:
    return target is not None and not _lacking(positions, target)


def _up_to(positions: Positions, least: Positions, target: Positions | None) -> Positions:
    """These positions, but none after the target."""
    if target is None:
        return positions
    return {node: max(least.get(node, 0), min(last, target.get(node, 0))) for node, last in positions.items()}


def _is_full(limits: Limits, rows: int, size: int) -> bool:
    return (limits.rows is not None and rows >= limits.rows) or (limits.bytes is not None and size >= limits.bytes)
