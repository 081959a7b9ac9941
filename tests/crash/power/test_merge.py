"""A merge of nodes that is killed, or ended by a power cut, at each change of the disk: every read is the same as before.

The states that a cut leaves are those of `tests.support.disk.cuts`. On each of them the merge is run again, and every state of
that is looked at too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvwal.entry import DataEntry
from kvwal.errors import KvwalError
from kvwal.history.reads.entry_rows import each_once
from kvwal.history.reads.stable_read import live_entry
from kvwal.history.reads.tail_reader import merged_entries, read_local
from kvwal.log.files.names import find_places
from kvwal.store.root_nodes import merge as merging_nodes
from kvwal.store.root_nodes.merge import MERGED, MergePorts, merge_nodes
from kvwal.store.sync import ReadOnlyStore, WritableStore
from kvwal_archive.layout import Place
from tests.support.chance import new_seed
from tests.support.disk.cuts import ROOT, after_changes, cuts
from tests.support.disk.durability import Image
from tests.support.disk.faults import START_MS, FakeClock, make_options
from tests.support.disk.lives import OnDisk
from tests.support.disk.power import MemoryDisk

TARGET = Place("default", "local", "b", "shared")
NODES = ("a", "m", "z")
"""Of these names one stands after that of the target: a reader comes to it after the target."""
TRIED = 40
"""States of one moment that are looked at."""
Seen = tuple[dict[Any, bytes], list[DataEntry]]


def progress(done: int, total: int, what: str) -> None:
    """Nobody looks."""


def open_node(disk: MemoryDisk, node: str, number: int) -> WritableStore:
    clock = FakeClock(START_MS + number)
    clock.drawn = 1_000 * number
    given: dict[str, Any] = {"node": node, "archive": None, "start_archiver": lambda: OnDisk(disk, clock)}
    return WritableStore(make_options(ROOT, disk=disk, clock=clock, **given))


def nodes_on(disk: MemoryDisk) -> None:
    """Three nodes with puts, a delete, a checkpoint, and keys that the target has too, older and newer ones."""
    with open_node(disk, "shared", 1) as store:
        store.map("b").update({"both": "old", "shared": 1})
    for number, node in enumerate(NODES, 2):
        with open_node(disk, node, number) as store:
            entries = store.map("b")
            entries.update({f"{node}/app": "RUNNING", f"{node}/job": 1, "both": node})
            if node == "m":
                store.checkpoint()
            entries[f"{node}/app"] = "SUCCEEDED"
            del entries[f"{node}/job"]


def places(disk: MemoryDisk) -> list[Place]:
    return find_places(disk, ROOT, "default", "local", "b")


def seen(disk: MemoryDisk) -> Seen:
    """What readers see: the live entries, and the changes that the logs hold, each once."""
    live = {key: e.value for key, e in merged_entries(disk, ROOT, places(disk)).items() if not e.deleted}
    changes = []
    for place in places(disk):
        local = read_local(disk, ROOT, place)
        changes += [*(local.snapshot if local.tail.first > 1 else []), *local.tail.entries]
    return live, each_once(sorted(changes, key=lambda entry: (-entry.timestamp, entry.key)))


def merge(disk: MemoryDisk, number: int) -> None:
    clock = FakeClock(START_MS + 1_000)
    clock.drawn = 1_000 * number
    nodes = [place.node for place in places(disk) if place.node != TARGET.node]
    result = merge_nodes(MergePorts(disk, clock), ROOT, TARGET, nodes, progress)
    assert not result.left


def whole(disk: MemoryDisk) -> None:
    """The merge is over: one node, nothing left behind, and each change once in the log."""
    assert [place.node for place in places(disk)] == ["shared"]
    assert not disk.names(ROOT / "default/local/b" / MERGED)
    local = read_local(disk, ROOT, TARGET)
    assert len(local.tail.entries) == len({(entry.key, entry.timestamp) for entry in local.tail.entries})


def every_state(disk: MemoryDisk, run: Callable[[], None], chance: random.Random) -> list[Image]:
    """The states that a power cut may leave at each change of the disk while `run` runs; TRIED of each moment."""
    images: list[Image] = []

    def look() -> None:
        found, _ = cuts(disk, chance)
        images.extend(chance.sample(found, min(TRIED, len(found))))

    after_changes(disk, look)
    run()
    look()
    return images


@pytest.mark.parametrize("checkpoint_bytes", [merging_nodes.CHECKPOINT_BYTES, 1], ids=["", "checkpoint"])
def test_every_read_is_the_same_at_each_step_of_a_merge_and_of_the_merge_after_it(
    monkeypatch: pytest.MonkeyPatch, checkpoint_bytes: int
) -> None:
    monkeypatch.setattr(merging_nodes, "CHECKPOINT_BYTES", checkpoint_bytes)
    chance = random.Random(new_seed())
    disk = MemoryDisk()
    nodes_on(disk)
    before = seen(disk)
    assert before[0][("str", b"both")] == b"z"
    first = every_state(disk, lambda: merge(disk, 10), chance)
    whole(disk)
    assert seen(disk) == before
    assert len(first) > 200
    for number, image in enumerate(first):
        again = MemoryDisk(image)
        assert seen(again)[0] == before[0]
        run = partial(merge, again, 20 + number)
        states = every_state(again, run, chance) if number % 20 == 0 else []
        if not states:
            run()
        whole(again)
        assert seen(again) == before
        for state in chance.sample(states, min(20, len(states))):
            assert seen(MemoryDisk(state))[0] == before[0]


@pytest.mark.parametrize("call", ["create", "write_at", "datasync", "rename", "make_folder", "sync_folder", "unlink"])
def test_a_call_that_fails_leaves_every_read_as_it_was(call: str) -> None:
    original = MemoryDisk()
    nodes_on(original)
    before = seen(original)
    failed = 0
    for nth in range(1, 40):
        disk = MemoryDisk({path: bytes(content.seen) for path, content in original.seen.items()})
        disk.fail(call, nth)
        try:
            merge(disk, 10)
        except (OSError, KvwalError):
            failed += 1
        else:
            break
        assert seen(disk)[0] == before[0]
        merge(disk, 11)
        whole(disk)
        assert seen(disk) == before
    assert failed or call == "unlink"


class Merging(MemoryDisk):
    """A disk on which another process merges the nodes when a reader comes to the log of `z`, the last of the nodes."""

    merged = False

    def names(self, folder: Path) -> list[str]:
        if folder == ROOT / "default/local/b/z" and not self.merged:
            self.merged = True
            merge(self, 10)
        return super().names(folder)


def merging() -> Merging:
    original = MemoryDisk()
    nodes_on(original)
    return Merging({path: bytes(content.seen) for path, content in original.seen.items()})


def test_a_reader_that_comes_to_a_merged_log_too_late_finds_its_entries_in_the_target() -> None:
    disk = merging()
    entry = live_entry(disk, ROOT, "default", "local", "b", None, ("str", b"z/app"), START_MS + 1_000)
    assert disk.merged
    assert entry is not None
    assert entry.value == b"SUCCEEDED"


def test_a_scan_that_comes_to_a_merged_log_too_late_finds_its_entries_in_the_target() -> None:
    disk = merging()
    options = make_options(ROOT, disk=disk, clock=FakeClock(START_MS + 1_000), archive=None)
    keys = [entry.key for entry in ReadOnlyStore(options).read_business("b").entries()]
    assert disk.merged
    assert keys == [b"a/app", b"both", b"m/app", b"shared", b"z/app"]
    disk = merging()
    options = make_options(ROOT, disk=disk, clock=FakeClock(START_MS + 1_000), archive=None)
    state = ReadOnlyStore(options).read_business("b").state
    assert state.lookup("str", b"z/app") is not None
    assert disk.merged
