"""The ending of a recorded application: how its Python ended, because Spark's own end event says only that Spark stopped.

| its Python | status | exit code |
|---|---|---|
| left the `with` block, or ended, without an error | SUCCEEDED | 0 |
| raised an exception that nobody caught | FAILED, with the exception | 1 |
| called `sys.exit(n)`, n not 0 | FAILED | n |
| was interrupted (Ctrl-C) as a script | KILLED | 130 |
| was interrupted in a notebook or a Python shell, which goes on | DETACHED | |
| called `close()` while Spark went on | DETACHED | |
| raised `SystemExit(n)` itself, which does not tell n | DETACHED, or what Spark says | |
| is gone without a word (kill -9, `os._exit`) | KILLED, said by the reader of the spool | |
"""

from __future__ import annotations

import dis
import gc
import sys
import threading
import traceback
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, NamedTuple

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended, as shells count it."""


class Ending(NamedTuple):
    """The ending of a recording: `status` as in `records.Application`, and the exit code and exception of Python, if known."""

    status: str
    exit_code: int | None = None
    error: BaseException | None = None

    @classmethod
    def of(cls, error: BaseException | None) -> Ending:
        """The ending of a block or a program that `error` leaves; None: it ends as it should."""
        if error is None:
            return cls("SUCCEEDED", 0)
        if isinstance(error, SystemExit):
            # As Python has it, None is 0, and a code that is no number is printed and ends with 1.
            code = (error.code or 0) & 0xFF if isinstance(error.code, int | None) else 1
            return cls("FAILED" if code else "SUCCEEDED", code)
        if isinstance(error, KeyboardInterrupt):
            return DETACHED if _is_interactive() else cls("KILLED", INTERRUPTED)
        return cls("FAILED", 1, error)

    def message(self) -> str:
        """The exception as one line; empty if there is none."""
        return "".join(traceback.format_exception_only(self.error)).strip() if self.error is not None else ""

    def stack(self) -> str:
        """The exception with its trace; empty if there is none."""
        return "".join(traceback.format_exception(self.error)) if self.error is not None else ""


DETACHED = Ending("DETACHED")
"""The recording ended before the application."""


class ExitWatch:
    """Notes how Python ends, from `begin` on: the exception that nobody caught, or the code given to `sys.exit`.

    Python tells neither of them to the functions that it calls at its end. So `sys.excepthook` and `sys.exit` are replaced by
    functions that note it, and then call what was there before. Whether somebody caught the `SystemExit` is seen from the last
    instruction that the program ran: a program that was not left by an exception has returned. If it was left by an exception,
    that may be another one, which the program raised after it had caught the noted one.
    """

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._exit: SystemExit | None = None
        self._program: FrameType | None = None
        self._begun = False

    def begin(self) -> None:
        """Begin to watch. A second call does nothing."""
        if not self._begun:
            self._begun = True
            self._program = _program()
            sys.excepthook = self._note_error(sys.excepthook)
            sys.exit = self._note_exit(sys.exit)

    def ending(self) -> Ending:
        """How Python ends, to be asked when it ends. A `raise SystemExit(n)` does not tell its n: then the result is DETACHED."""
        if self._error is not None or self._program is None or _has_returned(self._program) or _is_interactive():
            return Ending.of(self._error)
        return DETACHED if self._exit is None or _was_caught(self._exit) else Ending.of(self._exit)

    def _note_error(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        def noted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
            # A shell or notebook calls the hook for each failed line, and goes on.
            if not _is_interactive():
                self._error = error
            return hook(kind, error, trace)

        return noted

    def _note_exit(self, leave: Callable[..., Any]) -> Callable[..., Any]:
        def noted(code: Any = None, /) -> Any:
            try:
                return leave(code)
            except SystemExit as error:
                # On another thread it ends that thread only.
                if threading.current_thread() is threading.main_thread():
                    self._exit = error
                raise

        return noted


def _program() -> FrameType | None:
    """The outermost frame of the main thread; None where that runs no Python, as in a program that embeds it."""
    main = threading.main_thread()
    frame = sys._getframe() if threading.current_thread() is main else _frame_of(main)
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _frame_of(thread: threading.Thread) -> FrameType | None:
    """The frame that another thread runs.

    CPython 3.11 holds its lock of threads while it makes the frames. It waits for itself forever if that starts a garbage
    collection which deletes a `threading.local`: https://github.com/python/cpython/issues/106883.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return sys._current_frames().get(thread.ident or 0)
    finally:
        if is_collecting:
            gc.enable()


def _has_returned(frame: FrameType) -> bool:
    """Whether a frame that has ended was left by its end, and not by an exception."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN_")


def _was_caught(error: BaseException) -> bool:
    """Whether a program that has ended caught this exception and went on.

    The trace begins with the last frame that handled the exception. If it was left by the exception, it stands at the instruction
    where that came, or at one that raises again: a `finally`, a bare `raise`. What is raised again there is taken for the same.
    """
    trace = error.__traceback__
    return trace is not None and trace.tb_frame.f_lasti != trace.tb_lasti and not _raises_again(trace.tb_frame)


def _raises_again(frame: FrameType) -> bool:
    """Whether a frame was left by an exception that it was handling."""
    operation, argument = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2]
    return dis.opname[operation] == "RERAISE" or (dis.opname[operation], argument) == ("RAISE_VARARGS", 0)


EXIT_WATCH = ExitWatch()
"""The watch of this process."""


def _is_interactive() -> bool:
    """Whether Python runs a shell or a notebook, which goes on after an exception."""
    return hasattr(sys, "ps1") or ("IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None)
