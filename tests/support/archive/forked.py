"""Archiver processes that are forked from one that has loaded all they need: they take their first job at once.

A new interpreter loads Arrow and what it looks for (pandas) for longer than the job of a test takes, and hundreds of tests have
an archiver. Here it is a process of its own as well, with the same pipes, and ends in the same way. Programs that tests start
have archivers that were started in earnest, as have tests with the fixture `started_archivers`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kvwal.archiver.remote import MODULE
from kvwal.ports import processes
from kvwal.ports.children import interpreter

_LOADED = (
    "pandas", "pyarrow.compute", "pyarrow.dataset", "pyarrow.fs", "pyarrow.pandas_compat", "pyarrow.parquet", "s3fs",
    "kvwal_archive.objects",
)  # fmt: skip
"""What an archiver loads with its first jobs."""
_MOST_BYTES = 1 << 18
"""Of a request: an environment is its largest part."""


@contextmanager
def forked_archivers() -> Iterator[None]:
    """For the block, archivers of stores of this process are forked."""
    with ExitStack() as stack:
        loaded = _Loaded(stack)
        instead = SimpleNamespace(PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL, Popen=loaded.popen)
        stack.enter_context(patch.object(processes, "subprocess", instead))
        yield


@contextmanager
def started_archivers() -> Iterator[None]:
    """For the block, archivers of stores of this process are started with an interpreter of their own."""
    with patch.object(processes, "subprocess", subprocess):
        yield


class _Loaded:
    """The process that has loaded everything, as this process sees it. It is started when it is needed first."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._requests: socket.socket | None = None
        self._owner = os.getpid()

    def popen(self, command: list[str], **given: Any) -> Any:
        """Instead of `subprocess.Popen`, as `Child` calls it."""
        is_archiver = MODULE in command and command[0] == interpreter.interpreter() == sys.executable
        if not is_archiver or os.getpid() != self._owner:
            return subprocess.Popen(command, **given)
        if self._requests is None:
            self._requests = self._start()
        return _Forked(self._requests, **given)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                interpreter.command(__name__, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=interpreter.environment(),
                cwd=Path(__file__).parents[3],
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)  # a test's forked child may still have the other end of its socket
        self._stack.enter_context(ours)
        return ours


class _Forked:
    """What `Child` needs of its process: here one that was forked."""

    def __init__(
        self, requests: socket.socket, *, stdin: int, stdout: int, stderr: int, pass_fds: list[int], cwd: str | None,
        env: dict[str, str],
    ) -> None:  # fmt: skip
        assert stdin == subprocess.PIPE
        assert stdout == stderr
        with ExitStack() as theirs:
            reading, writing = os.pipe()
            theirs.callback(os.close, reading)
            self._code, code = os.pipe()
            theirs.callback(os.close, code)
            if stderr == subprocess.DEVNULL:
                stderr = os.open(os.devnull, os.O_RDWR)
                theirs.callback(os.close, stderr)
            asked = {"environment": env, "folder": cwd or os.getcwd(), "umask": _umask()}
            socket.send_fds(requests, [json.dumps(asked).encode()], [reading, stderr, *pass_fds, code])
            self.pid = int(requests.recv(_MOST_BYTES))
        self.stdin = os.fdopen(writing, "wb")
        self.returncode: int | None = None

    def wait(self) -> int:
        """How it ended, when it has."""
        if self.returncode is None:
            with os.fdopen(self._code) as code:
                self.returncode = int(code.read())
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _umask() -> int:
    """That of this process. Asking the system for it means setting it, which threads would see."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)


def _serve() -> None:
    """Fork an archiver for each request, and tell how each ended. Returns in each archiver; here it exits."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wakes)
    codes: dict[int, int] = {}
    while True:
        ready = select.select([requests, woken], [], [])[0]
        if woken in ready:
            os.read(woken, _MOST_BYTES)
            _reap(codes)
        if requests in ready:
            asked, descriptors, _, _ = socket.recv_fds(requests, _MOST_BYTES, 4)
            if not asked:
                sys.exit()
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for descriptor in (requests.detach(), woken, wakes, *codes.values(), descriptors.pop()):
                    os.close(descriptor)
                _become(json.loads(asked), descriptors)
                return
            codes[pid] = descriptors.pop()
            for descriptor in descriptors:
                os.close(descriptor)
            requests.send(str(pid).encode())


def _reap(codes: dict[int, int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            with suppress(BrokenPipeError), os.fdopen(codes.pop(ended[0]), "w") as code:
                code.write(str(os.waitstatus_to_exitcode(ended[1])))


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Have the pipes, the environment and the folder of the one that asked."""
    reading, error, answers = descriptors
    for descriptor, standard in ((reading, 0), (error, 1), (error, 2)):
        os.dup2(descriptor, standard)
    os.close(reading)
    os.close(error)
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    os.chdir(asked["folder"])
    os.umask(asked["umask"])
    sys.stdin = os.fdopen(0)
    sys.argv = [MODULE, str(answers)]


def main() -> None:
    """Load what archivers need, and fork them."""
    archiver = import_module(f"{MODULE}.__main__")
    for name in _LOADED:
        import_module(name)
    gc.collect()
    gc.freeze()
    _serve()
    archiver.main()


if __name__ == "__main__":
    main()
