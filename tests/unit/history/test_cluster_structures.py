"""The past and the changes of queues and named maps: real logs of three members and a real archive, without a network."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from kvwal.aio import open as open_aio
from kvwal.client.history.all_changes import all_changes
from kvwal.client.member_tasks import MapChanges
from kvwal.cluster import requests as questions
from kvwal.cluster.requests import NOW, Page, StructureQuestion, WatchStarted
from kvwal.codecs import registry
from kvwal.entry import DataEntry, Entry
from kvwal.errors import BeforeHistory, ClusterUnreachable
from kvwal.log.reader import entry_decoder
from kvwal.node.requests import history_service
from kvwal.node.requests.history_service import HistoryService
from kvwal.node.requests.peers import Peers
from kvwal.ports.tasks import ThreadWorkers
from kvwal.structures.map.state import to_state
from kvwal.structures.queue.queue import items_of
from kvwal.structures.watch import Change, Positions, Start, Watch, parse_position
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from tests.support.cluster.members import NAMES, Members, run
from tests.support.queue.blocks import rolled_back_here

LONG_AGO = 946_684_800_000 << 16


def seen(entries: list[Any]) -> list[tuple[str, Any]]:
    """Class and value of entries; None is a delete."""
    return [
        (entry.key_class, None if entry.deleted else registry.decode(entry.value, entry.value_class))
        for entry in entries
    ]


def every(watch: Watch) -> list[DataEntry]:
    found: list[DataEntry] = []
    while some := watch.poll():
        found += some
    return found


async def fill(members: Members) -> list[int]:
    """Two queues and a named map, of which each member has a part. The timestamps: after the puts, and after a take."""
    for number, name in enumerate((*NAMES, *NAMES)):
        members.clock.ms += 1
        business = members.stores[name].business("work")
        await business.queue("todo").put(number)
        await business.queue("other").put(f"other {number}")
        await business.map().put(f"key {number}", "own")
        before = await business.map("state").put("last", number)
        if number == 2:
            for other in NAMES:
                await members.stores[other].archive()
    members.clock.ms += 1
    assert await members.stores["node-1"].business("work").queue("todo").take(timeout=0) == 0
    return [before, await members.stores["node-1"].business("work").map("state").put("last", "taken")]


def test_the_past_of_a_structure_has_what_each_member_has_archived_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        before, after = await fill(members)

        async def ask(structure: str, timestamp: int, page: Page = Page()) -> list[Entry]:
            return await members.ask(StructureQuestion("work", structure, timestamp, page))

        assert seen(await ask("queue/todo", before)) == [("queue/todo:int", number) for number in range(6)]
        assert seen(await ask("queue/todo", after)) == [("queue/todo:int", number) for number in range(1, 6)]
        assert seen(await ask("map/state", before)) == [("map/state:str", 5)]
        assert seen(await ask("map/state", NOW)) == [("map/state:str", "taken")]
        assert await ask("queue", NOW) == await ask("queue/none", NOW) == []
        every_queue = await ask("queue/*", NOW)
        assert seen(every_queue) == [
            *(("queue/other:int", f"other {number}") for number in range(6)),
            *(("queue/todo:int", number) for number in range(1, 6)),
        ]
        page, pages = Page(), []
        monkeypatch.setattr(history_service, "PAGE_BYTES", 40)
        while entries := await ask("queue/*", NOW, page):
            pages.append(entries)
            page = Page(entries[-1].key_class, entries[-1].key)
        assert [entry.public() for entries in pages for entry in entries] == [entry.public() for entry in every_queue]
        assert max(map(len, pages)) < 5

    run(partial(Members, tmp_path, monkeypatch), work)


def test_the_past_of_a_queue_counts_deliveries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        q = members.stores["node-2"].business("work").queue("todo")
        await q.set_options(max_deliveries=3, dead_letters="failed")
        await q.put_many(["a", "b"])
        async with rolled_back_here(q.transaction()) as t:
            assert await t.take() == "a"
        members.clock.ms += 1
        found = to_state(await members.ask(StructureQuestion("work", "queue/todo", NOW)), lambda: 0)
        items = items_of(found.all_ordered(), registry)
        assert [(item.value, item.deliveries) for item in items] == [("a", 1), ("b", 0)]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_watch_of_a_structure_gives_its_changes_of_all_members_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        before, _ = await fill(members)
        changes = [*(("queue/todo:int", number) for number in range(6)), ("queue/todo:int", None)]
        watch = await members.watch(LONG_AGO, name="work", structure="queue/todo")
        assert seen([await asyncio.to_thread(next, watch) for _ in range(3)]) == changes[:3]
        position = parse_position(watch.position)
        assert seen(await asyncio.to_thread(every, watch)) == changes[3:]
        again = await members.watch(position, asked="node-3", name="work", structure="queue/todo")
        assert seen(await asyncio.to_thread(every, again)) == changes[3:]
        late = await members.watch(before, name="work", structure="queue/todo")
        assert seen(await asyncio.to_thread(every, late)) == changes[-1:]
        state = await members.watch(LONG_AGO, name="work", structure="map/state")
        assert [value for _, value in seen(await asyncio.to_thread(every, state))] == [*range(6), "taken"]
        own = await members.watch(LONG_AGO, name="work")
        assert seen(await asyncio.to_thread(every, own)) == [("str", "own")] * 6

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_watch_of_a_structure_gives_what_the_archive_has_of_a_member_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        await fill(members)
        for name in NAMES:
            await members.stores[name].archive()
        members.living = ["node-1", "node-2"]
        watch = await members.watch(LONG_AGO, name="work", structure="queue/other")
        found = seen(await asyncio.to_thread(every, watch))
        assert found == [("queue/other:int", f"other {number}") for number in range(6)]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_member_without_an_archive_answers_from_its_own_log(tmp_path: Path) -> None:
    async def work() -> None:
        workers = ThreadWorkers("test", 2)
        async with open_aio(tmp_path, node="node-1", archive=None) as store:
            business = store.business("work")
            await business.queue("todo").put("first", ttl=3600)
            before = await business.map("state").put("key", 1)
            assert await business.queue("todo").take(timeout=0) == "first"
            await business.queue("todo").put("second", ttl=3600)
            await business.map().put("own", 1)
            engine: Any = store._engine
            service = HistoryService(engine, lambda: pytest.fail("no archive"), cast("Peers", None), workers)

            async def ask(structure: str, timestamp: int) -> list[tuple[str, Any]]:
                said = await service.answer(questions.encode(StructureQuestion("work", structure, timestamp)))
                return seen(list(entry_decoder()(said)))

            assert await ask("queue/todo", before) == [("queue/todo:int", "first")]
            assert await ask("queue/todo", NOW) == await ask("queue/*", NOW) == [("queue/todo:int", "second")]
            assert await ask("map/state", NOW) == [("map/state:str", 1)]
            await store.checkpoint()
            with pytest.raises(BeforeHistory):
                await ask("queue/todo", before)
        workers.close()

    asyncio.run(work())


def test_all_changes_are_read_once_while_others_write_and_after_a_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the log of node-3, which is no member any more, only the archive is left, and compaction has removed a part."""

    async def work(members: Members) -> None:
        await fill(members)
        for name in NAMES:
            await members.stores[name].archive()
        place, now_ms = Place("default", "local", "work", "node-3"), members.clock.ms + 1000
        compaction.rewrite(members.objects(), place, now_ms=now_ms, history_ms=0, force=True)
        members.living = ["node-1", "node-2"]
        pages = Writing(members)
        found = await asyncio.to_thread(all_changes, pages, "work", 0.0)
        assert (await asyncio.to_thread(pages.begin_with_all)).compacted["node-3"] > 0
        values = [value for _, value in seen([change.entry for change in found])]
        assert sorted(value for value in values if value is not None) == list(range(6))
        assert values[-1] is None
        assert len({(change.node, change.sequence) for change in found}) == 7

    run(partial(Members, tmp_path, monkeypatch), work)


class Writing:
    """The changes of a queue. Before each page, another queue and the same one get a further item."""

    def __init__(self, members: Members) -> None:
        self._changes = members.changes(name="work", structure="queue/todo")
        business = members.stores["node-2"].business("work")
        self._queues = [business.queue(name) for name in ("todo", "other")]
        self._loop = asyncio.get_running_loop()
        self.begin = self._changes.begin
        self.begin_with_all = self._changes.begin_with_all

    def page(self, at: WatchStarted, until: Positions | None = None) -> tuple[list[Change], Positions]:
        for queue in self._queues:
            asyncio.run_coroutine_threadsafe(queue.put("late"), self._loop).result()
        return self._changes.page(at, until)


def test_changes_that_a_member_has_taken_along_are_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        await fill(members)
        changes = members.changes(name="work", structure="queue/todo")

        def leave(start: Start) -> WatchStarted:
            begun = MapChanges.begin(changes, start)
            members.living = ["node-1", "node-2"]
            return begun

        monkeypatch.setattr(changes, "begin", leave)
        with pytest.raises(
            ClusterUnreachable, match=r"work: node-3 has not given its changes up to sequence \d+ within 0 s"
        ):
            await asyncio.to_thread(all_changes, changes, "work", 0.0)

    run(partial(Members, tmp_path, monkeypatch), work)
