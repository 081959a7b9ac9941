"""What a structure needs from below: memory, a clock, a place to send transactions, and the past."""

from __future__ import annotations

from typing import Protocol

from kvwal.codecs import Codecs
from kvwal.entry import DataEntry
from kvwal.log.ring import Submission
from kvwal.structures.state import State


class Business(Protocol):
    """One business, as the structures on it see it."""

    name: str
    codecs: Codecs
    state: State
    overflow_bytes: int

    def now_ms(self) -> int:
        """The present by the hybrid clock."""
        ...

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """Hand over a transaction from any thread. `waits`: the caller will wait for the answer, which the thread that writes
        must not: `WrongLoop`.
        """
        ...

    def offer(self, submission: Submission) -> bool:
        """Hand over a transaction from a task, if the ring has room now; whether it had."""
        ...

    async def submit_soon(self, submission: Submission) -> None:
        """Hand over a transaction from a task."""
        ...

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """Every change of an identity that log and archive hold, newest first. Blocks."""
        ...

    def as_of(self, timestamp: int) -> State:
        """Memory as it was after all entries at or before `timestamp`, its clock standing there. Blocks."""
        ...
