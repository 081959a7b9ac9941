"""The door to threads and processes."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")

Lock = threading.Lock


class Workers(Protocol):
    """Where calls that block (a write, an fdatasync) run, so that the event loop does not."""

    async def run(self, call: Callable[[], T]) -> T:
        """Run `call` elsewhere and return what it returns. Once begun it is not cancelled."""
        ...

    async def commit(self, call: Callable[[], T]) -> T:
        """As `run`, for the write of a group: it may be done right here, if nobody else waits for this thread."""
        ...

    def close(self) -> None:
        """Wait for what runs, and take no more."""
        ...


class ThreadWorkers:
    """A pool of threads. With `own_loop` the event loop belongs to kvwal alone, so a commit need not leave it.

    The way to another thread and back costs as much as an fdatasync of a fast disk. It pays only where several logs are
    open, which then commit at the same time: `logs` counts them.
    """

    def __init__(self, name: str, threads: int = 4, *, own_loop: bool = False) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._own_loop = own_loop
        self.logs = 0

    async def run(self, call: Callable[[], T]) -> T:
        """See `Workers.run`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    async def commit(self, call: Callable[[], T]) -> T:
        """See `Workers.commit`."""
        if self._own_loop and self.logs == 1:
            return call()
        return await self.run(call)

    def close(self) -> None:
        """See `Workers.close`."""
        self._pool.shutdown(wait=True)


class LoopThread:
    """An event loop on a thread of its own: how synchronous callers reach the asyncio core."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine there without waiting."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Child:
    """A Python process of its own that answers one line with one line. Used by one thread at a time."""

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )

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


def serve_parent(answer: Callable[[bytes], bytes], *, niceness: int) -> None:
    """The other end of `Child`: answer each line of standard input, until it ends. Runs at low priority.

    Only answers go to standard output; what a library prints goes to standard error. A Ctrl-C is for the parent, which then
    closes our input.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(niceness)
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin.buffer:
        rest = memoryview(answer(line) + b"\n")
        while rest:
            rest = rest[os.write(answers, rest) :]


class Forkable(Protocol):
    """Something that a forked child of this process must not use: its threads are not there."""

    def forked(self) -> None:
        """Called once, in the child, before anything else runs there."""
        ...


_forkables: WeakSet[Forkable] = WeakSet()


def tell_if_forked(thing: Forkable) -> None:
    """Have `thing.forked()` called in every child that this process forks, as long as somebody holds it."""
    _forkables.add(thing)


def _forked() -> None:
    for thing in list(_forkables):
        thing.forked()


os.register_at_fork(after_in_child=_forked)


def whoami() -> str:
    """This process as another one's error message should name it."""
    return f"pid {os.getpid()} on {socket.gethostname()}"
