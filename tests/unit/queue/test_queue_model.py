"""Queues are lists that remember: under any puts, takes, moves and transactions, with reopening, kills, checkpoints, archives,
rewrites and restores between them, they hold what lists would hold, in the same order.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from tests.support.archive.archiver import InProcess
from tests.support.chance import examples
from tests.support.queue.blocks import rolled_back

NAMES = ("", "todo", "done")
NAME = st.sampled_from(NAMES)
ITEMS = st.lists(st.one_of(st.integers(-3, 3), st.text(max_size=2), st.none()), max_size=4)
PRIORITY = st.sampled_from([0, 0, 0, -16, -1, 1, 15])
SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=200, history_seconds=7 * 86400, queue_memory=3)
Queued = tuple[int, Any]
"""A priority and an item."""


class QueueModel(RuleBasedStateMachine):
    """Three queues and a map of one business, and what they should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kvwal-queues-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("kvwal.archiver.remote.Child", InProcess)
        self.archive = self.folder / "archive"
        self.roots = 0
        self.root = self.folder / "root-0"
        self.model: dict[str, list[Queued]] = {name: [] for name in NAMES}
        self.state: Any = None
        self.past: tuple[int, list[Any]] | None = None

    @initialize()
    def begin(self) -> None:
        self.open()
        self.business.map("state")["last"] = None

    def open(self) -> None:
        self.store = kvwal.open(self.root, archive=self.archive, settings=SETTINGS)
        self.business = self.store.business("work")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close(archive=False)
        self.patch.undo()
        shutil.rmtree(self.folder)

    def add(self, name: str, queued: list[Queued]) -> None:
        self.model[name] = sorted(self.model[name] + queued, key=lambda one: one[0])

    def first(self, name: str, most: int) -> list[Queued]:
        taken, self.model[name] = self.model[name][:most], self.model[name][most:]
        return taken

    @rule(name=NAME, items=ITEMS, priority=PRIORITY)
    def put(self, name: str, items: list[Any], priority: int) -> None:
        timestamp = self.business.queue(name).put_many(items, priority=priority)
        self.add(name, [(priority, item) for item in items])
        if items and name == "todo":
            self.past = (timestamp, [item for _, item in self.model[name]])

    @rule(name=NAME, most=st.integers(1, 4))
    def take(self, name: str, most: int) -> None:
        assert self.business.queue(name).take_many(most) == [item for _, item in self.first(name, most)]

    @rule(name=NAME, to=NAME, most=st.integers(1, 4))
    def move(self, name: str, to: str, most: int) -> None:
        moved = self.first(name, most)
        self.add(to, moved)
        assert self.business.queue(name).move(to, most) == len(moved)

    @rule(name=NAME)
    def purge(self, name: str) -> None:
        assert self.business.queue(name).purge() == len(self.first(name, 1000))

    @rule(name=NAME, to=NAME, items=ITEMS, most=st.integers(1, 3), raises=st.booleans())
    def transaction(self, name: str, to: str, items: list[Any], most: int, raises: bool) -> None:
        """What is taken in a block is in flight: the next take of the block gets what follows, and nobody else sees it."""
        before = {known: list(queued) for known, queued in self.model.items()}
        try:
            with self.business.transaction() as t:
                for _ in range(2):
                    assert t.queue(name).take_many(most) == [item for _, item in self.first(name, most)]
                self.holds_what_the_lists_hold()
                t.queue(to).put_many(items)
                t.map("state")["last"] = items
                assert t.map("state")["last"] == items
                if raises:
                    raise ZeroDivisionError
            self.add(to, [(0, item) for item in items])
            self.state = items
        except ZeroDivisionError:
            self.model = before

    @rule()
    def reopen(self) -> None:
        self.store.close(archive=False)
        self.open()

    @rule(name=NAME, most=st.integers(1, 3))
    def killed(self, name: str, most: int) -> None:
        """A copy of the files, made while a block holds items, is what a kill leaves: the items are at their places."""
        self.roots += 1
        copied = self.folder / f"root-{self.roots}"
        with rolled_back(self.business.queue(name).transaction()) as t:
            t.take_many(most)
            shutil.copytree(self.root, copied)
        self.store.close(archive=False)
        self.root = copied
        self.open()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def to_the_archive(self) -> None:
        self.store.archive()

    @rule()
    def rewritten(self) -> None:
        place = Place("default", "local", "work", "local")
        rewrite.rewrite(open_objects(str(self.archive)), place, now_ms=SYSTEM.wall_ms(), force=True)

    @precondition(lambda self: self.roots < 3)
    @rule()
    def restored(self) -> None:
        self.store.archive()
        self.store.close(archive=False)
        self.roots += 1
        self.root = self.folder / f"root-{self.roots}"
        kvwal.restore(self.archive, self.root, node="local", take_over=True)
        self.open()

    @invariant()
    def holds_what_the_lists_hold(self) -> None:
        if not hasattr(self, "store"):
            return
        for name in NAMES:
            queue = self.business.queue(name)
            assert [(item.priority, item.value) for item in queue.items()] == self.model[name]
            assert len(queue) == len(self.model[name])
        assert self.business.map("state")["last"] == self.state
        assert len(self.business.map()) == 0

    @invariant()
    def remembers(self) -> None:
        if self.past is not None:
            timestamp, held = self.past
            assert [item.value for item in self.business.queue("todo").at(timestamp)] == held

    @invariant()
    def a_reader_of_the_files_sees_the_same(self) -> None:
        if hasattr(self, "store"):
            with kvwal.open(self.root, read_only=True) as files:
                business = files.business("work")
                assert [list(business.queue(name).browse()) for name in NAMES] == [
                    [item for _, item in self.model[name]] for name in NAMES
                ]


QueueModel.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=15, deadline=None)
TestQueueModel = QueueModel.TestCase
