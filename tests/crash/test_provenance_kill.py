"""kill -9 while items go from queue to queue, and checkpoints move their events into files: each event is there, once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import kvwal
from tests.crash.test_queue_kill import killed_after
from tests.support.chance import new_seed
from tests.support.programs.worklist import SETTINGS

ROUNDS, SAMPLE = 10, 1


def check(root: Path, *, read_only: bool) -> int:
    """Whether the events, one after the other, lead to the items and the keys that are there. Returns their number."""
    with kvwal.open(root, settings=SETTINGS, read_only=read_only) as store:
        work = store.business("work")
        events = store.provenance("work").events(limit=None)
        assert len({event.place for event in events}) == len(events)
        there: dict[tuple[str, bytes], int] = {}
        for event in reversed(events):
            for item in event.parents:
                assert there.pop(item.identity[:2]) == item.timestamp
            there |= {item.identity[:2]: item.timestamp for item in event.children}
        items = sum(len(work.queue(name)) for name in work.queues()) + len(work.map("state")) + len(work.map())
        assert len(there) == items
        return len(events)


@pytest.mark.loop
def test_kills_leave_the_events_of_each_change_once(tmp_path: Path, whole: bool) -> None:
    seed = new_seed()
    chance = random.Random(seed)
    root = tmp_path / "root"
    with kvwal.open(root, settings=SETTINGS) as store:
        store.provenance("work")
    count = 0
    for round_ in range(ROUNDS if whole else SAMPLE):
        killed_after(root, seed + round_, chance.randrange(1, 150))
        found = check(root, read_only=True)
        assert found > count
        with kvwal.open(root, settings=SETTINGS) as store:
            store.checkpoint()
        count = check(root, read_only=False)
        assert count >= found
