"""Process port: this process, its forks, and child processes that answer requests."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

from kvwal.ports.boundary import contain_each, logged
from kvwal.ports.children import interpreter
from kvwal.ports.children.interpreter import NoInterpreter
from kvwal.ports.children.standard_streams import not_standard, standard_error
from kvwal.ports.locks import Lock


class NotStarted(Exception):
    """A child process ended before it could answer anything."""


class Child:
    """A child process that runs a Python module and answers each line with one line. Used by one thread at a time.

    Requests go to its standard input. Answers come through a pipe of their own, because Python, a library or a program may print
    to standard output. That, and standard error, go to this process's standard error; if it is closed, nowhere.
    """

    def __init__(self, module: str) -> None:
        """Start the process. Raises `NoInterpreter`, and the `OSError` of the system."""
        with _starting:
            reading, writing = map(not_standard, os.pipe())
            try:
                command = interpreter.command(module, str(writing))
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=standard_error(),
                    stderr=standard_error(),
                    pass_fds=[writing],
                    cwd=_folder_that_exists(),
                    env=interpreter.environment(),
                )
            except (NoInterpreter, OSError):
                os.close(reading)
                raise
            finally:
                os.close(writing)
            self._program = command[0]
            self._answers = os.fdopen(reading, "rb")
            self._is_ready = False
            tell_if_forked(self)

    def ask(self, line: bytes) -> bytes:
        """Send a line and wait for the answer.

        `EOFError` if the process ended before it answered; `NotStarted` if it did before it could answer anything.
        """
        if not self._is_ready:
            self._await_ready()
        stdin = self._process.stdin
        if stdin is None:
            raise EOFError("the process has no pipes")
        try:
            stdin.write(line + b"\n")
            stdin.flush()
        except BrokenPipeError:
            raise EOFError(self._ended()) from None
        answer = self._answers.readline()
        if not answer.endswith(b"\n"):
            raise EOFError(self._ended())
        return answer

    def _await_ready(self) -> None:
        if self._answers.readline() != _READY:
            code = self._process.wait()
            raise NotStarted(f"ended with code {code} before it could take a job ({self._program})")
        self._is_ready = True

    def _ended(self) -> str:
        return f"process {self._process.pid} ended with code {self._process.wait()}"

    def close(self) -> None:
        """Close the child's input, let it finish its last request, and wait for its end."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # the child died before it read the last line
                self._process.stdin.close()
        self._process.wait()
        self._answers.close()

    def kill(self) -> None:
        """End the process at once, also in the middle of a request: `ask` raises `EOFError` then. Any thread may call it."""
        self._process.kill()

    def forked(self) -> None:
        """In a forked child: replace the pipes, which are the parent's. The copies would keep the archiver's input open."""
        null = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._process.stdin, self._answers):
            if pipe is not None and not pipe.closed:
                os.dup2(null, pipe.fileno(), inheritable=False)
        os.close(null)


_READY = b"ready\n"
"""What a child says first."""


def _folder_that_exists() -> str | None:
    """The current folder of a child: this process's; the root of the file system if that was deleted."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return os.sep
    return None


def serve_parent(answer: Callable[[bytes], bytes]) -> None:
    """The main loop of a `Child`: answer each line of standard input, until its end.

    Answers go to the descriptor that the first argument of the program names. The child ignores SIGINT and SIGTERM, which a
    terminal or a service manager sends to the whole process group: the parent closes the child's input instead.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    answers = int(sys.argv[1])
    with suppress(BrokenPipeError):  # the parent was killed and needs no answer
        _write(answers, _READY)
        for line in sys.stdin.buffer:
            _write(answers, answer(line) + b"\n")


def limit_memory(most: int) -> None:
    """Let this process have at most `most` bytes of memory: an allocation beyond them fails, in Python and in libraries."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def end_after(seconds: int) -> None:
    """Let this process be ended by a signal after `seconds`, also in the middle of a call of a library; 0 takes that back."""
    signal.alarm(seconds)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


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
