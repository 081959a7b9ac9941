"""Finalizers of the program that use a store while the interpreter ends, when no other thread runs any more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kvwal

PROGRAM = """
import sys, threading, kvwal
from kvwal import StoreClosed
store = kvwal.open(sys.argv[1], archive=None)
notes = store.map("notes")
notes["a"] = 1
WRITE = "for number in range(1 << 30): notes[f'key-{number % 100}'] = number; busy.set()"
busy = threading.Event()
if len(sys.argv) > 2:  # apart from this module, whose names go when the interpreter ends
    threading.Thread(target=exec, args=(WRITE, {"notes": notes, "busy": busy}), daemon=True).start()
    busy.wait()
class Session:
    def __del__(self, store=store, notes=notes, refused=StoreClosed, say=sys.stderr.buffer.write):
        try:
            USE
        except refused as error:
            say(f"refused: {error}\\n".encode())
        say(b"the end\\n")
session = Session()
"""
REFUSED = [
    "notes['end'] = 1", "notes.put('end', 1)", "notes.submit('end', 1).result()", "notes.put_many({'end': 1})",
    "notes.put_if_absent('end', 1)", "notes.clear()", "store.checkpoint()", "store.map('other')",
]  # fmt: skip


def ran(root: Path, use: str, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.replace("USE", use), str(root), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("use", REFUSED)
@pytest.mark.variants(3)
def test_a_write_of_a_finalizer_at_the_end_is_refused_and_the_program_ends(tmp_path: Path, use: str) -> None:
    process = ran(tmp_path, use)
    refused, end = process.stderr.splitlines()
    assert refused.startswith(
        "refused: the program ends, and the threads of the store do not run any more; nothing was written."
    )
    assert (end, process.returncode) == ("the end", 0)
    with kvwal.open(tmp_path, archive=None) as store:
        assert dict(store.map("notes")) == {"a": 1}


@pytest.mark.parametrize("use", ["store.close()", "assert notes['a'] == 1 and len(notes) == 1"])
def test_a_finalizer_at_the_end_may_close_and_read(tmp_path: Path, use: str) -> None:
    process = ran(tmp_path, use)
    assert (process.stderr, process.returncode) == ("the end\n", 0)


def test_a_write_of_a_finalizer_beside_threads_that_write_is_refused_too(tmp_path: Path) -> None:
    """The end stops them anywhere, with the locks that they hold."""
    for _ in range(5):
        process = ran(tmp_path, "notes['end'] = 1", "busy")
        assert process.stderr.splitlines()[-1] == "the end"
        assert process.returncode == 0
