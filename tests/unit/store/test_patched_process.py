"""A process in which a library has replaced threads or clocks, or in which the program copies its store."""

from __future__ import annotations

import asyncio
import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kvwal
import kvwal.aio

PATCHED = """
import asyncio, socket, sys, types, kvwal, kvwal.aio
modules = {"gevent": ("gevent.monkey", "is_module_patched"), "eventlet": ("eventlet.patcher", "is_monkey_patched")}
library, asked = modules[sys.argv[2]]
patcher = types.ModuleType(library)
setattr(patcher, asked, lambda name: name == sys.argv[3])
sys.modules[library] = patcher

async def open_in_a_loop():
    async with kvwal.aio.open(sys.argv[1], archive=None) as store:
        await store.map("notes")

async def connect_in_a_loop():
    async with kvwal.aio.connect("127.0.0.1:1"):
        pass

socket.create_connection = None  # nothing is sent
for begin in (
    lambda: kvwal.open(sys.argv[1], archive=None),
    lambda: asyncio.run(open_in_a_loop()),
    lambda: kvwal.connect("127.0.0.1:1"),
    lambda: asyncio.run(connect_in_a_loop()),
):
    try:
        begin()
    except kvwal.ConfigError as error:
        print(error)
kvwal.open(sys.argv[1], archive=None, read_only=True)
setattr(patcher, asked, lambda name: False)
with kvwal.open(sys.argv[1], archive=None) as store:
    store.map("notes")["a"] = 1
"""
FROZEN = """
import sys, time
from pathlib import Path
import kvwal
root = Path(sys.argv[1])
settings = kvwal.Settings(checkpoint_seconds=0.1, archive_seconds=0.1)
with kvwal.open(root, settings=settings) as store:
    time.monotonic, real = (lambda: 5.0), time.monotonic
    time.time_ns = lambda: 1_700_000_000_000_000_000
    store.map("notes")["a"] = 1
    while not list(root.rglob("*.parquet")):
        store.stats()
    time.monotonic = real
print("archived")
"""


@pytest.mark.parametrize(
    ("library", "patched"),
    [
        ("gevent", "threading"),
        ("gevent", "select"),
        ("gevent", "socket"),
        ("eventlet", "thread"),
        ("eventlet", "select"),
        ("eventlet", "socket"),
    ],
)
@pytest.mark.variants(3)
def test_a_process_that_gevent_or_eventlet_has_patched_is_refused(tmp_path: Path, library: str, patched: str) -> None:
    """A stand-in for the library's own module of patches: tests do not install these libraries."""
    ran = subprocess.run(
        [sys.executable, "-c", PATCHED, tmp_path, library, patched], capture_output=True, text=True, check=True
    )
    said = ran.stdout.splitlines()
    assert len(said) == 4, said
    assert all(line.startswith(f"{library} has replaced threads and sockets of this process") for line in said)


def test_maintenance_goes_on_while_a_test_has_frozen_the_clock(tmp_path: Path) -> None:
    """As freezegun does it: `time.monotonic` and `time.time_ns` return the same number each time."""
    ran = subprocess.run([sys.executable, "-c", FROZEN, tmp_path], capture_output=True, text=True, check=True)
    assert ran.stdout == "archived\n"


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickle.dumps]


@pytest.mark.parametrize("copied", COPIES)
def test_a_store_and_a_map_are_not_copied(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    """A copy that was dropped would close the store that it was made of."""
    with kvwal.open(tmp_path, archive=None) as store:
        notes = store.map("notes")
        holder = {"state": [notes]}
        for thing in (store, notes, holder):
            if copied is not copy.copy or thing is not holder:
                with pytest.raises(TypeError, match=r"a \w+ cannot be copied or pickled: it has threads and files"):
                    copied(thing)
        notes["a"] = 1
        assert dict(notes) == {"a": 1}


async def _of_a_loop(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    async with kvwal.aio.open(tmp_path, archive=None) as store:
        for thing in (store, store.map("notes")):
            with pytest.raises(kvwal.WrongType, match=r"a \w+ cannot be copied or pickled"):
                copied(thing)


@pytest.mark.parametrize("copied", COPIES)
def test_a_store_of_an_event_loop_is_not_copied(tmp_path: Path, copied: Callable[[Any], Any]) -> None:
    asyncio.run(_of_a_loop(tmp_path, copied))
