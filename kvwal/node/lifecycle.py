"""Lifecycle of a cluster member: its phases, and the transitions between them. docs/architecture.md draws it.

A phase describes the whole member. The gate in the JVM (ReadyGate.java) decides on single operations, in the partition threads.
`GATE` maps each phase to the states in which the gate may be meanwhile, so neither of the two repeats a flag of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class Phase(Enum):
    """Phase of a member. The value is the field "phase" of /readyz."""

    STARTING = "starting"
    RECOVERING = "recovering"
    WAITING = "waiting for members"
    LOADING = "loading"
    COPYING = "copying"
    """Clients are served, but some keys have fewer copies in memory than configured. Stopping or killing another member now may
    lose entries from memory."""
    SERVING = "serving"
    LEAVING = "leaving"
    FAILED = "failed"


_ENDS = (Phase.LEAVING, Phase.FAILED)

TRANSITIONS: Mapping[Phase, tuple[Phase, ...]] = {
    Phase.STARTING: (Phase.RECOVERING, *_ENDS),
    Phase.RECOVERING: (Phase.WAITING, *_ENDS),
    Phase.WAITING: (Phase.LOADING, Phase.COPYING, *_ENDS),
    Phase.LOADING: (Phase.WAITING, Phase.COPYING, *_ENDS),
    Phase.COPYING: (Phase.SERVING, *_ENDS),
    Phase.SERVING: _ENDS,
    Phase.LEAVING: (),
    Phase.FAILED: (),
}
"""The phases that may follow each phase."""

GATE: Mapping[Phase, tuple[str, ...]] = {
    Phase.STARTING: ("closed",),
    Phase.RECOVERING: ("closed",),
    Phase.WAITING: ("closed", "armed"),
    Phase.LOADING: ("closed", "armed"),
    Phase.COPYING: ("open",),
    Phase.SERVING: ("open",),
    Phase.LEAVING: ("leaving",),
    Phase.FAILED: ("lost", "leaving"),
}
"""The states of ReadyGate.java in each phase, by the names of its fields. `closed`: none of the fields is set. `armed`: memory is
filled, and a loss of memory counts already. The gate is `lost` at the moment of the loss; the member is `FAILED` when its event
loop has seen that."""


class Lifecycle:
    """The current phase of one member, and the progress within it. Used on the node's event loop."""

    def __init__(self) -> None:
        self._phase = Phase.STARTING
        self._progress: Mapping[str, object] = MappingProxyType({})

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return self._phase

    @property
    def progress(self) -> Mapping[str, object]:
        """What the member does or waits for in this phase: further fields of /readyz."""
        return self._progress

    @property
    def serves(self) -> bool:
        """Whether clients are served."""
        return self._phase in (Phase.COPYING, Phase.SERVING)

    @property
    def ends(self) -> bool:
        """Whether the member is about to end."""
        return self._phase in _ENDS

    def to(self, phase: Phase, **progress: object) -> bool:
        """Enter `phase`, or stay in it with other `progress`. Returns whether phase or progress changed.

        `ValueError` if `TRANSITIONS` has no such transition: a bug.
        """
        if phase is not self._phase and phase not in TRANSITIONS[self._phase]:
            raise ValueError(f"a member that is {self._phase.value} cannot be {phase.value} next")
        changed = (phase, progress) != (self._phase, self._progress)
        self._phase, self._progress = phase, MappingProxyType(progress)
        return changed
