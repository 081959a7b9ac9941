"""A small content that waits for its place in a shared claim file, and the thread that waits with it."""

from __future__ import annotations

from collections.abc import Callable

from kvwal.log.waiter import program_ends
from kvwal.ports.locks import Lock, has_room, interpreter_ends, signals_arrive_here


def may_lead_here() -> bool:
    """Whether this thread may write a group, as `kvwal.log.waiter.Waiter` says: where signal handlers run, one that raises would
    end the write in the middle, and one that writes would wait for its own thread.
    """
    return not signals_arrive_here() and has_room()


class PendingContent:
    """The bytes `data` of a content, and once `is_done` their place, or the `error` for which they have none."""

    __slots__ = ("_event", "_leads", "_owed", "data", "error", "file", "is_done", "is_left", "may_lead", "offset")

    def __init__(self, data: bytes, *, may_lead: bool) -> None:
        """`may_lead` is that of the thread: see `may_lead_here`. A thread that waits for several contents has one for all. It
        waits for one after the other, and a lead that went to a later one would wait, too.
        """
        self.data = data
        self.file = ""
        self.offset = 0
        self.error: Exception | None = None
        self.is_done = False
        self.is_left = False
        """Whether its thread was interrupted, and does not wait any more."""
        self.may_lead = may_lead
        self._leads = False
        self._owed = [True]
        self._event = Lock()
        self._event.acquire()

    def done(self, file: str, offset: int, error: Exception | None) -> None:
        """It was written, or failed. For the leader."""
        self.file, self.offset, self.error = file, offset, error
        self.is_done = True
        self._wake()

    def lead(self) -> None:
        """Have the thread lead the next group."""
        self._leads = True
        self._wake()

    def wait(self, lead: Callable[[], None]) -> None:
        """Return once it `is_done`. Meanwhile the thread may have to call `lead`."""
        while True:
            if self._leads:
                self._leads = False
                lead()
            elif self.is_done:
                return
            elif interpreter_ends():
                raise program_ends()
            else:
                self._event.acquire()

    def error_of_its_own(self) -> Exception:
        """The error, for this thread: the others of the group raise theirs at the same time."""
        if isinstance(self.error, OSError):
            return OSError(self.error.errno, self.error.strerror, self.error.filename)
        return self.error or ValueError("it was written")

    def settles(self) -> bool:
        """Whether the caller is to settle the file of a content that its thread left: True for one of two callers."""
        try:
            return self._owed.pop()
        except IndexError:
            return False

    def _wake(self) -> None:
        try:  # noqa: SIM105  # `suppress` takes as long as all the rest here
            self._event.release()
        except RuntimeError:  # it was woken before, and has not looked yet
            pass
