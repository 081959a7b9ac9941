"""The wait for the name of bytes that are durable. Their file is settled when it is known what became of the name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.errors import CommitUnknown
from kvwal.log.waiter import Waiter


class NameWaiter(Waiter):
    """A waiter that calls `settle` when the name is logged, or never will be, also if its thread was interrupted before.

    After `CommitUnknown` the name may be in the log: the file stays unsettled until the log is opened again.
    """

    __slots__ = ("_settle",)

    def __init__(self, settle: Callable[[], None]) -> None:
        super().__init__()
        self._settle = settle

    def set_result(self, result: Any, /) -> None:
        """See `Completion.set_result`."""
        self._settle()
        super().set_result(result)

    def set_exception(self, error: BaseException, /) -> None:
        """See `Completion.set_exception`."""
        if not isinstance(error, CommitUnknown):
            self._settle()
        super().set_exception(error)
