"""A node whose disk fails, as strace makes it: from outside, while it runs."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None, reason="strace is not here, and only it can make fdatasync fail"
)


@contextmanager
def failing_fdatasync(pid: int, when: str = "1+") -> Iterator[None]:
    """From now on each fdatasync of the process fails, but for those that `when` leaves out, as strace counts them."""
    inject = f"inject=fdatasync:error=EIO:when={when}"
    command = ["strace", "-f", "-e", "trace=fdatasync", "-e", inject, "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    if "attached" not in first:
        pytest.skip(f"strace may not attach here: {first.strip()}")
    drain = threading.Thread(target=tracer.stderr.read)
    drain.start()
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait()
        drain.join()
