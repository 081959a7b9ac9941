"""Used for a long time, a process holds no more than at first: memory, objects, descriptors, threads, processes.

`KVWAL_GROWTH_SECONDS=600` makes it run longer; `python -m tests.support.programs.growth 600` prints what it measures.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from itertools import islice
from pathlib import Path

import psutil
import pytest

import kvwal
from tests.support.chance import new_seed
from tests.support.programs.growth import GROUPS, WARM_ROUNDS, Measured, rounds, trend

ROUNDS = 31
MIB = 1 << 20
CYCLES = 100


def long_enough(seed: int) -> list[Measured]:
    """A few thousand groups, or as many as the environment asks for."""
    end = time.monotonic() + float(os.environ.get("KVWAL_GROWTH_SECONDS", "0"))
    measured: list[Measured] = []
    for one in rounds(seed):
        measured.append(one)
        if len(measured) >= ROUNDS and time.monotonic() >= end:
            return measured
    raise AssertionError("the rounds ended")


@pytest.mark.long
def test_thousands_of_groups_leave_nothing_behind() -> None:
    measured = long_enough(new_seed())
    grown = trend(measured)
    assert measured[-1].groups >= 2 * GROUPS * ROUNDS
    assert (grown.descriptors, grown.threads, grown.children) == (0, 0, 0), grown
    # A leak of one object a group would be more than that, and one of a kilobyte a group.
    assert grown.objects < len(measured) * GROUPS / 10, grown
    assert grown.rss < len(measured) * GROUPS * 2 * 1024 + 16 * MIB, grown


def test_a_growth_is_seen() -> None:
    """What the test above would say of a process that keeps an object for each group."""
    leaking = [
        Measured(number, number * 120, 200 * MIB, 80_000 + number * 120, 6, 1, 0) for number in range(1, ROUNDS + 1)
    ]
    assert trend(leaking).objects > len(leaking) * GROUPS / 10
    assert trend(list(islice(leaking, WARM_ROUNDS + 3))).objects == 240


@pytest.mark.long
def test_stores_that_are_opened_and_closed_leave_nothing_behind(tmp_path: Path) -> None:
    """With the archiver's real process in some of them."""
    me = psutil.Process()
    counts = []
    gc.collect()  # what other tests have left may hold descriptors
    for number in range(CYCLES):
        archive = tmp_path / "archive" if number % 50 == 49 else None
        with kvwal.open(tmp_path / "root", archive=archive) as store:
            store.map("jobs")[number % 10] = number
            if archive is not None:
                store.archive()
        counts.append((me.num_fds(), threading.active_count(), len(me.children())))
    assert counts[-1] == counts[10]
