"""Asynchronous transactions over structures of one business: the changes of one `async with` block, in one submission."""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from kvwal.errors import CommitUnknown, KvwalError
from kvwal.log.submission import Submission
from kvwal.store.aio.waiting import TaskWaiter
from kvwal.structures.business import Business, LocalBusiness
from kvwal.structures.transaction import PendingCommit, TransactionChanges, note_not_counted


class Target(Protocol):
    """A business, or a structure of it, as its transaction uses it."""

    async def _open_business(self) -> LocalBusiness:
        """The business, opened."""
        ...

    def _checked_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop. `WrongLoop` if it is not that of the store."""
        ...


class AsyncTransaction:
    """An asynchronous transaction of one business: after any crash all of its `changes` are there, or none.

    Used by one task, for one `async with` block. If the block raises, nothing is written, and the items that it took are back at
    their places. `timestamp` is 0 until the transaction is committed. If the task is cancelled at the end of the block, the
    transaction is withdrawn or, if the log writer has it already, its outcome is awaited: `timestamp` says whether it was
    committed.
    """

    def __init__(self, target: Target, *, counts: bool = True) -> None:
        """Without `counts` the end of a block by an error is no delivery of the items that it holds."""
        self.changes = TransactionChanges()
        self.timestamp = 0
        self._target = target
        self._counts = counts
        self._is_unknown = False
        """Whether the changes may be in the log, and nobody knows."""

    async def __aenter__(self) -> Self:
        self.changes.begin()
        await self._target._open_business()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit, unless the block raised. Then set `timestamp`."""
        pending = self.changes.end()
        try:
            if kind is None:
                await self._commit(pending)
            else:
                await self._give_back(pending, error)
        except CommitUnknown:
            self._is_unknown = True
            raise
        finally:
            if not self._is_unknown:
                pending.over()

    async def _commit(self, pending: PendingCommit) -> None:
        try:
            business = await self._target._open_business()
            waiter = TaskWaiter(self._target._checked_loop())
            submission = pending.submission(business, waiter)
        except BaseException as error:
            await self._give_back(pending, error)
            raise
        if submission is None:
            return
        try:
            await hand_over(business, submission)
            await waiter.wait()
        except asyncio.CancelledError:
            withdrawn = waiter.withdraw()
            if not withdrawn:
                await waiter.settled()
                self._is_unknown = isinstance(waiter.error, CommitUnknown)
            if withdrawn or waiter.error is not None:
                pending.give_back()
            else:
                self.timestamp = pending.timestamp
            raise
        except Exception as error:
            await self._give_back(pending, error)
            raise
        self.timestamp = pending.timestamp

    async def _give_back(self, pending: PendingCommit, error: BaseException | None) -> None:
        """Return what the block holds. A task that is cancelled meanwhile waits until it is known what of it was written."""
        waiter: TaskWaiter | None = None
        try:
            business = await self._target._open_business()
            make = partial(TaskWaiter, self._target._checked_loop())
            for submission, waiter in pending.give_backs(business, make, error if self._counts else None):
                await hand_over(business, submission)
                await waiter.wait()
        except asyncio.CancelledError:
            if waiter is not None and not waiter.withdraw():
                await waiter.settled()
            pending.give_back()
            raise
        except KvwalError as failed:
            note_not_counted(error, failed)
        pending.give_back()


async def hand_over(business: Business, submission: Submission) -> None:
    """Submit a transaction from a task. Waits while the ring is full."""
    if not business.offer(submission):
        await business.submit_soon(submission)
