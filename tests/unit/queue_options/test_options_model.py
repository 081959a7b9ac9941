"""Queues with options are lists with rules: capacity, deliveries, delays and dead letters hold over reopening, kills,
checkpoints, archives, rewrites and restores.
"""

from __future__ import annotations

import queue
import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kvwal.errors import TooLarge
from kvwal.ports.clock import SYSTEM
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.queue.options import QueueOptions
from tests.support.chance import examples
from tests.support.disk.faults import FakeClock, make_options, open_store
from tests.support.queue.blocks import rolled_back
from tests.unit.queue.test_queue_model import ITEMS, NAME, NAMES, PRIORITY, SETTINGS, QueueModel

DELAY = 2.0
"""Seconds, of a delayed put and of a delayed redelivery."""
EARLIER_MS = 60_000
"""How far the clock of the store is behind at the beginning: it is never ahead of that of a restore."""
MOST = st.integers(1, 3)


class Item(NamedTuple):
    """An item, and what is known of it."""

    priority: int
    value: Any
    deliveries: int = 0
    due: int = 0


class OptionsModel(QueueModel):
    """As `QueueModel`, with options that any of the queues may have."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(SYSTEM.wall_ms() - EARLIER_MS)
        self.model: dict[str, list[Any]] = {name: [] for name in NAMES}
        self.options = {name: QueueOptions() for name in NAMES}

    def open(self) -> None:
        self.store = open_store(self.root, clock=self.clock, archive=self.archive, settings=SETTINGS)
        self.business = self.store.business("work")

    def ready(self, name: str, most: int = 1000) -> list[Item]:
        return [item for item in self.model[name] if item.due <= self.clock.ms][:most]

    def first(self, name: str, most: int) -> list[Any]:
        taken = self.ready(name, most)
        for item in taken:
            self.model[name].remove(item)  # the first one that is equal: nothing tells them apart
        return taken

    def refusal(self, name: str, puts: int, takes: int = 0) -> type[Exception] | None:
        """The error of a block with this many puts and takes, None if there is room."""
        capacity, more = self.options[name].capacity, puts - takes
        if not puts or capacity is None or more <= 0:
            return None
        if more > capacity:
            return TooLarge
        return queue.Full if len(self.model[name]) + more > capacity else None

    def done(self, call: Callable[[], Any], refusal: type[Exception] | None) -> bool:
        """Whether a call was not refused."""
        if refusal is None:
            call()
            return True
        with pytest.raises(refusal):
            call()
        return False

    @rule(name=NAME, capacity=st.sampled_from([None, 1, 3, 6]))
    def bounded(self, name: str, capacity: int | None) -> None:
        self.keep(name, self.business.queue(name).set_options(capacity=capacity))
        assert self.options[name].capacity == capacity

    @rule(name=NAME, dead=NAME, most=st.integers(1, 2), delay=st.sampled_from([None, DELAY]))
    def counted(self, name: str, dead: str, most: int, delay: float | None) -> None:
        q = self.business.queue(name)
        if name == dead:
            self.keep(name, q.set_options(max_deliveries=None, dead_letters=None, redelivery_delay=delay))
        else:
            self.keep(name, q.set_options(max_deliveries=most, dead_letters=dead, redelivery_delay=delay))

    def keep(self, name: str, options: QueueOptions) -> None:
        self.options[name] = options

    @rule()
    def time_passes(self) -> None:
        self.clock.seconds += DELAY  # first: seen in between the other way round, the time would pass twice
        self.clock.ms += round(DELAY * 1000)

    @rule(name=NAME, items=ITEMS, priority=PRIORITY, delayed=st.booleans())
    def put(self, name: str, items: list[Any], priority: int, delayed: bool = False) -> None:
        delay, due = (DELAY, self.clock.ms + round(DELAY * 1000)) if delayed else (None, 0)
        q = self.business.queue(name)
        if self.done(
            lambda: q.put_many(items, priority=priority, delay=delay, timeout=0), self.refusal(name, len(items))
        ):
            self.add(name, [Item(priority, item, 0, due) for item in items])

    @rule(name=NAME, most=MOST)
    def take(self, name: str, most: int) -> None:
        assert self.business.queue(name).take_many(most) == [item.value for item in self.first(name, most)]

    @rule(name=NAME, most=MOST)
    def given_back(self, name: str, most: int) -> None:
        """A block that raises: each item has one delivery more, is delayed, or is a dead letter."""
        options, held = self.options[name], self.ready(name, most)
        with rolled_back(self.business.queue(name).transaction()) as t:
            assert t.take_many(most) == [item.value for item in held]
        if not options.counts_deliveries:
            return
        due = 0 if options.redelivery_delay is None else self.clock.ms + round(DELAY * 1000)
        for item in held:
            index = self.model[name].index(item)
            if options.max_deliveries is not None and item.deliveries + 1 >= options.max_deliveries:
                assert options.dead_letters is not None
                del self.model[name][index]
                self.add(options.dead_letters, [Item(item.priority, item.value)])
            else:
                self.model[name][index] = item._replace(deliveries=item.deliveries + 1, due=due)

    @rule(name=NAME, to=NAME, most=MOST)
    def move(self, name: str, to: str, most: int) -> None:
        held = self.ready(name, most)
        q = self.business.queue(name)
        if self.done(lambda: q.move(to, most), self.refusal(to, len(held), len(held) if name == to else 0)):
            self.first(name, most)
            self.add(to, [Item(item.priority, item.value) for item in held])

    @rule(name=NAME)
    def purge(self, name: str) -> None:
        assert self.business.queue(name).purge() == len(self.model[name])
        self.model[name] = []

    @rule(name=NAME, to=NAME, items=ITEMS, most=MOST)
    def transaction(self, name: str, to: str, items: list[Any], most: int) -> None:
        """A block that has no room at its end changes nothing, and does not count as a delivery."""
        held = self.ready(name, most)

        def block() -> None:
            with self.business.transaction() as t:
                assert t.queue(name).take_many(most) == [item.value for item in held]
                t.queue(to).put_many(items)
                t.map("state")["last"] = items

        if self.done(block, self.refusal(to, len(items), len(held) if name == to else 0)):
            self.first(name, most)
            self.add(to, [Item(0, item) for item in items])
            self.state = items

    @rule(name=NAME, most=MOST)
    def killed(self, name: str, most: int) -> None:
        """A copy of the files, made while a block holds items, is what a kill leaves: that delivery does not count."""
        self.roots += 1
        copied = self.folder / f"root-{self.roots}"
        with rolled_back(self.business.queue(name).transaction()) as t:
            t.take_many(most)
            shutil.copytree(self.root, copied)
        self.store.close(archive=False)
        self.root = copied
        self.open()

    @invariant()
    def holds_what_the_lists_hold(self) -> None:
        if not hasattr(self, "store"):
            return
        for name in NAMES:
            q = self.business.queue(name)
            found = [(item.priority, item.value, item.deliveries) for item in q.items()]
            ready = self.ready(name)
            assert found == [(item.priority, item.value, item.deliveries) for item in ready]
            assert (len(q), q.delayed, q.in_flight) == (len(ready), len(self.model[name]) - len(ready), 0)
            assert q.options() == self.options[name]
        assert self.business.map("state")["last"] == self.state
        assert len(self.business.map()) == 0

    @invariant()
    def a_reader_of_the_files_sees_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        with ReadOnlyStore(make_options(self.root, clock=self.clock)) as files:
            business = files.business("work")
            for name in NAMES:
                q = business.queue(name)
                found = [(item.value, item.deliveries) for item in q.items()]
                assert found == [(item.value, item.deliveries) for item in self.ready(name)]
                assert q.options() == self.options[name]
            reader = files.read_business("work")
            for name in NAMES:
                structure = f"queue/{name}" if name else "queue"
                assert len(list(reader.queue_items(structure))) == len(self.model[name])
                assert reader.queue_options(structure) == self.options[name]
                items = {item.key for item in reader.queue_items(structure)}
                assert reader.queue_deliveries(structure).keys() <= items


OptionsModel.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=15, deadline=None)
TestOptionsModel = OptionsModel.TestCase
