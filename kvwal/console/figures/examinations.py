"""Examinations of the location: what `kvwal doctor` says, and what takes as long to look up. All who look share them.

An examination reads the ends of all logs and lists the archive. So one that is due is made in the background, and those who look
see the earlier one meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvwal.ports.clock import Clock
from kvwal.ports.locks import Lock
from kvwal.scrub.diagnose import Finding
from kvwal_archive.layout import Place

DUE_SECONDS = 30.0
"""Age from which an examination that somebody looks at is made again, or `DUE_TIMES` as long as it took, if that is longer, up to
half of `SHOWN_SECONDS`.
"""
DUE_TIMES = 30.0
"""So that the examinations of a large store, which read all logs, seldom take more than a thirtieth of a core."""
SHOWN_SECONDS = 300.0
"""Age up to which one is shown meanwhile. After that, who looks waits for the next one."""


class Beside(NamedTuple):
    """What is looked up beside the findings, of the logs of a folder: the last archived sequence of each, and the bytes of their
    contents. `archived` is None if the archive does not answer, or is not known; `why_not` says it."""

    archived: Mapping[Place, int] | None = None
    contents: Mapping[Place, int] = {}
    why_not: str = ""


class Examination(NamedTuple):
    """One examination, when it began, on a clock that only counts seconds, and from which age on it is due to be made again."""

    at: float
    findings: list[Finding]
    beside: Beside
    due: float


class Examinations:
    """The last examination. Any thread may use it; while one examines, others that need it wait."""

    def __init__(self, examine: Callable[[], list[Finding]], look_beside: Callable[[], Beside], clock: Clock) -> None:
        self._examine = examine
        self._look_beside = look_beside
        self._clock = clock
        self._lock = Lock()
        self._last: Examination | None = None
        self._renewing = False

    def begin_renewal(self) -> bool:
        """Whether the caller is to call `renewed` in the background: the last one is old, and nobody else does. One thread's."""
        last = self._last
        is_due = last is not None and self.age(last) > last.due and not self._renewing
        self._renewing = self._renewing or is_due
        return is_due

    def age(self, examination: Examination) -> float:
        """How old it is, in seconds."""
        return self._clock.elapsed() - examination.at

    def last(self) -> Examination:
        """The last examination, if it may be shown; else a new one. An error of it is raised, and not kept."""
        return self._begun_after(self._clock.elapsed() - SHOWN_SECONDS)

    def renewed(self) -> Examination:
        """An examination that is not due. It ends what `begin_renewal` began."""
        try:
            due = DUE_SECONDS if self._last is None else self._last.due
            return self._begun_after(self._clock.elapsed() - due)
        finally:
            self._renewing = False

    def now(self) -> Examination:
        """An examination that begins after this call: all who wait for one share the next."""
        return self._begun_after(self._clock.elapsed())

    def _begun_after(self, moment: float) -> Examination:
        last = self._last
        if last is not None and last.at >= moment:
            return last
        with self._lock:
            last = self._last
            if last is None or last.at < moment:
                at = self._clock.elapsed()
                findings, beside = self._examine(), self._look_beside()
                took = self._clock.elapsed() - at
                due = max(DUE_SECONDS, min(DUE_TIMES * took, SHOWN_SECONDS / 2))
                last = self._last = Examination(at, findings, beside, due)
            return last
