"""A watch of a cluster's map: real logs of three members, a real archive and a client's feed, without a network between them."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kvwal.client.cluster_business import ClusterBusiness
from kvwal.cluster import requests as questions
from kvwal.entry import DataEntry, encode_entries, make_entry
from kvwal.errors import ArchiveGap, BeforeHistory, ClusterUnreachable, ConfigError, KvwalError
from kvwal.structures.watch import Watch
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import note_lost_tail
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.cluster.members import NAMES, Members, run

LONG_AGO = 946_684_800_000 << 16


def every(watch: Watch) -> list[DataEntry]:
    found: list[DataEntry] = []
    while some := watch.poll():
        found += some
    return found


def keys(entries: list[DataEntry]) -> list[str]:
    return [entry.key.decode() for entry in entries]


def test_while_all_members_write_each_change_comes_once_and_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wall clock stands still, so the low watermarks alone decide the order. The client asks another member each time."""

    async def work(members: Members) -> None:
        stamps: set[int] = set()

        async def write(name: str) -> None:
            jobs = members.stores[name].map("jobs")
            for number in range(150):
                stamps.add(await jobs.put(f"{name} {number % 10}", number))
                await asyncio.sleep(0)

        watch = await members.watch()
        writing = [asyncio.ensure_future(write(name)) for name in NAMES]
        found: list[DataEntry] = []
        polls = 0
        while len(found) < 450:
            found += await asyncio.to_thread(watch.poll)
            polls += 1
            watch = await members.watch(json.loads(watch.position), asked=NAMES[polls % 3])
        await asyncio.gather(*writing)
        assert polls > 2
        order = [entry.timestamp for entry in found]
        assert order == sorted(order)
        assert len(set(found)) == 450
        assert set(order) == stamps
        assert await asyncio.to_thread(watch.poll) == []

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_member_that_left_is_read_from_the_archive_and_one_that_is_back_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        stores = {name: members.stores[name].map("jobs") for name in NAMES}
        watch = await members.watch()
        for number in range(6):
            members.clock.ms += 1
            await stores[NAMES[number % 3]].put(f"{number}", number)
        assert keys(await asyncio.to_thread(every, watch)) == ["0", "1", "2", "3", "4", "5"]
        members.clock.ms += 1
        await stores["node-3"].put("archived", 1)
        await members.stores["node-3"].archive()
        members.clock.ms += 1
        await stores["node-1"].put("after it", 1)
        members.clock.ms += 1
        await stores["node-3"].put("on its disk only", 1)
        members.living.remove("node-3")
        assert keys(await asyncio.to_thread(every, watch)) == ["archived", "after it"]
        afresh = await members.watch(LONG_AGO)
        assert len(await asyncio.to_thread(every, afresh)) == 8
        members.clock.ms += 1
        begun_meanwhile = await members.watch()
        await stores["node-1"].put("meanwhile", 1)
        assert keys(await asyncio.to_thread(every, watch)) == ["meanwhile"]
        members.living.append("node-3")
        await stores["node-3"].put("since it is back", 1)
        assert keys(await asyncio.to_thread(every, watch)) == ["on its disk only", "since it is back"]
        assert keys(await asyncio.to_thread(every, begun_meanwhile)) == ["meanwhile", "since it is back"]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_member_without_the_log_holds_nothing_up_and_its_log_is_read_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        watch = await members.watch()
        await members.stores["node-1"].map("jobs").put("a", 1)
        assert keys(await asyncio.to_thread(every, watch)) == ["a"]
        await members.stores["node-2"].map("jobs").put("b", 1)
        await members.stores["node-3"].map("other").put("c", 1)
        assert keys(await asyncio.to_thread(every, watch)) == ["b"]
        assert json.loads(watch.position) == {"node-1": 1, "node-2": 1, "node-3": 0}

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_start_names_the_exact_entry_also_in_the_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        stamps = []
        for number in range(30):
            members.clock.ms += 1
            stamps.append(await members.stores[NAMES[number % 3]].map("jobs").put(f"{number:02}", number))
        for name in NAMES[:2]:
            await members.stores[name].archive()
            await members.stores[name].checkpoint()
            await members.stores[name].archive()
        for number in (0, 7, 15, 29):
            watch = await members.watch(stamps[number])
            expected = {name: sum(n % 3 == k for n in range(number + 1)) for k, name in enumerate(NAMES)}
            assert json.loads(watch.position) == expected
            assert keys(await asyncio.to_thread(every, watch)) == [f"{n:02}" for n in range(number + 1, 30)]

    run(partial(Members, tmp_path, monkeypatch), work)


def test_errors_of_a_member_come_back_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(members: Members) -> None:
        jobs = members.stores["node-2"].map("jobs")
        first = await jobs.put("a", 1)
        for value in (2, 3):
            members.clock.ms += 1
            await jobs.put("a", value)
        with pytest.raises(ConfigError, match=r"default/local/jobs/node-2: the position is sequence 7, .* ends with 3"):
            await members.watch({"node-2": 7})
        await members.stores["node-2"].archive()
        await members.stores["node-2"].checkpoint()
        await members.stores["node-2"].archive()
        place = Place("default", "local", "jobs", "node-2")
        now = members.clock.ms + 1000
        compaction.rewrite(open_objects(str(members.archive)), place, now_ms=now, history_ms=0, force=True)
        behind = await members.watch({"node-2": 1})
        with pytest.raises(ArchiveGap, match="of sequences 2–3 the archive has kept 1"):
            await asyncio.to_thread(behind.poll)
        with pytest.raises(BeforeHistory):
            await members.watch(first)
        members.gone.add("node-3")
        with pytest.raises(ClusterUnreachable, match="node-3 went"):
            await members.watch()

    run(partial(Members, tmp_path, monkeypatch), work)


def test_a_question_for_changes_is_told_from_those_of_earlier_versions() -> None:
    start = questions.WatchStart("jobs", {"node-1": 3})
    read = questions.WatchRead("jobs", {}, 5)
    of_queue = questions.WatchRead("jobs", {}, 5, structure="queue/todo")
    then = questions.StructureQuestion("jobs", "queue/todo", 3, questions.Page("queue/todo:int", b"1"))
    for question in (
        start,
        read,
        of_queue,
        then,
        questions.FailuresQuestion(),
        questions.Question("jobs", timestamp=3),
    ):
        assert questions.decode(questions.encode(question)) == question
    assert b"structure" not in questions.encode(read)  # earlier versions refuse a field that they do not know


class _Link:
    """A connection to members of an earlier version."""

    class address:  # noqa: N801
        timeout = 0.0

    client = None

    def map(self, name: str) -> None:
        """No map is needed."""

    def result(self, begin: object, label: str, *, writes: bool = False) -> bytes:
        """What such a member says to a question that it does not know."""
        raise KvwalError("this node has a bug, and its log says which.")


def test_a_member_of_an_earlier_version_is_named_as_one() -> None:
    link: Any = _Link()
    business = ClusterBusiness(link, "jobs", lambda call: call())
    with pytest.raises(ConfigError, match="it is of an earlier version"):
        business.feed(None)
    with pytest.raises(ConfigError, match="it is of an earlier version"):
        business.as_of(1, "queue/todo")


class _HistoryLink(_Link):
    """As `_Link` for the first question. The second one, for a key's history, the member knows."""

    _asked = 0

    def result(self, begin: object, label: str, *, writes: bool = False) -> bytes:
        """What the member says."""
        self._asked += 1
        if self._asked == 1:
            return super().result(begin, label, writes=writes)
        return encode_entries([make_entry(b"key", "str", b"value", "str", False, 7, 0)])


def test_a_member_of_an_earlier_version_gives_a_history_without_warnings(caplog: pytest.LogCaptureFixture) -> None:
    link: Any = _HistoryLink()
    business = ClusterBusiness(link, "jobs", lambda call: call())
    assert [entry.value for entry in business.history("str", b"key")] == [b"value"]
    assert warnings(caplog) == []


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The nodes whose lost disks were warned of since the last call."""
    texts = [record.getMessage() for record in caplog.records if record.name.startswith("kvwal.history")]
    caplog.clear()
    return [text.split(" was lost")[0].removeprefix("jobs: the disk of ") for text in texts]


def test_a_watch_warns_once_of_each_lost_disk_whose_changes_it_may_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of those that were lost before it, and of one that is lost on its way."""

    async def work(members: Members) -> None:
        stamps = []
        for name in NAMES:
            members.clock.ms += 10
            stamps.append(await members.stores[name].map("jobs").put("key", name))
            await members.stores[name].archive()

        def lose(node: str) -> None:
            members.clock.ms += 10
            now = members.clock.ms << 16
            note_lost_tail(members.objects(), LostTail(Place("default", "local", "jobs", node), 1, now, now + 1))
            members.clock.ms += 10_000
            members.clock.seconds += 100.0

        lose("node-1")
        begun = {start: await members.watch(start) for start in (stamps[0], None)}
        behind = await members.watch({"node-1": 1, "node-2": 1, "node-3": 1})
        before = await members.watch({})
        for watch, expected in ((begun[stamps[0]], 1), (begun[None], 0), (behind, 1), (before, 1)):
            for _ in range(2):
                await asyncio.to_thread(every, watch)
            assert warnings(caplog) == ["node-1"] * expected
        await members.stores["node-1"].map("jobs").put("key", "since")
        passed = await members.watch({"node-1": 2})
        await asyncio.to_thread(every, passed)
        assert warnings(caplog) == []
        lose("node-2")
        for watch in (begun[stamps[0]], begun[None], behind, before, passed):
            await asyncio.to_thread(every, watch)
            await asyncio.to_thread(every, watch)
            assert warnings(caplog) == ["node-2"]

    run(partial(Members, tmp_path, monkeypatch), work)
