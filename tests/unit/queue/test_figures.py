"""Figures of open queues and their names: those of the items, at hand without a look at all items, and bounded for Prometheus."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import kvwal
import kvwal.aio
from kvwal.entry import TIMESTAMP_SHIFT, Entry
from kvwal.node.health.metrics import Metrics
from kvwal.prometheus import MOST, REST, Queue, QueueCollector, bounded
from kvwal.structures.guards import guards_alone
from kvwal.structures.queue import state as module
from kvwal.structures.queue.positions import HIGHEST, LOWEST, item_class, key_of, position_of
from kvwal.structures.queue.state import QueueState
from tests.support.queue.blocks import rolled_back
from tests.unit.node.test_metrics import stats as stats_of_log

NAMES = ["", "a", "a-b", "z"]


def stats(store: kvwal.Store, name: str) -> dict[str, Any]:
    figures: dict[str, Any] = store.stats()["businesses"]["work"]["queues"][name]
    return figures


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_the_items(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        work = store.business("work")
        queues = {name: work.queue(name) for name in NAMES}
        for _ in range(30):
            queue = queues[name := chance.choice(NAMES)]
            queue.put_many(["x" * chance.randrange(9)] * chance.randrange(4), priority=chance.randrange(-16, 16))
            queue.take_many(chance.randrange(1, 4))
            with rolled_back(queue.transaction()) as block:
                held = block.take_many(chance.randrange(1, 3))
                items = list(queue.items())
                found = stats(store, name)
                oldest = min((item.position for item in items), default=0)
                assert queue._state.oldest == oldest
                assert (found["items"], found["in_flight"]) == (len(items), len(held))
                assert found["bytes"] == sum(len(str(item.value)) for item in items) + sum(map(len, held))
                age = None if not items else queue._business.now_ms() - (oldest >> TIMESTAMP_SHIFT)
                assert (found["oldest_seconds"] is None) is (age is None)
                assert age is None or 0 <= found["oldest_seconds"] <= age / 1000
                assert (name in work.queues()) is bool(items or held)


def test_the_oldest_item_is_found_without_a_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    state, key_class = QueueState(guards_alone(lambda: 0)), item_class("queue")
    chance = random.Random(1)
    places = [(chance.randrange(LOWEST, HIGHEST + 1), position) for position in range(1 << 57, (1 << 57) + 20_000)]
    state.apply([Entry(key_of(*place), key_class, b"", "none", False, 1) for place in places])
    looked: list[bytes] = []

    def counted(key: bytes) -> int:
        looked.append(key)
        return position_of(key)

    monkeypatch.setattr(module, "position_of", counted)
    assert state.oldest == 1 << 57
    assert len(set(looked)) <= HIGHEST - LOWEST + 1
    state.clear()
    assert state.oldest == 0


def test_an_item_that_comes_back_is_as_old_as_before(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        queue = store.queue("work")
        first = queue.put("first", priority=3)
        queue.put("second", priority=-1)
        with rolled_back(queue.transaction()) as block:
            assert block.take_many(2) == ["second", "first"]
            assert stats(store, "")["oldest_seconds"] is None
        assert queue._state.oldest >> TIMESTAMP_SHIFT <= first >> TIMESTAMP_SHIFT


def test_queues_have_the_same_names_for_every_reader(tmp_path: Path) -> None:
    async def names() -> list[str]:
        async with kvwal.aio.open(tmp_path, archive=None) as store:
            return await store.business("work").queues()

    with kvwal.open(tmp_path, archive=None) as store:
        work = store.business("work")
        assert work.queues() == []
        work.map("queue")["a"] = 1
        work.map()["b"] = 2
        assert len(work.queue("never-put")) == 0
        for name in ("todo", "", "a-b", "done"):
            work.queue(name).put(name)
        assert work.queue("done").take() == "done"
        with rolled_back(work.transaction()) as block:
            assert block.queue("todo").take() == "todo"
            assert work.queues() == ["", "a-b", "todo"]
        store.checkpoint()
        work.queue("later").put(1)
        expected = ["", "a-b", "later", "todo"]
        assert work.queues() == expected
        with kvwal.open(tmp_path, archive=None, read_only=True) as reader:
            assert reader.business("work").queues() == expected
    assert asyncio.run(names()) == expected
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.business("work").queues() == expected


def page(store: Any) -> list[str]:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(QueueCollector(store))
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_prometheus_gets_the_figures_of_each_queue(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        work = store.business("work")
        work.queue("todo").put_many(["a", "bc"])
        work.queue().put(1)
        store.map("jobs")["a"] = 1
        with rolled_back(work.queue("todo").transaction()) as block:
            assert block.take_many(9) == ["a", "bc"]
            lines = page(store)
        assert 'kvwal_queue_items{business="work",queue="work"} 1.0' in lines
        assert 'kvwal_queue_items{business="work",queue="work/todo"} 0.0' in lines
        assert 'kvwal_queue_in_flight{business="work",queue="work/todo"} 2.0' in lines
        assert 'kvwal_queue_bytes{business="work",queue="work/todo"} 3.0' in lines
        oldest = [line.rpartition("}")[0] for line in lines if line.startswith("kvwal_queue_oldest_seconds")]
        assert oldest == ['kvwal_queue_oldest_seconds{business="work",queue="work"']
        assert len(lines) == 7
    refused = pytest.raises(kvwal.ConfigError, match=r"read_only=True.* `kvwal queue list`")
    with kvwal.open(tmp_path, archive=None, read_only=True) as reader, refused:
        QueueCollector(reader)


def test_a_store_for_tasks_is_collected_on_the_thread_of_the_scrape(tmp_path: Path) -> None:
    async def lines() -> list[str]:
        async with kvwal.aio.open(tmp_path, archive=None) as store:
            await store.queue("work").put("x")
            return await asyncio.to_thread(page, store)

    assert 'kvwal_queue_items{business="work",queue="work"} 1.0' in asyncio.run(lines())


def queue(number: int, items: int, oldest: float | None, in_flight: int = 0) -> Queue:
    figures = {"items": items, "in_flight": in_flight, "bytes": items, "oldest_seconds": oldest}
    return Queue("work", f"work/q{number}", figures)


def test_many_queues_have_as_many_lines_as_few() -> None:
    few = [queue(number, 1, None) for number in range(MOST)]
    assert bounded(few) == few
    many = [queue(number, number, 5.0) for number in range(3_000)]
    many += [queue(3_000, 0, None, in_flight=9_000), queue(3_001, 1, 9_000.0), queue(3_002, 0, None)]
    found = {each.label: each.figures for each in bounded(many)}
    assert {"work/q2999", "work/q3000", "work/q3001", REST} <= found.keys()
    assert "work/q3002" not in found
    assert len(found) <= 2 * MOST + 1
    for name in ("items", "in_flight", "bytes"):
        assert sum(each[name] for each in found.values()) == sum(each.figures[name] for each in many)
    assert found[REST]["oldest_seconds"] == 5.0
    idle = [queue(number, 0, None) for number in range(3_000)]
    assert {each.label: each.figures for each in bounded(idle)}[REST]["oldest_seconds"] is None


def test_a_nodes_page_has_the_queues_of_its_businesses() -> None:
    figures = queue(1, 3, 7.5).figures
    found = {"work": stats_of_log(1, queues={"todo": figures}), "jobs": stats_of_log(2, queues={})}
    lines = Metrics().page({}, found, {}).decode().splitlines()
    assert 'kvwal_queue_items{business="work",queue="work/todo"} 3.0' in lines
    assert 'kvwal_queue_oldest_seconds{business="work",queue="work/todo"} 7.5' in lines
    assert sum(line.startswith("kvwal_queue_items{") for line in lines) == 1
