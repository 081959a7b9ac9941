"""Queues of which most items are in the log's files only are the same lists, under everything that happens to a store."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

import kvwal
from kvwal.structures.queue.state import QueueState
from tests.support.chance import examples
from tests.support.queue.blocks import rolled_back
from tests.unit.queue.test_queue_model import NAME, NAMES, PRIORITY, QueueModel

MEMORY = 16
MANY = st.integers(10, 60)
SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=2000, history_seconds=7 * 86400, queue_memory=MEMORY)


class LongQueueModel(QueueModel):
    """As `QueueModel`, with many items at once."""

    number = 0

    def open(self) -> None:
        self.store = kvwal.open(self.root, archive=self.archive, settings=SETTINGS)
        self.business = self.store.business("work")

    @rule(name=NAME, count=MANY, priority=PRIORITY, together=st.booleans())
    def put_many(self, name: str, count: int, priority: int, together: bool) -> None:
        items: list[Any] = [f"{self.number + number}" for number in range(count)]
        self.number += count
        for part in [items] if together else [[item] for item in items]:
            self.business.queue(name).put_many(part, priority=priority)
        self.add(name, [(priority, item) for item in items])

    @rule(name=NAME, most=MANY)
    def take_many(self, name: str, most: int) -> None:
        assert self.business.queue(name).take_many(most) == [item for _, item in self.first(name, most)]

    @rule(name=NAME, most=MANY, count=MANY)
    def give_back(self, name: str, most: int, count: int) -> None:
        """Items that others put meanwhile are behind those that come back."""
        with rolled_back(self.business.queue(name).transaction()) as t:
            assert t.take_many(most) == [item for _, item in self.model[name][:most]]
            self.put_many(name, count, 0, together=True)

    @invariant()
    def memory_is_bounded(self) -> None:
        """Two thirds of the bound are for one read of the files, and for what was given back."""
        if hasattr(self, "store"):
            for name in NAMES:
                assert held(self.business.queue(name)._state) <= 3 * MEMORY + 60


def held(state: QueueState) -> int:
    return len(state._ready.held)


LongQueueModel.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=12, deadline=None)
TestLongQueueModel = LongQueueModel.TestCase
