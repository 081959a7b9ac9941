"""Interfaces that a structure needs: the in-memory state, the clock, the ring for transactions, and the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from kvwal.codecs import Codecs
from kvwal.content.files import ContentFiles
from kvwal.content.source import Reader
from kvwal.entry import DataEntry, Entry
from kvwal.key_class import OWN_MAP
from kvwal.log.submission import Submission
from kvwal.structures.map.view import KeyBounds
from kvwal.structures.provenance.query import EventSource
from kvwal.structures.watch import Feed, Start
from kvwal.values.moved import FileValue


class Memory(Protocol):
    """Read access to the latest entry of every live identity, in this process or in a cluster."""

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity, None if it is absent."""
        ...

    def expires(self, key_class: str, key: bytes) -> int | None:
        """When an identity expires (unix ms), 0 for never, None if it is absent."""
        ...

    def count(self) -> int:
        """Number of live identities."""
        ...

    def first(self) -> Entry | None:
        """The first live entry in the order of identity, None if there is none. Its value may be missing."""
        ...

    def ordered(self, key_class: str, prefix: bytes = b"") -> Iterator[Entry]:
        """Live entries of a class whose keys begin with `prefix`, in key order."""
        ...

    def all_ordered(self) -> Iterator[Entry]:
        """Live entries of all classes, in the order of identity (class, then key)."""
        ...

    def between(self, bounds: KeyBounds, *, reverse: bool = False) -> Iterator[Entry]:
        """Live entries within these bounds, in the order of identity, or in reverse order."""
        ...


class Business(Protocol):
    """One business, for the structures on it: state, clock, submission of transactions, and history."""

    name: str
    codecs: Codecs
    value_bytes: int
    """The most bytes of a key and its value."""
    transaction_bytes: int
    """The most bytes of a transaction."""
    inline_bytes: int
    """A value of a map or a queue with more bytes stands beside the log."""

    @property
    def state(self) -> Memory:
        """The current state."""
        ...

    def now_ms(self) -> int:
        """The current time of the hybrid clock, in unix milliseconds."""
        ...

    def submit(self, submission: Submission, *, waits: bool = False) -> None:
        """Submit a transaction from any thread. `waits` says that the caller will wait for the result: `WrongLoop` if the caller
        is on the thread that writes.
        """
        ...

    def offer(self, submission: Submission) -> bool:
        """Submit a transaction from a task. False, and nothing is submitted, if the ring is full."""
        ...

    async def submit_soon(self, submission: Submission) -> None:
        """Submit a transaction from a task. Waits while the ring is full."""
        ...

    def value_of_file(self, path: Path) -> FileValue:
        """The bytes of a file as a value. `ConfigError` if it cannot be read, and where nothing stands beside the log. Blocks."""
        ...

    def history(self, key_class: str, key: bytes) -> list[DataEntry]:
        """All changes of an identity that log and archive hold, newest first. Blocks."""
        ...

    def as_of(self, timestamp: int) -> Memory:
        """The state after all entries with timestamps up to `timestamp`; expiry is judged at that time. Blocks."""
        ...

    def feed(self, start: Start) -> Feed:
        """The changes from `start` on. Raises `BeforeHistory` if they do not reach back so far. Blocks."""
        ...


class LocalBusiness(Business, Protocol):
    """A business whose log and memory are in this process, for structures beside the map."""

    def state_of(self, structure: str) -> Any:
        """What a structure of the business keeps in memory."""
        ...

    def structures_of(self, kind: str) -> list[str]:
        """The structures of a kind that hold something, sorted. Blocks where files are read."""
        ...

    def as_of(self, timestamp: int, structure: str = OWN_MAP) -> Memory:
        """As `Business.as_of`, of the entries of a structure. Blocks."""
        ...

    @property
    def content_source(self) -> Reader:
        """Where the bytes of contents are read."""
        ...

    def content_files(self) -> ContentFiles:
        """Where the bytes of new contents go. `ConfigError` for a business that is only read, `StoreClosed`."""
        ...

    @property
    def makes_events(self) -> bool:
        """Whether changes leave events: provenance is switched on. True of a business that is only read."""
        ...

    def events(self) -> EventSource:
        """The events of the business in the files of its logs. To be asked on any thread that may wait."""
        ...

    @property
    def refuses_writes(self) -> bool:
        """Whether the business is closed, or its log has failed."""
        ...

    def elapsed(self) -> float:
        """Monotonic seconds."""
        ...

    def call_after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call `call`, which does not wait, after `seconds` seconds, on the store's event loop, while the business is open."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call `wake`, a bound method that does not wait and raises nothing, after each group, and when the log takes no more
        writes. Its object is not kept alive.
        """
        ...
