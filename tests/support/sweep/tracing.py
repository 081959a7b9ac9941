"""Processes as strace sees and disturbs them: from outside, while they run."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="strace is not here, and only it can make fdatasync fail, or see what is opened",
)
_OPENED = re.compile(r'open(?:at)?\((?:AT_FDCWD, )?"(/[^"]*)"')


@contextmanager
def failing_fdatasync(pid: int, when: str = "1+") -> Iterator[None]:
    """From now on each fdatasync of the process fails, but for those that `when` leaves out, as strace counts them."""
    inject = f"inject=fdatasync:error=EIO:when={when}"
    with _traced([pid], "-e", "trace=fdatasync", "-e", inject):
        yield


@contextmanager
def slow_fdatasync(pid: int, seconds: int) -> Iterator[None]:
    """From now on each fdatasync of the process begins so much later."""
    inject = f"inject=fdatasync:delay_enter={seconds}s"
    with _traced([pid], "-e", "trace=fdatasync", "-e", inject):
        yield


@contextmanager
def opened_paths(*pids: int) -> Iterator[list[Path]]:
    """A list that has, after the `with` block, every file and folder that these processes opened in it, in order."""
    opened: list[Path] = []
    with _traced(pids, "-s", "4096", "-e", "trace=open,openat") as lines:
        yield opened
    opened += [Path(found[1]) for line in lines if (found := _OPENED.search(line))]


@contextmanager
def _traced(pids: Sequence[int], *arguments: str) -> Iterator[list[str]]:
    """Run strace on these processes and their threads. The list has, after the `with` block, every line that it printed."""
    targets = [argument for pid in pids for argument in ("-p", str(pid))]
    tracer = subprocess.Popen(["strace", "-f", *arguments, *targets], stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    for _ in pids:
        first = tracer.stderr.readline()
        if "attached" not in first:
            tracer.kill()
            pytest.skip(f"strace may not attach here: {first.strip()}")
    lines: list[str] = []
    drain = threading.Thread(target=lines.extend, args=[tracer.stderr])
    drain.start()
    try:
        yield lines
    finally:
        tracer.terminate()
        tracer.wait()
        drain.join()
