"""Process port: this process, its forks, and child processes that answer requests."""

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
    """A child process that runs a Python module and answers each line with one line. Used by one thread at a time."""

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
        """Send a line and wait for the answer. `EOFError` if the process ended before it answered."""
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
        """Close the child's input, let it finish its last request, and wait for its end."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # the child died before it read the last line
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def forked(self) -> None:
        """In a forked child: replace the pipes, which are the parent's. The copies would keep the archiver's input open."""
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(null, pipe.fileno(), inheritable=False)
        os.close(null)


def serve_parent(answer: Callable[[bytes], bytes], *, niceness: int) -> None:
    """The main loop of a `Child`: answer each line of standard input, until its end. Runs at low priority (`niceness`).

    Only answers go to standard output; output of libraries goes to standard error. The child ignores SIGINT and SIGTERM, which a
    terminal or a service manager sends to the whole process group: the parent closes the child's input instead.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.nice(niceness)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        rest = memoryview(answer(line) + b"\n")
        with suppress(BrokenPipeError):  # the parent was killed and needs no answer
            while rest:
                rest = rest[os.write(answers, rest) :]


class Forkable(Protocol):
    """An object that a forked child must not use, because the child does not have its threads."""

    def forked(self) -> None:
        """Called once in the child, before any other code runs there."""
        ...


_forkables: WeakSet[Forkable] = WeakSet()
_guards: WeakKeyDictionary[Lock, None] = WeakKeyDictionary()
_taken: list[Lock] = []
_fork_hook_failed = logged("an object that a forked child must not use could not be disabled in the child")


def tell_if_forked(thing: Forkable) -> None:
    """Call `thing.forked()` in every forked child of this process, as long as there is a reference to `thing`."""
    _forkables.add(thing)


def take_before_fork(lock: Lock) -> None:
    """Take `lock` before each fork, so that the lock is free in the child, and the data that it guards is consistent.

    A thread that holds several of these locks at a time takes them in the order in which they were registered here.
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
    contain_each([thing.forked for thing in list(_forkables)], _fork_hook_failed)


os.register_at_fork(before=_forking, after_in_parent=_forked_in_parent, after_in_child=_forked_in_child)

_starting = Lock()
take_before_fork(_starting)


def whoami() -> str:
    """Name of this process for error messages of other processes."""
    return f"pid {os.getpid()} on {socket.gethostname()}"
