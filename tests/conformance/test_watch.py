"""A watch of an embedded map and of a map of a cluster of three nodes keeps the same promises."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest

from kvwal.client.store import ClusterMap
from kvwal.entry import DataEntry
from kvwal.errors import ConfigError, InvalidName, StoreClosed, WrongType
from kvwal.structures.map.map import Map
from kvwal.structures.queue.positions import position_of
from kvwal.structures.watch import Watch

LONG_AGO = datetime(2020, 1, 1)


def seen(entry: DataEntry) -> tuple[str, Any]:
    """Key and value of a change; None is a delete."""
    return entry.key.decode(), None if entry.deleted else json.loads(entry.value)


def every(watch: Watch) -> list[tuple[str, Any]]:
    """All changes that are there."""
    found: list[tuple[str, Any]] = []
    while some := watch.poll():
        found += map(seen, some)
    return found


def given(jobs: Map, watch: Watch, count: int) -> list[tuple[str, Any]]:
    """The next changes, of which there are `count`. An embedded map gives all that are there at once. In a cluster a change comes
    when every member has said that it stamps nothing before it any more, so a single `poll` may be too early (docs/watch.md).
    """
    return [seen(next(watch)) for _ in range(count)] if isinstance(jobs, ClusterMap) else every(watch)


def by_key(changes: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    """The changes of each key, in order. Keys of different members may have clocks that differ a little."""
    found: dict[str, list[Any]] = {}
    for key, value in changes:
        found.setdefault(key, []).append(value)
    return found


def test_changes_come_in_order_with_deletes_and_each_once(jobs: Map) -> None:
    jobs["before"] = [0]
    watch = jobs.watch()
    changes: list[tuple[str, Any]] = []
    for number in range(40):
        key = f"key-{number % 7}"
        if number % 5 == 4:
            del jobs[changes[-1][0]]
            changes.append((changes[-1][0], None))
        else:
            jobs[key] = [number]
            changes.append((key, [number]))
    assert by_key(given(jobs, watch, len(changes))) == by_key(changes)
    assert watch.poll() == []
    whole = [("before", [0]), *changes]
    assert by_key(given(jobs, jobs.watch(after=LONG_AGO), len(whole))) == by_key(whole)
    times = [entry.timestamp for entry in jobs.watch(after=LONG_AGO).poll()]
    assert times == sorted(times)


def test_a_change_is_there_as_soon_as_its_call_has_returned(jobs: Map) -> None:
    watch = jobs.watch()
    for number in range(30):
        jobs[f"key-{number}"] = [number]
        assert given(jobs, watch, 1) == [(f"key-{number}", [number])]


def test_next_waits_for_a_change(jobs: Map) -> None:
    watch = jobs.watch()
    program = asyncio.new_event_loop()
    try:
        waiting = program.run_in_executor(None, next, watch)
        jobs["a"] = [1]
        assert seen(program.run_until_complete(waiting)) == ("a", [1])
    finally:
        program.close()


def test_a_position_goes_on_exactly_there_in_the_middle_of_a_transaction_too(jobs: Map) -> None:
    watch = jobs.watch()
    jobs["a"] = [1]
    jobs.put_many({f"b-{number}": [number] for number in range(12)})
    del jobs["a"]
    found = []
    for _ in range(14):
        position = watch.position
        entry = next(watch)
        assert seen(next(jobs.watch(after=position))) == seen(entry)
        found.append(seen(entry))
    assert by_key(found) == {"a": [[1], None]} | {f"b-{number}": [[number]] for number in range(12)}
    assert every(jobs.watch(after=watch.position)) == every(watch) == []


def test_a_timestamp_begins_after_all_changes_up_to_it(jobs: Map) -> None:
    for number in range(20):
        jobs[f"key-{number}"] = [number]
    entries = jobs.watch(after=LONG_AGO).poll()
    assert [entry.timestamp for entry in entries] == sorted(entry.timestamp for entry in entries)
    for entry in (entries[0], entries[9], entries[-1]):
        behind = [other for other in entries if other.timestamp > entry.timestamp]
        assert jobs.watch(after=entry.timestamp).poll() == behind


def test_a_watch_has_what_the_history_has(jobs: Map) -> None:
    for number in range(20):
        jobs[f"key-{number % 4}"] = [number]
        if number % 6 == 5:
            del jobs[f"key-{number % 4}"]
    with jobs.transaction() as together:
        together["key-1"], together["key-2"] = [100], [200]
    watched = jobs.watch(after=LONG_AGO).poll()
    assert len(watched) == len(set(watched))
    assert set(watched) == {entry for key in range(4) for entry in jobs.history(f"key-{key}")}


def test_many_changes_come_in_pages(jobs: Map) -> None:
    for part in range(3):
        jobs.put_many({f"{part}-{number:04}": ["x" * 600, number] for number in range(1000)})
    jobs.put_many({f"large-{number}": ["x" * 500_000] for number in range(6)})
    watch = jobs.watch(after=LONG_AGO)
    found: list[DataEntry] = []
    pages = 0
    while some := watch.poll():
        found += some
        pages += 1
    assert pages > 1
    assert len(found) == len({entry.key for entry in found}) == 3006
    assert [entry.timestamp for entry in found] == sorted(entry.timestamp for entry in found)


def test_a_wrong_start_is_refused(jobs: Map) -> None:
    watch = jobs.watch()
    jobs["a"] = [1]
    next(watch)
    for text in ("soon", "[1]", '{"local": "x"}'):
        with pytest.raises(ConfigError, match="is no position of a watch"):
            jobs.watch(after=text)
    for wrong in (1_767_225_600, 1.5, True):
        with pytest.raises((ConfigError, WrongType)):
            jobs.watch(after=wrong)
    behind = {node: last + 70 for node, last in json.loads(watch.position).items()}
    with pytest.raises(ConfigError, match="the position is sequence 7"):
        jobs.watch(after=json.dumps(behind))


def test_a_map_that_nobody_wrote_to_has_no_changes(jobs: Map) -> None:
    assert jobs.watch(after=LONG_AGO).poll() == []
    assert jobs.watch().poll() == []


def test_tasks_watch_with_async_for(opening: Any) -> None:
    async def main() -> None:
        async with opening() as store:
            jobs = store.map("watched")
            first = await jobs.put("a", [1])
            watch = jobs.watch(after=LONG_AGO)
            assert seen(await anext(watch)) == ("a", [1])
            waiting = asyncio.ensure_future(anext(watch))
            await jobs.put_many({"b": [2], "c": [3]})
            found = [seen(await waiting)]
            position = watch.position
            async for entry in watch:
                found.append(seen(entry))
                break
            assert sorted(found) == [("b", [2]), ("c", [3])]
            assert seen(await anext(jobs.watch(after=position))) == found[1]
            assert first
            with pytest.raises(ConfigError):
                jobs.watch(after="soon")
        with pytest.raises(StoreClosed):
            await anext(watch)

    asyncio.run(main())


def test_a_queue_and_a_named_map_give_their_own_changes(store: Any) -> None:
    business = store.business("watch-of-structures")
    q, named, own = business.queue("todo"), business.map("state"), business.map()
    watch, of_map = q.watch(), named.watch()
    own["key"] = [0]
    q.put_many(["a", "b"])
    business.queue("other").put("c")
    named["key"] = [1]
    assert q.take() == "a"
    with business.transaction() as t:
        t.queue("other").put(t.queue("todo").take())
        del t.map("state")["key"]
    changes = [next(watch) for _ in range(4)]
    assert {entry.key_class for entry in changes} == {"queue/todo:int"}
    items = q.at(max(entry.timestamp for entry in changes if not entry.deleted))
    places = [(item.priority, item.position) for item in items]
    of_items = [q.history(*place) for place in places]
    assert [[entry.deleted for entry in entries] for entries in of_items] == [[True, False]] * 2
    assert set(changes) == {entry for entries in of_items for entry in entries}
    assert [entry.value for entry in changes if not entry.deleted] in ([b"a", b"b"], [b"b", b"a"])
    told = store.sql('SELECT timestamp, deleted, position FROM "watch-of-structures/queue/todo_history"').to_pylist()
    assert {(row["timestamp"], row["deleted"], row["position"]) for row in told} == {
        (entry.timestamp, entry.deleted, position_of(entry.key)) for entry in changes
    }
    [left] = store.sql(
        'SELECT structure, value FROM "watch-of-structures/queue/*" ORDER BY position DESC LIMIT 1'
    ).to_pylist()
    assert left == {"structure": "queue/other", "value": '"b"'}
    assert [seen(next(of_map)) for _ in range(2)] == [("key", [1]), ("key", None)]
    assert q.watch(after=watch.position).poll() == named.watch(after=of_map.position).poll() == []
    assert q.watch(after=LONG_AGO).poll() == changes
    assert [seen(entry) for entry in own.watch(after=LONG_AGO).poll()] == [("key", [0])]


def test_tasks_watch_a_queue_and_see_its_past(opening: Any) -> None:
    async def main() -> None:
        async with opening() as store:
            q = store.business("watched-queue").queue("todo")
            watch = q.watch(after=LONG_AGO)
            assert watch.position == ""
            before = await q.put("a")
            assert await q.take() == "a"
            assert [(await anext(watch)).deleted for _ in range(2)] == [False, True]
            waiting = asyncio.ensure_future(anext(watch))
            after = await q.put("b", priority=1)
            entry = await waiting
            assert (entry.key_class, entry.deleted, entry.value) == ("queue/todo:int", False, b"b")
            assert [[item.value for item in await q.at(moment)] for moment in (before, after)] == [["a"], ["b"]]
            for call in (lambda: q.at(1_767_225_600), lambda: anext(q.watch(after="soon"))):
                with pytest.raises(ConfigError):
                    await call()

    asyncio.run(main())


def test_tasks_use_a_named_map_its_past_and_its_changes(opening: Any) -> None:
    async def main() -> None:
        async with opening() as store:
            business = store.business("watched-map")
            named, own, other = business.map("state"), business.map(), business.map("other")
            watch = named.watch(after=LONG_AGO)
            before = await named.put("key", [1])
            await own.put("key", ["own"])
            await other.put("key", ["other"])
            assert [await each.get("key") for each in (named, own, other)] == [[1], ["own"], ["other"]]
            assert await named.put_if_absent("key", [2]) is False
            assert await named.replace("key", [1], [2]) is True
            async with named.transaction() as t:
                t["key-2"] = [3]
            assert [pair async for pair in named.scan()] == [("key", [2]), ("key-2", [3])]
            await named.delete("key-2")
            assert [await named.count(), await named.contains("key-2"), await own.count()] == [1, False, 1]
            assert dict(await named.at(before)) == {"key": [1]}
            found = by_key([seen(await anext(watch)) for _ in range(4)])
            assert found == {"key": [[1], [2]], "key-2": [[3], None]}
            assert [entry.deleted for entry in await named.history("key-2")] == [True, False]
            waiting = asyncio.ensure_future(anext(named.watch(after=watch.position)))
            await named.put("key", [4], ttl=3600)
            assert seen(await waiting) == ("key", [4])
            assert 0 < (await named.ttl("key") or 0) <= 3600
            for name in ("_other", "a/b"):
                with pytest.raises(InvalidName):
                    business.map(name)

    asyncio.run(main())
