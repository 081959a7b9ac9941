"""kill -9 while items go from queue to queue: each is in exactly one of them, in its order, and the map says how many moved."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kvwal
from tests.support.chance import new_seed
from tests.support.programs.worklist import FIELD, SETTINGS

ROUNDS, SAMPLE = 40, 4


def killed_after(root: Path, seed: int, lines: int, *more: str) -> tuple[int, int]:
    """The numbers that were acknowledged last, as put and as moved."""
    command = [sys.executable, "-m", "tests.support.programs.worklist", str(root), str(seed), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True) as process:
        assert process.stdout is not None
        told = (0, 0)
        for number, line in enumerate(process.stdout):
            put, moved = map(int, line.split())
            told = (put, moved)
            if number == lines:
                os.kill(process.pid, signal.SIGKILL)
    return told


def found(root: Path, *, read_only: bool) -> tuple[list[int], list[int]]:
    """The numbers that wait, and those that were moved."""
    with kvwal.open(root, settings=SETTINGS, read_only=read_only) as store:
        work = store.business("work")
        waiting, done = (list(work.queue(name).browse()) for name in ("todo", "done"))
        assert work.map("state").get("moved", 0) == len(done)
        assert all(field == FIELD for _, field in waiting + done)
        return [number for number, _ in waiting], [number for number, _ in done]


@pytest.mark.loop
def test_kills_leave_each_item_in_one_queue_and_in_order(tmp_path: Path, whole: bool) -> None:
    seed = new_seed()
    chance = random.Random(seed)
    root = tmp_path / "root"
    for round_ in range(ROUNDS if whole else SAMPLE):
        put, moved = killed_after(root, seed + round_, chance.randrange(1, 150))
        seen = found(root, read_only=True)
        waiting, done = found(root, read_only=False)
        assert (waiting, done) == seen
        assert done + waiting == list(range(len(done) + len(waiting)))
        assert len(done) >= moved
        assert len(done) + len(waiting) >= put
    with kvwal.open(root) as store:
        store.business("work")
        store.archive()
    kvwal.restore(root / "_archive", tmp_path / "again", node="other")
    assert found(tmp_path / "again", read_only=False) == (waiting, done)


def numbers(root: Path, name: str, *, read_only: bool) -> list[int]:
    """The numbers in a queue, in their order."""
    with kvwal.open(root, settings=SETTINGS, read_only=read_only) as store:
        return [number for number, _ in store.business("work").queue(name).browse()]


@pytest.mark.loop
def test_kills_leave_each_item_in_one_queue_or_among_the_dead_letters(tmp_path: Path, whole: bool) -> None:
    """Give-backs are in the log, and the second one of an item is its move to the dead letters."""
    seed = new_seed()
    chance = random.Random(seed)
    root = tmp_path / "root"
    letters = 0
    for round_ in range(ROUNDS if whole else SAMPLE):
        put, moved = killed_after(root, seed + round_, chance.randrange(1, 150), "2")
        seen = {name: numbers(root, name, read_only=True) for name in ("todo", "done", "dead")}
        assert {name: numbers(root, name, read_only=False) for name in seen} == seen
        assert sorted(number for queued in seen.values() for number in queued) == list(
            range(sum(len(queued) for queued in seen.values()))
        )
        assert all(queued == sorted(queued) for queued in seen.values())
        assert len(seen["done"]) >= moved
        assert sum(len(queued) for queued in seen.values()) >= put
        assert len(seen["dead"]) >= letters
        letters = len(seen["dead"])
    assert letters > 0
