"""Transactions of a business: the changes of one `with` block, of any of its structures, in one submission."""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from kvwal.content.claim import MOST_CLAIM, may_stand_beside
from kvwal.entry import Entry, entry_identity
from kvwal.errors import CommitUnknown, Kind, KvwalError, StoreClosed, TooLarge, TransactionClosed
from kvwal.key_class import QUEUE, kind_of, structure_of
from kvwal.log.submission import ENTRY_BYTES, Completion, Decide, GroupView, Submission, cut, size_of
from kvwal.log.waiter import Waiter
from kvwal.structures.business import Business

_SHOWN = 40
"""Bytes of a key that an error shows."""
_NEW, _OPEN, _OVER = "was not begun", "is open", "is over"


class GiveBack(NamedTuple):
    """What the give-back of one item writes: its entries once its place in the log is known, and their estimated bytes."""

    size: int
    decide: Decide


class DecidedChanges(Protocol):
    """Changes in a transaction that become entries only in the order of the log, and what the block holds until then."""

    def room(self) -> list[Entry]:
        """Entries of at least the size of those that `decide` returns. None if there is nothing to change."""
        ...

    def decide(self, group: GroupView) -> list[Entry]:
        """The entries, once the transaction's place in the log is known."""
        ...

    def give_backs(self) -> Sequence[GiveBack]:
        """What is to be written before `give_back`, because the block failed: a part for each item that it holds."""
        ...

    def give_back(self) -> None:
        """The block raised, or the transaction was not written: return what the block holds. Does not wait."""
        ...


C = TypeVar("C", bound=DecidedChanges)
F = TypeVar("F", bound=Completion)


class TransactionChanges:
    """The changes of one `with` block, of any structures of one business, in their order.

    Outside the block, and in a second block, every call raises `TransactionClosed`. So changes that were rolled back or committed
    cannot be written again.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._latest: dict[tuple[str, bytes], Entry] = {}
        self._decided: dict[str, DecidedChanges] = {}
        self._at_end: list[Callable[[], None]] = []
        self._stage = _NEW

    def begin(self) -> None:
        """Enter the block."""
        if self._stage is not _NEW:
            raise TransactionClosed(
                f"this transaction {self._stage}, and cannot begin again; this call wrote nothing.",
                hint="Begin a new one with transaction() for each `with` block.",
            )
        self._stage = _OPEN

    def check_open(self) -> None:
        """Raise `TransactionClosed` outside the block."""
        if self._stage is not _OPEN:
            raise TransactionClosed(
                f"this transaction {self._stage}; nothing was written.",
                hint="Change keys inside its `with` block, and begin a new one with transaction() for each block.",
            )

    def add(self, entries: list[Entry]) -> None:
        """Take changes, to be committed at the end of the block."""
        self.check_open()
        self._entries += entries
        self._latest.update((entry_identity(entry), entry) for entry in entries)

    def decided(self, structure: str, make: Callable[[], C]) -> C:
        """The changes of a structure that are decided in the order of the log. `make` makes them at the first call."""
        self.check_open()
        made: C = self._decided.setdefault(structure, make())  # type: ignore[assignment]  # one structure, one kind
        return made

    def at_end(self, call: Callable[[], None]) -> None:
        """Call `call`, which does not wait and raises nothing, once it is known whether the changes were written."""
        self.check_open()
        self._at_end.append(call)

    def last_change(self, identity: tuple[str, bytes]) -> Entry | None:
        """The last change of an identity in this block, None if it has none."""
        return self._latest.get(identity)

    def end(self) -> PendingCommit:
        """Leave the block. Returns what to commit or, if the block raised, to give back."""
        pending = PendingCommit(self._entries, list(self._decided.values()), self._at_end)
        self._entries, self._latest, self._decided, self._at_end, self._stage = [], {}, {}, [], _OVER
        return pending


class PendingCommit:
    """The changes of a block on their way to the log. `entries` are those that were written, in the end."""

    def __init__(
        self, entries: list[Entry], decided: list[DecidedChanges], at_end: Sequence[Callable[[], None]] = ()
    ) -> None:
        self.entries = entries
        self._decided = decided
        self._at_end = at_end

    def over(self) -> None:
        """It is known whether the changes were written: see `TransactionChanges.at_end`."""
        for call in self._at_end:
            call()

    def submission(self, business: Business, future: Completion, *, sync: bool = False) -> Submission | None:
        """The transaction, None if there is nothing to write. `TooLarge` as `submission_of`."""
        self.entries = entries = _latest_of_each(self.entries)
        room = [entry for one in self._decided for entry in one.room()]
        if not (entries or room):
            self.give_back()
            return None
        size = checked_size(business, entries + room if room else entries)
        return Submission(entries + room, size, future, self._decide if room else None, sync)

    @property
    def timestamp(self) -> int:
        """The timestamp of the transaction, once it is written; 0 if nothing was."""
        return self.entries[0].timestamp if self.entries else 0

    def give_backs(
        self, business: Business, make: Callable[[], F], error: BaseException | None
    ) -> list[tuple[Submission, F]]:
        """What is to be written before `give_back`, because the block failed with `error`: mostly nothing, or one transaction;
        several if the items are large. `make` makes the receiver of the result of each.
        """
        if not (self._decided and is_of_the_items(error)):
            return []
        parts = [part for one in self._decided for part in one.give_backs()]
        return [_given_back(some, make()) for some in cut(parts, business.transaction_bytes, lambda part: part.size)]

    def give_back(self) -> None:
        """The transaction was not written, or will not be: return what its block holds."""
        for one in self._decided:
            one.give_back()

    def _decide(self, group: GroupView) -> list[Entry]:
        self.entries = self.entries + [entry for one in self._decided for entry in one.decide(group)]
        return self.entries


class Transaction:
    """A synchronous transaction of one business: after any crash all of its `changes` are there, or none.

    Used by one thread, for one `with` block. If the block raises, nothing is written. `timestamp` is 0 until it is committed.
    """

    def __init__(self, business: Business, *, counts: bool = True) -> None:
        """Without `counts` the end of a block by an error is no delivery of the items that it holds."""
        self.changes = TransactionChanges()
        self.timestamp = 0
        self._business = business
        self._counts = counts

    def __enter__(self) -> Self:
        self.changes.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        pending = self.changes.end()
        is_unknown = True  # after an interrupted wait, too, the changes may still be written
        try:
            self._end(pending, kind is None, error)
            is_unknown = False
        except Exception as failed:
            is_unknown = isinstance(failed, CommitUnknown)
            raise
        finally:
            if not is_unknown:
                pending.over()

    def _end(self, pending: PendingCommit, commits: bool, error: BaseException | None) -> None:
        if not commits:
            self._give_back(pending, error)
            return
        try:
            waiter = Waiter()
            submission = pending.submission(self._business, waiter)
            if submission is not None:
                self._business.submit(submission, waits=True)
                answer = waiter.result()
                # What is decided in the order of the log is answered by whether it was written.
                self.timestamp = pending.timestamp if answer is True else answer
        except Exception as failed:
            self._give_back(pending, failed)
            raise

    def _give_back(self, pending: PendingCommit, error: BaseException | None) -> None:
        try:
            for submission, waiter in pending.give_backs(self._business, Waiter, error if self._counts else None):
                self._business.submit(submission, waits=True)
                waiter.result()
        except KvwalError as failed:
            note_not_counted(error, failed)
        pending.give_back()


def note_not_counted(error: BaseException | None, failed: object) -> None:
    """Note on the error that ended a block that the give-back of its items could not be written, and why: `failed`."""
    if error is not None:
        error.add_note(
            f"The items of the block are back at their places. This delivery of them is not counted: {failed}"
        )


def is_of_the_items(error: BaseException | None) -> bool:
    """Whether a block may have failed because of its items, by the error that it ended with: not if a program or a task ends,
    not if a wait was in vain, or the store could not write, and not if the error says so by an attribute `is_of_the_items`.
    """
    if not isinstance(error, Exception) or isinstance(error, queue.Empty | queue.Full | StoreClosed):
        return False
    if not getattr(error, "is_of_the_items", True):
        return False
    return not (isinstance(error, KvwalError) and error.kind is Kind.RETRY)


def _given_back(parts: Sequence[GiveBack], future: F) -> tuple[Submission, F]:
    def decide(group: GroupView) -> list[Entry]:
        return [entry for part in parts for entry in part.decide(group)]

    return Submission([], sum(part.size for part in parts), future, decide), future


def commit(business: Business, entries: list[Entry], *, sync: bool = False) -> int:
    """Commit entries as one transaction, wait until it is durable, and return its timestamp."""
    waiter = Waiter()
    submission = submission_of(business, entries, waiter, None, sync)
    business.submit(submission, waits=True)
    timestamp: int = waiter.result()
    return timestamp


def submission_of(
    business: Business, entries: list[Entry], future: Completion, decide: Decide | None = None, sync: bool = False
) -> Submission:
    """These entries as one transaction. Of several entries of one identity the last one counts.

    Raises as `checked_size`.
    """
    if len(entries) > 1:
        entries = _latest_of_each(entries)
    size = size_of(entries)
    if size > business.value_bytes:  # then one of them may be too large
        _check_sizes(business, entries, size)
    return Submission(entries, size, future, decide, sync)


def checked_size(business: Business, entries: list[Entry]) -> int:
    """The bytes of a transaction of these entries. `TooLarge` if a value is above `value_bytes`, or all of them above
    `transaction_bytes`.
    """
    size = size_of(entries)
    if size > business.value_bytes:
        _check_sizes(business, entries, size)
    return size


def _check_sizes(business: Business, entries: list[Entry], size: int) -> None:
    largest = max(entries, key=lambda entry: _logged_bytes(business, entry))
    if (most := _logged_bytes(business, largest)) > business.value_bytes:
        limit = f"limit: {business.value_bytes:,} bytes"
        key = largest.key[:_SHOWN]
        said = (
            f"{business.name}: the value of {key!r} has, with its key, {most:,} bytes ({limit}); nothing was written."
        )
        if kind_of(structure_of(largest.key_class)) == QUEUE:
            said = f"{business.name}: an item has {most:,} bytes ({limit}); nothing was written."
        raise TooLarge(
            said,
            hint="Keep large values elsewhere, and store where they are.",
        )
    if size > business.transaction_bytes:
        raise TooLarge(
            f"{business.name}: {len(entries)} entries of {size} bytes are too much for one transaction"
            f" (limit: {business.transaction_bytes} bytes); nothing was written.",
            hint="Split it into smaller ones, or keep large values elsewhere and store where they are.",
        )


def _logged_bytes(business: Business, entry: Entry) -> int:
    """The bytes of an entry in the log. Of a value that stands beside it only the claim is there."""
    if len(entry.value) > business.inline_bytes and may_stand_beside(entry.key_class):
        return len(entry.key) + MOST_CLAIM + ENTRY_BYTES
    return size_of([entry])


def _latest_of_each(entries: list[Entry]) -> list[Entry]:
    if len({entry.key for entry in entries}) == len(entries):
        return entries
    latest = {(entry.key_class, entry.key): entry for entry in entries}
    return list(latest.values())
