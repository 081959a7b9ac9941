"""kill -9 says nothing about fsync, because the page cache survives it. So the kernel's own record is asked: between each
write of the log and the acknowledgement of what it held stands an fdatasync of the same file that succeeded.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.programs.acknowledge import WRITES

CALL = re.compile(r"(?:\[pid +\d+\] |\d+ +)?(?P<name>\w+)\((?P<fd>\d+)(?:<(?P<path>[^>]*)>)?(?P<rest>.*)")
RESUMED = re.compile(r"(?P<pid>\d+) +<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")


class Event(NamedTuple):
    """A finished system call, in the order in which they ended."""

    name: str
    path: str
    text: str


def events(trace: str) -> list[Event]:
    """The calls of a trace of several threads; one that another thread interrupted counts where it ended."""
    found: list[Event] = []
    begun: dict[str, re.Match[str]] = {}
    for line in trace.splitlines():
        pid = line.split(maxsplit=1)[0]
        if resumed := RESUMED.match(line):
            call = begun.pop(pid)
            found.append(Event(call["name"], call["path"] or "", call["rest"] + resumed["rest"]))
        elif call := CALL.match(line):
            if "<unfinished" in line:
                begun[pid] = call
            else:
                found.append(Event(call["name"], call["path"] or "", call["rest"]))
    return found


@pytest.mark.parametrize("threads", [1, 4])
def test_an_fdatasync_between_each_write_and_its_acknowledgement(tmp_path: Path, threads: int) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: apt-get install strace")
    trace = tmp_path / "trace"
    traced = [
        "strace",
        "-f",
        "-y",
        "-s",
        "60",
        "-o",
        str(trace),
        "-e",
        "trace=write,pwritev,pwritev2,pwrite64,fdatasync",
    ]
    program = [sys.executable, "-m", "tests.support.programs.acknowledge", str(tmp_path / "root"), str(threads)]
    subprocess.run([*traced, *program], check=True, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
    unsynced, groups, syncs = False, 0, 0
    before: dict[str, int] = {}
    acknowledged = 0
    for event in events(trace.read_text()):
        if event.name.startswith("pwrite") and event.path.endswith(".wal"):
            unsynced = True
            groups += 1
        elif event.name == "fdatasync" and event.path.endswith(".wal"):
            assert event.text.endswith("= 0"), event
            unsynced = False
            syncs += 1
        elif event.name == "write" and "acknowledged" in event.text:
            acknowledged += 1
            thread = event.text.split()[2]
            assert syncs > before.get(thread, 0), f"nothing was synced for {event}"
            before[thread] = syncs
            # With several threads the next group may already be on its way when an earlier one is acknowledged.
            if threads == 1:
                assert not unsynced, event
    assert acknowledged == WRITES * threads
    assert groups >= WRITES
