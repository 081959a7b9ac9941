"""Progress of incremental processing: the position up to which the input is processed, and the watermark of its event times.

    !ledger/position/<name>     StepPosition: where the next step begins

A step commits its results, the new position and the new watermark as one transaction, on the condition that the position is the
one that the step began with. So each piece of the input counts once, also after a kill, and a second processor is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kvwal.errors import Kind, KvwalError
from kvwal.spark.state.records import PREFIX, Changes, StateMap, exchange, nonce, read_record


class PositionMoved(KvwalError):
    """Another process has committed a step of the same progress since this step began. Nothing of this step was written."""

    kind = Kind.RETRY


class StepPosition(msgspec.Struct, frozen=True, tag_field="kind", tag="position"):
    """Where the next step begins. `watermark` is None before the first event time, `write` a text that each step changes."""

    position: Any
    watermark: float | int | None
    write: str


class Step(Changes):
    """One step: a `with` block whose changes, position and watermark are committed at its end.

    `position` is where the step begins. Set it to where the step ends: a JSON value.
    """

    def __init__(self, commit: Callable[[Changes], None], before: StepPosition | None, lateness: float) -> None:
        super().__init__(commit)
        self.before = before
        self.position: Any = None if before is None else before.position
        self.watermark = None if before is None else before.watermark
        """Greatest event time that was seen, less the lateness. It never falls, and grows at the end of the step."""
        self._lateness = lateness
        self._newest: float | int | None = None

    def saw(self, event_time: float) -> None:
        """An event time of this step: all of them, or their maximum."""
        self._newest = event_time if self._newest is None else max(self._newest, event_time)

    def is_late(self, event_time: float) -> bool:
        """Whether the watermark of the steps before has passed this event time, so that its window may be closed."""
        return self.watermark is not None and event_time < self.watermark

    def after(self) -> StepPosition:
        """The position and the watermark that this step commits."""
        marks = [mark for mark in (self.watermark, None if self._newest is None else self._newest - self._lateness)
                 if mark is not None]  # fmt: skip
        return StepPosition(self.position, max(marks, default=None), nonce())


class Progress:
    """The progress of one name in a map. `state` is a map, or a `Lease`, under which the steps are committed then."""

    def __init__(self, state: StateMap, name: str, *, lateness: float = 0) -> None:
        """`lateness` is how far an event may be behind the newest one, in the unit of the event times."""
        self.name = name
        self._key = f"{PREFIX}position/{name}"
        self._state = state
        self._lateness = lateness

    @property
    def position(self) -> Any:
        """The last committed position, None before the first."""
        record = self._read()
        return None if record is None else record.position

    @property
    def watermark(self) -> float | int | None:
        """The last committed watermark, None before the first event time."""
        record = self._read()
        return None if record is None else record.watermark

    def step(self) -> Step:
        """`with progress.step() as step:` begins at `step.position` and commits at the end of the block.

        Raises `PositionMoved` if another process committed a step meanwhile, what `Map.commit_if` raises, and under a lease
        `LeaseLost`. Then, and if the block raises, position and results are those before the step.
        """
        return Step(self._commit, self._read(), self._lateness)

    def _commit(self, changes: Changes) -> None:
        assert isinstance(changes, Step)
        if not exchange(self._state, self._key, changes.before, changes.after(), changes.puts, changes.deletes):
            raise PositionMoved(
                f"another process has moved the position {self.name} since this step began; nothing of the step was written.",
                hint="Let one process work at a time (a Lease), or begin a new step from the new position.",
            )

    def _read(self) -> StepPosition | None:
        return read_record(self._state, self._key, StepPosition)
