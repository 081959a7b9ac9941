"""A hand on the system calls of a program: each of those watched waits in the kernel until the test says what becomes of it.

    with launched(["-m", "tests.support.sweep.lifecycle", …], CHANGES) as program:
        for call in program.calls:
            call.fail(errno.EIO) if call.number == 7 else call.go()

It is the kernel's own seccomp user notification (Linux 5.9 or newer, no privilege needed). Unlike strace's `when=N`, which counts
for each thread on its own, the calls of all threads and child processes come to one place, in one order, with one count:
"the n-th call" means one moment of the whole program, so every one of them can be tried. A call that was killed or failed was
not made; one that was held may be answered while others go on.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_NUMBERS = {
    "x86_64": {
        "write": 1, "pwrite64": 18, "pwritev": 296, "pwritev2": 328, "openat": 257, "mkdir": 83, "mkdirat": 258, "rename": 82,
        "renameat": 264, "renameat2": 316, "unlink": 87, "unlinkat": 263, "rmdir": 84, "link": 86, "linkat": 265, "fsync": 74,
        "fdatasync": 75, "ftruncate": 77, "fallocate": 285,
    },
    "aarch64": {
        "write": 64, "pwrite64": 68, "pwritev": 70, "pwritev2": 287, "openat": 56, "mkdirat": 34, "renameat": 38,
        "renameat2": 276, "unlinkat": 35, "linkat": 37, "fsync": 82, "fdatasync": 83, "ftruncate": 46, "fallocate": 47,
    },
}  # fmt: skip
_SECCOMP = {"x86_64": 317, "aarch64": 277}
SYNCS = ("fsync", "fdatasync")
NAMES = (
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "link",
    "linkat",
    "mkdir",
    "mkdirat",
    "openat",
)
"""Calls that change names; of `openat` only those that may make a file."""
WRITES = ("write", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate")
CHANGES = (*SYNCS, *NAMES, *WRITES)
"""Every call with which kvwal changes what is on a disk."""

_PATH_ARGUMENT = {"renameat": 1, "renameat2": 1, "unlinkat": 1, "linkat": 1, "mkdirat": 1, "openat": 1}
_BY_NAME = {"rename", "unlink", "rmdir", "link", "mkdir", *_PATH_ARGUMENT}
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_REQUEST = struct.Struct("<QIIiIQ6Q")
_RESPONSE = struct.Struct("<QqiI")
_CONTINUE = 1
_LOOK_MS = 100
_NO_FOLDER = 1 << 31


class _Instruction(ctypes.Structure):
    _fields_ = (("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("value", ctypes.c_uint))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


class Call(NamedTuple):
    """A call that waits. `number` counts from 1 over all threads and processes; `thread` made it."""

    number: int
    name: str
    thread: int
    arguments: tuple[int, ...]
    listener: int
    id: int

    @property
    def process(self) -> int:
        """The process of the thread."""
        status = Path(f"/proc/{self.thread}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Tgid:"))

    @property
    def path(self) -> str:
        """The file that is meant: of a rename or link the old name."""
        if self.name not in _BY_NAME:
            return os.readlink(f"/proc/{self.thread}/fd/{self.arguments[0]}")
        place = _PATH_ARGUMENT.get(self.name, 0)
        text = self._text(self.arguments[place])
        if text.startswith("/"):
            return text
        below = f"fd/{self.arguments[0]}" if place and self.arguments[0] < _NO_FOLDER else "cwd"
        return os.path.join(os.readlink(f"/proc/{self.thread}/{below}"), text)

    @property
    def new_path(self) -> str:
        """Of a rename or link the new name."""
        return self._text(self.arguments[3 if self.name.endswith(("at", "at2")) else 1])

    def __str__(self) -> str:
        return f"{self.name} {self.path}"

    def go(self) -> None:
        """Let the kernel do it."""
        self._answer(0, 0, _CONTINUE)

    def fail(self, error: int) -> None:
        """It was not done, and `error` is what the program gets."""
        self._answer(0, -error, 0)

    def write_part(self, most: int) -> None:
        """Of a `pwrite…`, write the first `most` bytes only, and say so: a short write, as a signal or a quota makes it."""
        data = self._data()[:most]
        fd = os.open(f"/proc/{self.thread}/fd/{self.arguments[0]}", os.O_WRONLY)
        try:
            done = os.pwrite(fd, data, self.arguments[3])
        finally:
            os.close(fd)
        self._answer(done, 0, 0)

    def kill(self) -> None:
        """SIGKILL for the process that made it; the call is not made."""
        os.kill(self.process, signal.SIGKILL)

    def _data(self) -> bytes:
        if self.name == "pwrite64":
            return self._memory(self.arguments[1], self.arguments[2])
        vector = array.array("Q", self._memory(self.arguments[1], 16 * self.arguments[2]))
        return b"".join(self._memory(start, size) for start, size in zip(vector[::2], vector[1::2], strict=True))

    def _text(self, address: int) -> str:
        page = 4096 - address % 4096
        text = self._memory(address, page)
        return os.fsdecode((text if b"\0" in text else text + self._memory(address + page, 4096)).partition(b"\0")[0])

    def _memory(self, address: int, size: int) -> bytes:
        with open(f"/proc/{self.thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)

    def _answer(self, value: int, error: int, flags: int) -> None:
        try:
            fcntl.ioctl(self.listener, _ANSWER, bytearray(_RESPONSE.pack(self.id, value, error, flags)))
        except FileNotFoundError:
            return  # it was killed while it waited


def missing() -> str | None:
    """What this machine lacks for it, as a sentence; None if nothing."""
    if sys.platform != "linux" or platform.machine() not in _NUMBERS:
        return f"seccomp's numbers of system calls are not known for {sys.platform} on {platform.machine()}"
    if os.path.exists("/proc/sys/kernel/seccomp/actions_avail"):
        actions = Path("/proc/sys/kernel/seccomp/actions_avail").read_text()
        if "user_notif" in actions.split():
            return None
    return "this kernel has no seccomp user notification: Linux 5.9 or newer is needed"


def watch_me(names: Sequence[str]) -> int:
    """Watch these calls of this thread, and of all threads and processes it makes from now on. Returns the listener."""
    machine = platform.machine()
    numbers = {name: _NUMBERS[machine][name] for name in names if name in _NUMBERS[machine]}
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges: a filter may be set without any
    program = _program(numbers)
    instructions = (_Instruction * len(program))(*program)
    listener = int(
        libc.syscall(_SECCOMP[machine], 1, 8, ctypes.byref(_Filter(len(program), instructions)))
    )  # SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER
    if listener < 0:
        raise OSError(ctypes.get_errno(), f"seccomp: {os.strerror(ctypes.get_errno())}")
    return listener


def adopt_orphans() -> None:
    """Become the parent of what children of this process leave behind, so that it can be waited for."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def _program(numbers: dict[str, int]) -> list[_Instruction]:
    """Notify if the call is one of these (an `openat` if it has O_CREAT), else allow."""
    load, equal, is_set, answer = 0x20, 0x15, 0x45, 0x06
    plain = [number for name, number in numbers.items() if name != "openat"]
    tests = [_Instruction(equal, len(plain) - place + 2, 0, number) for place, number in enumerate(plain)]
    return [
        _Instruction(load, 0, 0, 0),
        *tests,
        _Instruction(equal, 0, 3, numbers.get("openat", 0xFFFFFFFF)),
        _Instruction(load, 0, 0, 32),
        _Instruction(is_set, 0, 1, os.O_CREAT),
        _Instruction(answer, 0, 0, 0x7FC00000),
        _Instruction(answer, 0, 0, 0x7FFF0000),
    ]


class Calls:
    """The watched calls, one after the other, until every process that is watched has ended."""

    def __init__(self, listener: int, reap: Callable[[], object]) -> None:
        """`reap` waits, without blocking, for the children of this process: for older kernels a zombie is still watched."""
        self._listener = listener
        self._reap = reap
        self._names = {number: name for name, number in _NUMBERS[platform.machine()].items()}
        self.count = 0

    def __iter__(self) -> Iterator[Call]:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        while True:
            ready = poll.poll(_LOOK_MS)
            if not ready:
                self._reap()
                continue
            if not ready[0][1] & select.POLLIN:
                return
            request = bytearray(_REQUEST.size)
            try:
                fcntl.ioctl(self._listener, _RECEIVE, request)
            except FileNotFoundError:
                continue  # it was killed meanwhile
            id_, thread, _, number, _, _, *arguments = _REQUEST.unpack(request)
            self.count += 1
            yield Call(self.count, self._names[number], thread, tuple(arguments), self._listener, id_)


class Launched(NamedTuple):
    """A program under watch. Its output can be read while its calls are answered, or afterwards."""

    process: subprocess.Popen[bytes]
    calls: Calls


@contextmanager
def launched(arguments: Sequence[str], names: Sequence[str]) -> Iterator[Launched]:
    """`python ARGUMENTS…` under watch, its standard output a pipe. What is left of it at the end is killed."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = [
                sys.executable,
                "-m",
                "tests.support.sweep.syscalls",
                str(theirs.fileno()),
                ",".join(names),
                *arguments,
            ]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, pass_fds=[theirs.fileno()], cwd=Path(__file__).parents[3]
            )
        _, listeners, _, _ = socket.recv_fds(ours, 1, 1)
    (listener,) = listeners
    try:
        yield Launched(process, Calls(listener, process.poll))
    finally:
        os.close(listener)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def main() -> None:
    """Hand the listener to the launching process, and become the program."""
    fd, names, *arguments = sys.argv[1:]
    with socket.socket(fileno=int(fd)) as launcher:
        listener = watch_me(names.split(","))
        socket.send_fds(launcher, [b"."], [listener])
    os.close(listener)
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
