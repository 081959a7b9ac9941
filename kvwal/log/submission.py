"""Submissions: transactions on their way to the log writer, and commands between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

from kvwal.entry import Entry, is_live
from kvwal.errors import ConfigError
from kvwal.key_class import structure_of
from kvwal.log.overflow.files import WrittenOverflow

T = TypeVar("T")
ENTRY_BYTES = 64
"""Estimated bytes of an entry in the ring besides its key and value."""

Lookup: TypeAlias = Callable[[str, bytes], Entry | None]
"""The latest entry of an identity, None if it is absent, deleted or expired."""


class LogMemory(Protocol):
    """The memory behind a log. Recovery calls it, and then the holder of the ring's turn."""

    @property
    def derive(self) -> Derive | None:
        """What adds entries to each transaction, None if nothing does."""
        ...

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """See `Lookup`."""
        ...

    def state(self, structure: str) -> Any:
        """What a structure keeps in memory."""
        ...

    def apply(self, entries: list[Entry]) -> None:
        """Apply a group of durable entries, in the order of the log."""
        ...

    def clear(self) -> None:
        """Drop all entries: recovery begins again from an older snapshot."""
        ...

    @property
    def passed(self) -> Callable[[], None] | None:
        """See `RecoveryTarget.passed`."""
        ...

    def recovered(self) -> None:
        """The log was recovered, and its files can be read again. Raises `CorruptLog` and `OSError`."""
        ...


class GroupView:
    """The state as of the transactions before one that is being decided: the memory, and its group so far."""

    def __init__(self, lookup: Lookup, state: Callable[[str], Any], now_ms: int, stamps: Callable[[int], int]) -> None:
        """`lookup` and `state` are those of the memory. Expiry is judged by `now_ms` (unix ms).

        `stamps(count)` draws `count` consecutive timestamps of the log and returns the first. Each is above all timestamps drawn
        before, and below the timestamp of the transaction that is being decided.
        """
        self.state = state
        self.stamps = stamps
        self.added: list[list[Entry]] = []
        """The transactions of the group so far."""
        self.notes: dict[str, Any] = {}
        """What a structure remembers while the group is decided, by its name."""
        self._lookup = lookup
        self._now_ms = now_ms
        self._changed: dict[tuple[str, bytes], Entry] = {}

    def add(self, entries: list[Entry]) -> None:
        """Add a transaction of the group."""
        self.added.append(entries)
        for entry in entries:
            self._changed[entry.key_class, entry.key] = entry

    def latest(self, entries: list[Entry]) -> list[Entry | None]:
        """As `lookup`, for the identity of each of these entries, which are of one structure."""
        if self._changed:
            return [self.lookup(entry.key_class, entry.key) for entry in entries]
        lookup = self.state(structure_of(entries[0].key_class)).lookup
        return [lookup(entry.key_class, entry.key) for entry in entries]

    def classes(self) -> Iterator[str]:
        """The key class of each identity that the group so far changes."""
        return (key_class for key_class, _ in self._changed)

    def lookup(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity, None if it is absent, deleted or expired."""
        entry = self._changed.get((key_class, key))
        if entry is None:
            return self._lookup(key_class, key)
        return entry if is_live(entry, self._now_ms) else None

    def changed(self, key_class: str, key: bytes) -> Entry | None:
        """The latest entry of an identity in the group so far, a delete too; None if the group does not change it."""
        return self._changed.get((key_class, key))

    def changes(self, structure: str) -> list[Entry]:
        """What the group so far changes of a structure, which `state(structure)` does not have yet: the last entry of each
        identity, deletes included, in the order in which the identities were first changed.
        """
        return [entry for entry in self._changed.values() if structure_of(entry.key_class) == structure]


Decide: TypeAlias = Callable[[GroupView], list[Entry]]
"""A conditional write: returns the entries to log, none if the condition does not hold."""
Derive: TypeAlias = Callable[[list[Entry], GroupView], list[Entry]]
"""Gets a transaction that was decided, with its timestamp, and the state before it. Returns the entries to log."""


class Completion(Protocol):
    """The receiver of a submission's result: a `Waiter` on any thread; a future, or another object, on the writer's loop."""

    def cancelled(self) -> bool:
        """Whether the caller has stopped waiting."""
        ...

    def done(self) -> bool:
        """Whether the result was set, or the wait cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:
        """The submission was written."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """The submission was not written, or its outcome is unknown."""
        ...


class LargeValues(Protocol):
    """Values of a submission that were written beside the log, before it was submitted."""

    def over(self, error: BaseException | None) -> None:
        """It is known what became of the submission: it was written, or failed with `error`. A second call does nothing."""
        ...


class Submission:
    """A transaction that waits for the writer: entries without timestamps, or a conditional write that the writer decides.

    `future` gets the timestamp of the transaction; for a conditional write it gets whether the condition held. If the writer sets
    `error`, only this submission is refused, and the rest of its group is written. `overflow` is the file with the entries of a
    large transaction, if it was written already. `large` are the values of its entries that were written beside the log.
    """

    __slots__ = ("answer", "decide", "entries", "error", "future", "large", "overflow", "size", "sync")

    def __init__(
        self,
        entries: list[Entry],
        size: int,
        future: Completion,
        decide: Decide | None = None,
        sync: bool = False,
    ) -> None:
        """`size` is `size_of(entries)`."""
        self.entries = entries
        self.size = size
        self.future = future
        self.decide = decide
        self.sync = sync
        self.overflow: WrittenOverflow | None = None
        self.large: LargeValues | None = None
        self.answer: int | bool = False
        self.error: BaseException | None = None

    def begin(self) -> bool:
        """Whether to write the submission: False if its caller cancelled before the writer took it."""
        future = self.future
        if isinstance(future, Future):
            return future.set_running_or_notify_cancel()
        return not future.cancelled()

    def resolve(self) -> None:
        """Acknowledge the submission: give the caller its result."""
        future = self.future
        if self.large is not None:
            self.large.over(self.error)
        if not future.done():
            if self.error is None:
                future.set_result(self.answer)
            else:
                future.set_exception(self.error)

    def fail(self, error: BaseException) -> None:
        """Give the caller an error: the submission was not written, or its outcome is unknown."""
        self.withdraw(self.error or error)
        if not self.future.done():
            self.future.set_exception(self.error or error)

    def withdraw(self, error: BaseException | None) -> None:
        """The submission was not written, or its outcome is unknown: nobody needs the values beside the log."""
        if self.large is not None:
            self.large.over(error or CancelledError())


class ConditionalSubmission(Submission):
    """A transaction that happens only if `decide` accepts the values of some keys, `guards`: pairs of class and bytes."""

    __slots__ = ("guards",)

    def __init__(
        self, entries: list[Entry], size: int, future: Completion, decide: Decide, guards: list[tuple[str, bytes]]
    ) -> None:
        super().__init__(entries, size, future, decide)
        self.guards = guards


class LargeTransaction(NamedTuple):
    """A transaction of a group that goes into an overflow file: `written` already, or when the group is.

    The payload at `payload` is to name the file. `before` is how many entries of the group come before these.
    """

    payload: int
    before: int
    entries: list[Entry]
    written: WrittenOverflow | None


class Group(NamedTuple):
    """A group commit: the submissions that wait for it, their entries, the entries as payloads of blocks, the format that they
    need, and whether to sync.

    The payloads of `large` transactions are empty until the group is written. `queued` is how many seconds the oldest submission
    waited, `began` when the group was formed.
    """

    submissions: list[Submission]
    entries: list[Entry]
    payloads: list[bytes]
    large: list[LargeTransaction]
    format: int
    sync: bool
    queued: float
    began: float


class WriterCommand:
    """An action of the writer between two groups: rotate, flush, close, or a look at the log. `future` gets its result."""

    __slots__ = ("action", "future")

    def __init__(self, action: Callable[[], Awaitable[Any]], future: asyncio.Future[Any]) -> None:
        self.action = action
        self.future = future


def size_of(entries: list[Entry]) -> int:
    """Estimated bytes of these entries in the ring and in the log."""
    if len(entries) == 1:
        return len(entries[0].key) + len(entries[0].value) + ENTRY_BYTES
    return sum([len(entry.key) + len(entry.value) for entry in entries], ENTRY_BYTES * len(entries))


def cut(items: Iterable[T], most_bytes: int, size: Callable[[T], int], *, most: int | None = None) -> Iterator[list[T]]:
    """The items in lists of up to `most_bytes` bytes by `size`, and of up to `most` items, in order. A larger item is a list of
    its own.
    """
    taken: list[T] = []
    filled = 0
    for item in items:
        cost = size(item)
        if taken and (filled + cost > most_bytes or len(taken) == most):
            yield taken
            taken, filled = [], 0
        taken.append(item)
        filled += cost
    if taken:
        yield taken


def values_read(lookup: Lookup) -> GroupView:
    """A view of some values that were read elsewhere. Conditions on a whole structure cannot be decided on it."""
    return GroupView(lookup, _not_here, 0, _no_stamps)


def _not_here(structure: str) -> NoReturn:
    raise ConfigError(f"a condition on the structure {structure!r} is decided where its log is; nothing was written.")


def _no_stamps(count: int) -> NoReturn:
    raise ConfigError("a change whose keys its log chooses is decided where the log is; nothing was written.")
