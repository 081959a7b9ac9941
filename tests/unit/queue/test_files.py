"""Queues read from files: the items of memory, in the order of takes, from a snapshot and from the log behind it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.codecs import registry
from kvwal.key_class import structure_of
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.queue.figures import QueueFigures, figures_of
from kvwal.structures.queue.positions import priority_of

NAMES = ["", "a", "a-b", "z"]


def reader(root: Path) -> ReadOnlyBusiness:
    with kvwal.open(root, read_only=True) as store:
        assert isinstance(store, ReadOnlyStore)
        return store.read_business("work")


def found(root: Path, structure: str) -> list[tuple[int, Any]]:
    items = reader(root).queue_items(structure)
    return [(priority_of(item.key), registry.decode(item.value, item.value_class)) for item in items]


@pytest.mark.parametrize("seed", range(5))
def test_items_of_files_are_those_of_memory(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        work = store.business("work")
        work.map().put_many({f"key-{number}": number for number in range(50)})
        work.map("queue").put("a key", "of a map of this name")
        queues = {name: work.queue(name) for name in NAMES}
        for round in range(6):
            for queue in queues.values():
                queue.put_many(range(chance.randrange(20)), priority=chance.randrange(-16, 16))
                queue.take_many(chance.randrange(1, 12))
                queue.put("gone soon", ttl=0.001)
            if round % 2:
                store.checkpoint()
        taken = queues["z"].purge()
        assert taken
        expected = {name: [(i.priority, i.value) for i in queue.items()] for name, queue in queues.items()}
        for name in NAMES:
            assert found(tmp_path, f"queue/{name}" if name else "queue") == expected[name]
    together = [structure_of(item.key_class) for item in reader(tmp_path).queue_items()]
    assert {structure: together.count(structure) for structure in together} == {
        f"queue/{name}" if name else "queue": len(items) for name, items in expected.items() if items
    }
    assert together == sorted(together, key=together.index), "queue by queue"


def test_a_queue_is_known_until_its_deletes_are_compacted(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        work = store.business("work")
        work.map()["queue"] = 1
        assert (reader(tmp_path).queues(), reader(tmp_path).knows_queue("queue")) == (set(), False)
        work.queue("todo").put(1)
        work.queue().put(2)
        assert work.queue().take() == 2
        assert reader(tmp_path).queues() == {"queue", "queue/todo"}
        known = {
            name: reader(tmp_path).knows_queue(name) for name in ("queue", "queue/todo", "queue/to", "queue/todo2")
        }
        assert known == {"queue": True, "queue/todo": True, "queue/to": False, "queue/todo2": False}


def test_figures_count_each_item_once(tmp_path: Path) -> None:
    assert figures_of([]) == QueueFigures(0, 0, 0, {})
    with kvwal.open(tmp_path, archive=None) as store:
        queue = store.queue("work")
        first = queue.put("abc", priority=3)
        queue.put_many(["d", "e"], priority=-1)
    assert figures_of(reader(tmp_path).queue_items("queue")) == QueueFigures(3, 5, first, {-1: 2, 3: 1})
