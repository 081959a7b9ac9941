"""A life (`tests.support.sweep.lifecycle`) in forked processes: each call that changes a disk waits for the test.

The program and its archiver are forked from a process that has imported everything, so that a life takes a fraction of a second.
One that hangs tells where each of its threads is, and ends.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from kvwal.archiver import __main__ as archiver
from kvwal.errors import KvwalError
from kvwal.ports.processes import Child
from tests.support.sweep.lifecycle import Life, begin_again
from tests.support.sweep.syscalls import CHANGES, Call, Calls, watch_me

REFUSED = 3
"""How a life ends that met one of kvwal's own errors."""
HUNG_S = 240
"""A life, and a look at what it left, takes about a second."""


faulthandler.register(signal.SIGALRM, chain=True)  # say where it hangs, then die of the signal, as it would have


class _Forked:
    """What `Child` needs of its process: here one that was forked before there was any thread."""

    def __init__(self, pid: int, stdin: Any, stdout: Any) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.code: int | None = None
        self.is_ready = False
        """Whether a store has read that the process is ready."""

    def wait(self) -> int:
        """How it ended, when it has."""
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.code


class ReadyChild(Child):
    """An archiver's process that was forked, not started. Closed, it stands ready for the next store, if it still lives."""

    def __init__(self, ready: list[_Forked]) -> None:
        self._ready = ready
        self._process: Any = ready.pop(0)
        self._answers = self._process.stdout
        self._is_ready = self._process.is_ready

    def close(self) -> None:
        """See `Child.close`."""
        self._process.is_ready = self._is_ready
        if self._process.code is None:
            self._ready.append(self._process)
        else:
            super().close()


def fork(work: Callable[[], int | None]) -> int:
    """A child that does `work` and ends with what that returns; with 1, and a traceback, if it raises."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    signal.alarm(HUNG_S)
    try:
        code = work() or 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stderr.flush()
        os._exit(code)


def archivers(count: int = 1) -> Callable[[], Child]:
    """So many archiver processes, ready to be a store's child."""
    ready: list[_Forked] = []
    for _ in range(count):
        questions, answers = os.pipe(), os.pipe()

        def serve(questions: tuple[int, int] = questions, answers: tuple[int, int] = answers) -> None:
            for other in ready:
                other.stdin.close()
                other.stdout.close()
            os.dup2(questions[0], 0)
            os.dup2(answers[1], 1)
            for fd in (*questions, *answers):
                os.close(fd)
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            sys.argv = [sys.argv[0], "1"]  # answers go to this descriptor
            archiver.main()

        pid = fork(serve)
        os.close(questions[0])
        os.close(answers[1])
        ready.append(_Forked(pid, os.fdopen(questions[1], "wb"), os.fdopen(answers[0], "rb")))
    return lambda: ReadyChild(ready)


class Victim:
    """A life under watch, in the folder `base`, which is made anew. `program` is its process.

    `calls` are those that change something in `base`, of whichever process; what else they do is let pass.
    """

    def __init__(self, base: Path, mode: str) -> None:
        begin_again(base)
        self._words = base.with_name(f"{base.name}.told")
        words = os.open(self._words, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND)
        self._ended: dict[int, int] = {}
        ours, theirs = socket.socketpair()

        def live() -> int:
            ours.close()
            listener = watch_me(CHANGES)
            socket.send_fds(theirs, [b"."], [listener])
            os.close(listener)
            theirs.close()
            return live_once(base, mode, lambda word: os.write(words, f"{word}\n".encode()))

        self.program = fork(live)
        os.close(words)
        theirs.close()
        self._listener = socket.recv_fds(ours, 1, 1)[1][0]
        ours.close()
        self._watched = iter(Calls(self._listener, self._reap))
        self.calls = self._inside(f"{base}/")

    def _inside(self, base: str) -> Iterator[Call]:
        for call in self._watched:
            if call.path.startswith(base):
                yield call
            else:
                call.go()

    def stage(self) -> str:
        """The stage in which the life is."""
        return [word for word in ("open", *self.told()) if word not in ("begin", "done")][-1]

    def told(self) -> list[str]:
        """What the program has told so far."""
        return self._words.read_text().splitlines()

    def kill(self) -> None:
        """SIGKILL for the program. When this returns, it is dead, and its lock is free."""
        os.kill(self.program, signal.SIGKILL)
        self._ended[self.program] = os.waitstatus_to_exitcode(os.waitpid(self.program, 0)[1])

    def finish(self) -> int:
        """Let all that is left of it go on to its end, and say how the program ended."""
        for call in self._watched:
            call.go()
        self._reap()
        if self.program not in self._ended:
            self._ended[self.program] = os.waitstatus_to_exitcode(os.waitpid(self.program, 0)[1])
        os.close(self._listener)
        hung = -signal.SIGALRM
        return hung if hung in self._ended.values() else self._ended[self.program]

    def _reap(self) -> None:
        """Take note of the processes that ended: until then they may still count as watched."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                self._ended[ended[0]] = os.waitstatus_to_exitcode(ended[1])


def live_once(base: Path, mode: str, tell: Callable[[str], object]) -> int:
    """A life in this process. An error of kvwal's own is told, and ends it."""
    start = archivers(2 if mode == "archiver" else 1)
    try:
        Life(base, 0, tell, start).live()
    except KvwalError as error:
        tell(f"refused {type(error).__name__}: {error}")
        return REFUSED
    return 0
