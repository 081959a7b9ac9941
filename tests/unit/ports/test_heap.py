"""The heap of the C library."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNT_PARTS = """
import ctypes, sys
from threading import Barrier, Thread
from kvwal.ports.posix.heap import share_heap
assert sys.argv[1] == "apart" or share_heap()
together = Barrier(4)
def allocate():
    together.wait()
    kept.append(bytearray(100_000))
    together.wait()
kept = []
threads = [Thread(target=allocate) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap, or say nothing of its parts"
)
def test_all_threads_share_one_part_of_the_heap() -> None:
    parts = {
        how: subprocess.run(
            [sys.executable, "-c", COUNT_PARTS, how], check=True, capture_output=True, text=True
        ).stdout.count("<heap nr=")
        for how in ("apart", "shared")
    }
    assert parts["shared"] == 1 < parts["apart"]
