"""A store is a dict that remembers: under any operations, with reopening, checkpoints, archive, rewrite and restore between
them in any order, it holds what a dict would hold, and says of every earlier moment what the dict held then.
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
from kvwal.store.sync import ReadOnlyStore
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from tests.support.archive.archiver import InProcess
from tests.support.chance import examples
from tests.support.disk.faults import START_MS, FakeClock, make_options, open_store
from tests.support.log.shapes import SHAPES, TTL_MS, shaped

KEYS = st.sampled_from(["a", "ab", "b", "ß", 0, 1, -1, 2.5, b"a", None])
VALUES = st.one_of(
    st.integers(-5, 5),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.none(),
    st.booleans(),
    st.dictionaries(st.text(max_size=2), st.one_of(st.integers(0, 3), st.lists(st.booleans(), max_size=2)), max_size=2),
)
SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=200, history_seconds=7 * 86400)


def same(one: Any, other: Any) -> bool:
    """Equal and of the same type; a dict compares True and 1 as equal, a store does not."""
    return type(one) is type(other) and one == other


class StoreModel(RuleBasedStateMachine):
    """The store and its dict."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kvwal-model-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("kvwal.archiver.remote.Child", InProcess)
        self.archive = self.folder / "archive"
        self.root = self.folder / "root-0"
        self.node = "n0"
        self.restores = 0
        self.model: dict[Any, Any] = {}
        self.past: list[tuple[int, dict[Any, Any]]] = []

    @initialize()
    def begin(self) -> None:
        self.open()
        self.put(None, None)  # an archive that was never written to has nothing to restore

    def open(self) -> None:
        self.store = kvwal.open(self.root, node=self.node, archive=self.archive, settings=SETTINGS)
        self.map = self.store.map("b")

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close(archive=False)
        self.patch.undo()
        shutil.rmtree(self.folder)

    def remember(self, timestamp: int) -> None:
        self.past.append((timestamp, dict(self.model)))

    @rule(key=KEYS, value=VALUES)
    def put(self, key: Any, value: Any) -> None:
        timestamp = self.map.put(key, value)
        self.model[key] = value
        self.remember(timestamp)

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        timestamp = self.map.delete(key)
        self.model.pop(key, None)
        self.remember(timestamp)

    @rule(items=st.dictionaries(KEYS, VALUES, max_size=4), key=KEYS)
    def transaction(self, items: dict[Any, Any], key: Any) -> None:
        with self.map.transaction() as together:
            for each, value in items.items():
                together[each] = value
            del together[key]
        self.model |= items
        self.model.pop(key, None)
        self.remember(together.timestamp)

    @rule(key=KEYS, expected=VALUES, value=VALUES)
    def conditions(self, key: Any, expected: Any, value: Any) -> None:
        if self.map.put_if_absent(key, value):
            assert key not in self.model
            self.model[key] = value
        held = key in self.model and same(self.model[key], expected)
        assert self.map.replace(key, expected, value) == held
        if held:
            self.model[key] = value
        held = key in self.model and same(self.model[key], value)
        assert self.map.remove(key, value) == held
        if held:
            del self.model[key]

    @rule(key=KEYS, value=VALUES)
    def as_a_mapping(self, key: Any, value: Any) -> None:
        assert self.map.pop(key, "nothing") == self.model.pop(key, "nothing")
        assert self.map.setdefault(key, value) == self.model.setdefault(key, value)
        self.map.update({key: value})
        self.model[key] = value

    @rule()
    def reopen(self) -> None:
        self.store.close(archive=False)
        self.open()

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def to_the_archive(self) -> None:
        self.store.archive()

    @rule()
    def rewritten(self) -> None:
        place = Place("default", "local", "b", self.node)
        rewrite.rewrite(open_objects(str(self.archive)), place, now_ms=SYSTEM.wall_ms(), force=True)

    @precondition(lambda self: self.restores < 2)
    @rule(take_over=st.booleans())
    def restored(self, take_over: bool) -> None:
        self.store.archive()
        self.store.close(archive=False)
        self.restores += 1
        self.root = self.folder / f"root-{self.restores}"
        if not take_over:
            self.node = f"n{self.restores}"
            self.past.clear()  # what was before is in the log of the other node
        kvwal.restore(self.archive, self.root, node=self.node, take_over=take_over)
        self.open()

    @invariant()
    def holds_what_the_dict_holds(self) -> None:
        if hasattr(self, "store"):
            found = dict(self.map.items())
            assert found == self.model
            assert all(same(found[key], value) for key, value in self.model.items())
            assert len(self.map) == len(self.model)
            assert list(self.map) == list(found)

    @invariant()
    def remembers(self) -> None:
        if self.past:
            timestamp, held = self.past[len(self.past) // 2]
            assert dict(self.map.at(timestamp)) == held


StoreModel.TestCase.settings = settings(max_examples=examples(25), stateful_step_count=15, deadline=None)
TestStoreModel = StoreModel.TestCase


def every_reader(root: Path, archive: Path, clock: FakeClock) -> dict[str, dict[str, bytes]]:
    """What each reader of a store shows."""
    options = make_options(root, archive=archive, clock=clock)
    store = ReadOnlyStore(options)
    business = store.read_business("b")
    tables = store.sql("SELECT key, raw FROM b").to_pylist()
    shown = {
        "map": dict(store.map("b")),
        "in order": {entry.key.decode(): entry.value for entry in business.entries()},
        "range": {e.key.decode(): e.value for e in business.between(("str", b""), ("str\0", b""))},
        "sql": {row["key"]: row["raw"] for row in tables},
        "at": dict(store.map("b").at(clock.ms << 16 | 0xFFFF)),
    }
    keys = ["absent", *shown["map"]][:20]
    found = {key: entry for key in keys if (entry := business.find("str", key.encode())) is not None}
    assert {key: entry.value for key, entry in found.items()} == {key: shown["map"][key] for key in found}
    assert len(found) == len(keys) - 1
    return shown


@pytest.mark.parametrize("name", SHAPES)
def test_data_of_any_shape_is_the_same_for_every_reader(name: str, tmp_path: Path) -> None:
    """After checkpoints, an archive, a compaction and a restore, before and after entries expire."""
    shape, group = shaped(name, 300, 1), 60
    root, archive, clock = tmp_path / "root", tmp_path / "archive", FakeClock()
    with open_store(
        root, archive=archive, clock=clock, start_archiver=lambda: InProcess(""), settings=SETTINGS
    ) as store:
        b = store.map("b")
        for begin in range(0, len(shape.changes), group):
            for key, value, ttl_ms in shape.changes[begin : begin + group]:
                b.submit_many({}, [key]) if value is None else b.submit(key, value, ttl_ms / 1000 or None)
            store.checkpoint() if begin % (2 * group) else store.archive()
        b["last"] = b"last"
        store.archive()
        assert dict(b) == shape.latest() | {"last": b"last"}
        watched = b.watch(after=START_MS - 1 << 16)
        given_changes = [entry for _ in range(5 + len(shape.changes) // 100) for entry in watched.poll()]
        assert [entry.key.decode() for entry in given_changes] == [change.key for change in shape.changes] + ["last"]
    for expired in (False, True):
        clock.ms += 2 * TTL_MS if expired else 0
        wanted = shape.latest(expired=expired) | {"last": b"last"}
        assert all(shown == wanted for shown in every_reader(root, archive, clock).values())
        place = Place("default", "local", "b", "local")
        rewrite.rewrite(open_objects(str(archive)), place, now_ms=clock.ms, history_ms=0, force=True)
        restored = tmp_path / f"restored-{expired}"
        kvwal.restore(archive, restored, node="new")
        with open_store(restored, clock=clock) as new:
            assert dict(new.map("b")) == wanted
