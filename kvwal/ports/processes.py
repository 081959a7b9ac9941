"""The door to processes: this one, its forks, and the one that archives for it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from kvwal.ports.boundary import contain_each, logged
from kvwal.ports.locks import Lock


class Child:
    """A Python process of its own that answers one line with one line. Used by one thread at a time."""

    def __init__(self, module: str) -> None:
        with _starting:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
            tell_if_forked(self)

    def ask(self, line: bytes) -> bytes:
        """Send a line and wait for the answer. `EOFError` if the process ended instead."""
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise EOFError("the process has no pipes")
        try:
            stdin.write(line + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise EOFError(self._ended()) from None
        answer = stdout.readline()
        if not answer.endswith(b"\n"):
            raise EOFError(self._ended())
        return answer

    def _ended(self) -> str:
        return f"process {self._process.pid} ended with code {self._process.wait()}"

    def close(self) -> None:
        """Let it finish what it does, and wait for its end."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # it died with a line of ours unread
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def forked(self) -> None:
        """Let go of the pipes, which are the parent's: the process would else not see the end of its input before ours."""
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(nothing, pipe.fileno(), inheritable=False)
        os.close(nothing)


def serve_parent(answer: Callable[[bytes], bytes], *, niceness: int) -> None:
    """The other end of `Child`: answer each line of standard input, until it ends. Runs at low priority.

    Only answers go to standard output; what a library prints goes to standard error. A Ctrl-C, and a SIGTERM to the whole group
    of processes, is for the parent, which then closes our input.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(niceness)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        rest = memoryview(answer(line) + b"\n")
        with suppress(BrokenPipeError):  # the parent was killed: nobody waits for it
            while rest:
                rest = rest[os.write(answers, rest) :]


class Forkable(Protocol):
    """Something that a forked child of this process must not use: its threads are not there."""

    def forked(self) -> None:
        """Called once, in the child, before anything else runs there."""
        ...


_forkables: WeakSet[Forkable] = WeakSet()
_guards: WeakKeyDictionary[Lock, None] = WeakKeyDictionary()
_taken: list[Lock] = []
_not_forked = logged("something that a forked child must not use could not be told so")


def tell_if_forked(thing: Forkable) -> None:
    """Have `thing.forked()` called in every child that this process forks, as long as somebody holds it."""
    _forkables.add(thing)


def take_before_fork(lock: Lock) -> None:
    """Fork only while nobody holds `lock`, so that a child finds it free, and what it guards whole.

    Where one thread holds several of them at a time, it takes them in the order in which they came here.
    """
    _guards[lock] = None


def _forking() -> None:
    locks = list(_guards)
    for lock in locks:
        lock.acquire()
    _taken.extend(locks)


def _forked_in_parent() -> None:
    while _taken:
        _taken.pop().release()


def _forked_in_child() -> None:
    _forked_in_parent()
    contain_each([thing.forked for thing in list(_forkables)], _not_forked)


os.register_at_fork(before=_forking, after_in_parent=_forked_in_parent, after_in_child=_forked_in_child)

_starting = Lock()
take_before_fork(_starting)


def whoami() -> str:
    """This process as another one's error message should name it."""
    return f"pid {os.getpid()} on {socket.gethostname()}"
