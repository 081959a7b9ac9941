"""Transactions of a business: the changes of one `with` block, of any of its structures, in one submission."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from kvwal.entry import Entry, entry_identity
from kvwal.errors import TooLarge, TransactionClosed
from kvwal.log.submission import Completion, Decide, Submission, size_of
from kvwal.log.waiter import Waiter
from kvwal.structures.business import Business

_NEW, _OPEN, _OVER = "was not begun", "is open", "is over"


class TransactionChanges:
    """The changes of one `with` block, of any structures of one business, in their order.

    Outside the block, and in a second block, every call raises `TransactionClosed`. So changes that were rolled back or committed
    cannot be written again.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._latest: dict[tuple[str, bytes], Entry] = {}
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

    def last_change(self, identity: tuple[str, bytes]) -> Entry | None:
        """The last change of an identity in this block, None if it has none."""
        return self._latest.get(identity)

    def end(self, *, raised: bool) -> list[Entry]:
        """Leave the block. Returns the entries to commit: none if the block raised."""
        entries, self._entries, self._latest, self._stage = self._entries, [], {}, _OVER
        return [] if raised else entries


class Transaction:
    """A synchronous transaction of one business: after any crash all of its `changes` are there, or none.

    Used by one thread, for one `with` block. If the block raises, nothing is written. `timestamp` is 0 until it is committed.
    """

    def __init__(self, business: Business) -> None:
        self.changes = TransactionChanges()
        self.timestamp = 0
        self._business = business

    def __enter__(self) -> Self:
        self.changes.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        entries = self.changes.end(raised=kind is not None)
        if entries:
            self.timestamp = commit(self._business, entries)


def commit(business: Business, entries: list[Entry], *, sync: bool = False) -> int:
    """Commit entries as one transaction, wait until it is durable, and return its timestamp."""
    waiter = Waiter()
    business.submit(submission_of(business, entries, waiter, None, sync), waits=True)
    timestamp: int = waiter.result()
    return timestamp


def submission_of(
    business: Business, entries: list[Entry], future: Completion, decide: Decide | None = None, sync: bool = False
) -> Submission:
    """These entries as one transaction. Of several entries of one identity the last one counts.

    `TooLarge` if they have more than `overflow_bytes` bytes.
    """
    if len(entries) > 1:
        entries = _latest_of_each(entries)
    size = size_of(entries)
    if size > business.overflow_bytes:
        raise TooLarge(
            f"{business.name}: {len(entries)} entries of {size} bytes are too much for one transaction"
            f" (limit: {business.overflow_bytes} bytes); nothing was written.",
            hint="Split it into smaller ones, or keep large values elsewhere and store where they are.",
        )
    return Submission(entries, size, future, decide, sync)


def _latest_of_each(entries: list[Entry]) -> list[Entry]:
    if len({entry.key for entry in entries}) == len(entries):
        return entries
    latest = {(entry.key_class, entry.key): entry for entry in entries}
    return list(latest.values())
