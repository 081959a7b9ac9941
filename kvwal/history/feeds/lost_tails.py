"""Warnings of lost tails, for readers of the past: versions that a lost disk took along are in no log and in no archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvwal.ports.logger import get_logger
from kvwal.structures.watch import Positions
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import sentence


def warn_of(tails: Iterable[LostTail]) -> None:
    """Log a warning for each tail: a sentence with the log, and the times between which changes may be missing."""
    for tail in tails:
        get_logger(__name__).warning(sentence(tail))


class LostTailWarnings:
    """The warnings that one reader of changes logs: one for each lost tail that may have had changes which it asks for."""

    def __init__(self) -> None:
        self._known: set[tuple[Place, int, int]] | None = None

    def look(self, tails: Sequence[LostTail], positions: Positions, since: int) -> None:
        """Warn of the tails that are on record now, each once.

        At the first look the reader is at its beginning: after these positions and the timestamp `since`. It needs no warning of
        a tail that it has passed. A tail that comes on record later was lost while the reader was on its way.
        """
        if self._known is None:
            new = [tail for tail in tails if _is_ahead(tail, positions, since)]
        else:
            new = [tail for tail in tails if tail[:3] not in self._known]
        self._known = {tail[:3] for tail in tails} | (self._known or set())
        warn_of(new)


def _is_ahead(tail: LostTail, positions: Positions, since: int) -> bool:
    """Whether a reader that begins after these positions and `since` may lack changes of the tail."""
    return positions.get(tail.place.node, 0) <= tail.last and (tail.before is None or tail.before > since)
