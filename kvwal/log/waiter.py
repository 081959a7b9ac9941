"""The wait of one thread for the result of its submission."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvwal.errors import StoreClosed
from kvwal.ports.locks import Lock, has_room, interpreter_ends, signals_arrive_here


class Waiter:
    """A `Completion` for one waiting thread, which makes it. Cheaper than a future: one lock, no condition, no callbacks.

    While its thread waits, the ring may hand the turn to it (`lead`): then the thread writes a group before it waits on.
    `may_lead` says whether it may: signal handlers must not run on its thread. A handler that raises would end the write in the
    middle, and a handler that writes would wait for its own thread. Nor may a thread whose stack is nearly full: a
    `RecursionError` in the middle of a group would end the log for all.
    """

    __slots__ = ("_done", "_error", "_event", "_lead_call", "_result", "may_lead")

    def __init__(self) -> None:
        self.may_lead = not signals_arrive_here() and has_room()
        self._event = Lock()
        self._event.acquire()
        self._done = False
        self._lead_call: Callable[[], None] | None = None
        self._result: Any = None
        self._error: BaseException | None = None

    def cancelled(self) -> bool:
        """Never: the thread waits, or has raised the error of a signal handler, and then the write goes on."""
        return False

    def done(self) -> bool:
        """See `Completion.done`."""
        return self._done

    def set_result(self, result: Any, /) -> None:
        """See `Completion.set_result`. Any thread may call it, once."""
        self._result = result
        self._done = True
        self._set_event()

    def set_exception(self, error: BaseException, /) -> None:
        """See `Completion.set_exception`. Any thread may call it, once."""
        self._error = error
        self._done = True
        self._set_event()

    def lead(self, lead_call: Callable[[], None]) -> None:
        """Have the waiting thread call `lead_call`, which must not raise. It does so before it returns the result."""
        self._lead_call = lead_call
        self._set_event()

    def result(self) -> Any:
        """Wait for the result, and return it or raise the error. For the thread that made the waiter."""
        while True:
            lead_call = self._lead_call
            if lead_call is not None:
                self._lead_call = None
                lead_call()
            elif self._done:
                break
            elif interpreter_ends():
                raise program_ends()
            else:
                self._event.acquire()
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            del self  # the error refers to this frame

    def _set_event(self) -> None:
        try:  # noqa: SIM105  # `suppress` takes as long as all the rest here
            self._event.release()
        except RuntimeError:  # it was rung before, and the thread has not woken yet
            pass


def program_ends() -> StoreClosed:
    """The error of a write in a finalizer that runs when the interpreter ends."""
    return StoreClosed(
        "the program ends, and the threads of the store do not run any more; nothing was written.",
        hint="Write before the end of the program: in a `with` block, or in a function of `atexit`, not in `__del__`.",
    )
