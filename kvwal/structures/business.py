"""What a structure needs from below: memory, a clock, a place to send transactions, and the past."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kvwal.codecs import Codecs
from kvwal.entry import DataEntry, Entry
from kvwal.log.ring import Submission


class Memory(Protocol):
    """The latest entry of every live identity, as those who read see it: of this process, or of a cluster."""

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity, None if it is absent."""
        ...

    def count(self) -> int:
        """How many identities are live now."""
        ...

    def first(self) -> Entry | None:
        """The first live entry in the order of identity, None if there is none. Its value may be left out."""
        ...

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """Live entries of a class whose keys begin with `prefix`, in key order."""
        ...

    def all_ordered(self) -> Iterator[Entry]:
        """Live entries of all classes, in the order of identity (class, then key)."""
        ...


class Business(Protocol):
    """One business, as the structures on it see it."""

    name: str
    codecs: Codecs
    overflow_bytes: int

    @property
    def state(self) -> Memory:
        """What is there now."""
        ...

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

    def as_of(self, timestamp: int) -> Memory:
        """Memory as it was after all entries at or before `timestamp`, its clock standing there. Blocks."""
        ...
