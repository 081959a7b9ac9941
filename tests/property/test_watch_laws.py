"""A watch gives every change once and in order, also if its files changed in between: segments sealed and dropped,
checkpoints, archiving, rewriting, closing and opening again, and the watch itself left and gone on with at any change.
"""

from __future__ import annotations

import shutil
import tempfile
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.structures.watch import Watch
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.archive.archiver import InProcess
from tests.support.log.shapes import Shaped, shapes

KEYS = st.sampled_from(["a", "b", "c", 1, b"d"])
SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=200)


class WatchModel(RuleBasedStateMachine):
    """A store, the changes that were made, and a watch in the store and one beside it, each with what it has given."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kvwal-watch-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("kvwal.archiver.remote.Child", InProcess)
        self.number = 0
        self.made: list[tuple[int, object, bool]] = []
        self.given: list[kvwal.DataEntry] = []
        self.beside: list[kvwal.DataEntry] = []

    @initialize()
    def begin(self) -> None:
        self.open()
        self.watch = self.map.watch()
        self.put("a")
        self.files = kvwal.open(self.folder / "root", archive=self.folder / "archive", read_only=True).map("b")
        self.other = self.files.watch(after=self.made[0][0] - 1)

    def open(self) -> None:
        self.store = kvwal.open(self.folder / "root", archive=self.folder / "archive", settings=SETTINGS)
        self.map = self.store.map("b")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.check()
            self.store.close(archive=False)
        self.patch.undo()
        shutil.rmtree(self.folder)

    def check(self) -> None:
        self.drain()
        self.drain_beside()
        changes = [(entry.timestamp, entry.deleted) for entry in self.given]
        assert changes == [(timestamp, deleted) for timestamp, _, deleted in self.made]
        assert self.beside == self.given
        for key in {key for _, key, _ in self.made}:
            of_key = [entry for entry in self.given if (entry.key_class, entry.key) == self.map.identity(key)]
            assert self.map.history(key) == of_key[::-1]
        for number, (timestamp, _, _) in enumerate(self.made):
            if number + 1 < len(self.made) and self.made[number + 1][0] != timestamp and number % 7 == 0:
                rest = every(self.map.watch(after=timestamp))
                assert rest == self.given[number + 1 :]

    @rule(key=KEYS)
    def put(self, key: object) -> None:
        self.number += 1
        self.made.append((self.map.put(key, self.number), key, False))

    @rule(key=KEYS)
    def delete(self, key: object) -> None:
        self.made.append((self.map.delete(key), key, True))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=5, unique=True), large=st.booleans())
    def transaction(self, keys: list[object], large: bool) -> None:
        """A large one fills half a segment."""
        self.number += 1
        timestamp = self.map.put_many(dict.fromkeys(keys, f"{self.number}{'x' * 9_000 * large}"))
        self.made += [(timestamp, key, False) for key in keys]

    @rule(shaped=shapes(6))
    def changes_of_a_shape(self, shaped: Shaped) -> None:
        """What expires does so long after the test."""
        for key, value, ttl_ms in shaped.changes:
            if value is None:
                self.delete(key)
            else:
                self.made.append((self.map.put(key, value, ttl=1e6 if ttl_ms else None), key, False))

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def archive(self) -> None:
        self.store.archive()

    @rule()
    def rewritten(self) -> None:
        place = Place("default", "local", "b", "local")
        compaction.rewrite(open_objects(str(self.folder / "archive")), place, now_ms=SYSTEM.wall_ms(), force=True)

    @rule()
    def reopen(self) -> None:
        """The watch gives what was written until the close, then says that the store is closed."""
        self.store.close(archive=False)
        with pytest.raises(kvwal.StoreClosed):
            self.given.extend(self.watch)
        position = self.watch.position
        self.open()
        self.watch = self.map.watch(after=position)

    @rule()
    def drain(self) -> None:
        self.given += every(self.watch)

    @rule(count=st.integers(1, 4))
    def read_some_and_go_on_in_another_watch(self, count: int) -> None:
        left = len(self.made) - len(self.given)
        self.given += islice(self.watch, min(count, left))
        self.watch = self.map.watch(after=self.watch.position)

    @rule()
    def drain_beside(self) -> None:
        self.beside += every(self.other)

    @rule()
    def begin_again_beside(self) -> None:
        self.other = self.files.watch(after=self.other.position)


def every(watch: Watch) -> list[kvwal.DataEntry]:
    """All changes that are there."""
    found: list[kvwal.DataEntry] = []
    while some := watch.poll():
        found += some
    return found


TestWatchModel = WatchModel.TestCase
TestWatchModel.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
