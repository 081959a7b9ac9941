"""Large values of maps and queues: they stand beside the log, and every read shows the value itself."""

from __future__ import annotations

import asyncio
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import kvwal
import kvwal.aio
from kvwal.config import Settings
from kvwal.content.claim import Claim, claim_of, has_claim
from kvwal.content.folder import claim_files
from kvwal.content.writer import SHARED_BYTES
from kvwal.entry import Entry
from kvwal.errors import ConfigError, TooLarge
from kvwal.log.files.format import FORMAT, WITH_LARGE_VALUES
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map
from tests.support.disk.faults import FakeDisk, open_store

INLINE = 1000
LARGE = bytes(range(256)) * 8
HUGE = b"h" * (SHARED_BYTES + 1)
TEXT = {"text": "x" * 2 * INLINE, "number": 1}
SETTINGS = Settings(inline_bytes=INLINE)


@pytest.fixture
def settings() -> Settings:
    return SETTINGS


def stored(jobs: Map, key: Any) -> Entry:
    entry = jobs._find(key)
    assert entry is not None
    return entry


def claim(jobs: Map, key: Any) -> Claim:
    return claim_of(stored(jobs, key))


def format_of_log(store: WritableStore, name: str = "jobs") -> int:
    return store._engine.businesses[name].log.appender.header.format


@pytest.mark.parametrize(
    "value", [LARGE, "x" * 2 * INLINE, TEXT, [0.5] * INLINE, HUGE], ids=["bytes", "str", "json", "list", "huge"]
)
def test_every_read_shows_the_value(jobs: Map, store: WritableStore, value: Any) -> None:
    jobs["a"] = value
    jobs["small"] = 1
    assert has_claim(stored(jobs, "a"))
    assert not has_claim(stored(jobs, "small"))
    data, name = jobs._codecs.encode_value(value)
    assert jobs["a"] == jobs.get("a") == value
    assert dict(jobs) == dict(jobs.items()) == dict(jobs.scan()) == {"a": value, "small": 1}
    assert list(jobs.values()) == [value, 1]
    assert list(jobs.range("a", "b")) == [("a", value)]
    for entry in (
        jobs.entry("a"),
        next(jobs.entries("a")),
        *jobs.history("a"),
        *jobs.watch(after=date(2020, 1, 1)).poll()[:1],
    ):
        assert entry is not None
        assert (entry.value, entry.value_class) == (data, name)
    assert dict(jobs.at(jobs.history("a")[0].timestamp)) == {"a": value}
    with jobs.open("a") as file:
        assert file.read() == data
    rows = store.sql("SELECT value_class, raw FROM jobs WHERE key = 'a'").to_pylist()
    assert rows == store.sql("SELECT value_class, raw FROM jobs_history WHERE key = 'a'").to_pylist()
    assert rows == [{"value_class": name, "raw": data}]
    assert jobs.pop("a") == value
    assert dict(jobs) == {"small": 1}


@pytest.mark.breaks("contents", reason="its claim file is deleted")
def test_a_value_that_cannot_be_read_is_not_popped(store: WritableStore, jobs: Map, tmp_path: Path) -> None:
    jobs["a"] = LARGE
    stored_before = stored(jobs, "a")
    (path,) = (path for path in tmp_path.rglob("content/*/*") if path.is_file())
    aside = path.rename(tmp_path / "aside")
    for pop in (lambda: jobs.pop("a"), jobs.popitem):
        with pytest.raises(kvwal.ContentMissing, match="'a'"):
            pop()
    assert stored(jobs, "a") == stored_before
    aside.rename(path)
    assert jobs.pop("a") == LARGE
    assert "a" not in jobs


def test_a_log_has_another_format_from_the_first_large_value_on(jobs: Map, store: WritableStore) -> None:
    jobs["small"] = b"x" * INLINE
    assert format_of_log(store) == FORMAT
    jobs["large"] = b"x" * (INLINE + 1)
    assert format_of_log(store) == WITH_LARGE_VALUES


def test_values_are_there_after_a_restart_and_for_a_reader(tmp_path: Path, disk: FakeDisk) -> None:
    with open_store(tmp_path / "root", disk, settings=SETTINGS) as store:
        store.map("jobs").put_many({"a": LARGE, "b": HUGE, "c": TEXT, "d": 1})
        store.business("jobs").map("named")["k"] = LARGE
        store.queue("jobs").put(LARGE)
        with kvwal.open(tmp_path / "root", read_only=True) as reader:
            assert dict(reader.map("jobs")) == {"a": LARGE, "b": HUGE, "c": TEXT, "d": 1}
            assert reader.queue("jobs").peek() == LARGE
        store.checkpoint()
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.snapshot")) < 4000
    with open_store(tmp_path / "root", disk, settings=Settings()) as store:
        assert dict(store.map("jobs")) == {"a": LARGE, "b": HUGE, "c": TEXT, "d": 1}
        assert store.business("jobs").map("named")["k"] == LARGE
        assert store.queue("jobs").take() == LARGE
        store.map("jobs")["a"] = LARGE
        assert not has_claim(stored(store.map("jobs"), "a"))


def test_one_transaction_writes_equal_values_once_and_all_with_one_sync(jobs: Map, disk: FakeDisk) -> None:
    jobs["first"] = LARGE
    before = disk.calls["datasync"]
    jobs.put_many({"a": LARGE, "b": LARGE, "c": LARGE[1:], "d": TEXT})
    assert claim(jobs, "a").bytes_of == claim(jobs, "b").bytes_of
    assert len({claim(jobs, key).file for key in "abcd"}) == 1
    assert disk.calls["datasync"] == before + 2


def test_a_transaction_shows_its_own_large_values(store: WritableStore) -> None:
    business = store.business("jobs")
    business.queue("in").put(LARGE)
    with business.transaction() as t:
        item = t.queue("in").take()
        t.map()["a"] = item
        assert t.map()["a"] == LARGE
        t.queue("out").put_many([item, TEXT])
    assert business.map()["a"] == LARGE
    assert list(business.queue("out").browse()) == [LARGE, TEXT]


def test_queues_put_take_move_and_show_large_items(store: WritableStore) -> None:
    business = store.business("jobs")
    q = business.queue("todo")
    q.set_options(capacity_bytes=3 * len(LARGE), max_deliveries=1, dead_letters="dead")
    q.put_many([LARGE, LARGE[::-1]])
    assert q._state.size == 2 * len(LARGE)
    with pytest.raises(TooLarge):
        q.put(HUGE)
    assert q.peek() == LARGE
    assert [item.value for item in q.items()] == [LARGE, LARGE[::-1]]
    assert q.move("other", 1) == 1
    assert business.queue("other").take() == LARGE
    with pytest.raises(LookupError):
        failing(q)
    assert business.queue("dead").take() == LARGE[::-1]
    assert (len(q), q._state.size) == (0, 0)
    assert [entry.value for entry in q.watch(after=date(2020, 1, 1)).poll()] == [LARGE, LARGE[::-1], b"", b""]


def failing(q: kvwal.Queue) -> None:
    with q.transaction() as t:
        t.take()
        raise LookupError


def test_tasks_see_values_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with kvwal.aio.open(tmp_path / "root", settings=SETTINGS) as store:
            jobs = store.map("jobs")
            watch = jobs.watch()
            changes = asyncio.create_task(anext(watch))
            await asyncio.sleep(0)
            await jobs.put("a", LARGE)
            assert (await jobs.get("a"), await jobs.contains("a")) == (LARGE, True)
            entry = await jobs.entry("a")
            assert entry is not None
            assert entry.value == LARGE
            assert [pair async for pair in jobs.scan()] == [("a", LARGE)]
            assert (await jobs.history("a"))[0].value == LARGE
            assert await jobs.replace("a", LARGE, TEXT)
            assert await jobs.replace("a", dict(reversed(TEXT.items())), HUGE)
            assert not await jobs.remove("a", LARGE)
            assert await jobs.commit_if({"a": HUGE}, {"b": LARGE})
            assert await jobs.pop("a") == HUGE
            (tmp_path / "file").write_bytes(HUGE)
            await jobs.put_file("f", tmp_path / "file")
            assert await jobs.get("f") == HUGE
            q = store.queue("jobs")
            await q.put_many([LARGE, TEXT])
            assert await q.peek() == LARGE
            assert await q.take() == LARGE
            async with q.transaction() as t:
                assert await t.take() == TEXT
            assert (await changes).value in (LARGE, b"")

    asyncio.run(run())


@pytest.mark.parametrize("size", [0, INLINE, INLINE + 1, 3 << 20, SHARED_BYTES + 1])
def test_a_file_of_any_size_is_a_value(jobs: Map, tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(b"f" * size)
    timestamp = jobs.put_file("a", tmp_path / "file", ttl=1000)
    assert (stored(jobs, "a").timestamp, has_claim(stored(jobs, "a"))) == (timestamp, size > INLINE)
    assert jobs["a"] == b"f" * size
    with jobs.open("a") as file:
        assert sum(map(len, iter(lambda: file.read(1 << 20), b""))) == size
    left = jobs.ttl("a")
    assert left is not None
    assert 0 < left <= 1000


def test_what_cannot_be_put_from_a_file_is_refused(jobs: Map, tmp_path: Path, store: WritableStore) -> None:
    with pytest.raises(ConfigError):
        jobs.put_file("a", tmp_path / "none")
    with pytest.raises(kvwal.CodecError):
        jobs.put_file(object(), tmp_path)
    assert not len(jobs)
    assert list(claim_files(store._engine.options.disk, tmp_path)) == []


@pytest.mark.parametrize("expected", [TEXT, dict(reversed(TEXT.items())), {**TEXT, "number": 1.0}])
def test_equal_json_of_other_bytes_is_equal(jobs: Map, expected: Any) -> None:
    jobs["a"] = TEXT
    assert not jobs.replace("a", {**TEXT, "number": 2}, 1)
    assert not jobs.remove("a", "x" * 2 * INLINE)
    assert jobs.commit_if({"a": expected, "b": kvwal.ABSENT}, iter([("b", LARGE)]), iter(["c"]))
    assert jobs.remove("a", expected)
    assert dict(jobs) == {"b": LARGE}


def test_a_value_is_compared_wherever_it_stands(tmp_path: Path) -> None:
    """A store may be opened with another limit at any time."""
    for limit, other in ((10, 1 << 20), (1 << 20, 10)):
        root = tmp_path / str(limit)
        with kvwal.open(root, settings=Settings(inline_bytes=limit)) as store:
            store.map("jobs").put_many({"a": LARGE, "b": TEXT})
        with kvwal.open(root, settings=Settings(inline_bytes=other)) as store:
            jobs = store.map("jobs")
            assert not jobs.replace("a", LARGE[::-1], 1)
            assert jobs.replace("a", LARGE, 1)
            assert jobs.remove("b", dict(reversed(TEXT.items())))


def test_a_ttl_of_a_large_value_is_changed_without_writing_it_again(jobs: Map) -> None:
    jobs.put("a", LARGE, ttl=1000)
    before = claim(jobs, "a")
    assert jobs.touch("a", None)
    assert (claim(jobs, "a"), jobs.ttl("a"), jobs["a"]) == (before, None, LARGE)


def test_entries_that_were_not_written_have_their_values_again(jobs: Map, disk: FakeDisk) -> None:
    """A caller may submit encoded entries again."""
    from kvwal.structures.map.map import commit_entries_if

    entries = jobs._changes.put_all({"a": LARGE, "b": TEXT})
    before = [(entry.value, entry.value_class) for entry in entries]
    assert not commit_entries_if(jobs, {"a": 1}, entries)
    assert [(entry.value, entry.value_class) for entry in entries] == before
    assert commit_entries_if(jobs, {"a": kvwal.ABSENT}, entries)
    assert dict(jobs) == {"a": LARGE, "b": TEXT}


def test_events_have_the_size_of_a_large_value_and_replay_puts_it_again(store: WritableStore) -> None:
    business = store.business("jobs")
    events = business.provenance()
    jobs = business.map()
    jobs["a"] = LARGE
    jobs["a"] = LARGE
    jobs["a"] = TEXT
    found = list(events.events(type="create"))
    assert [(event.after.size, event.after.value_class, event.after.is_whole) for event in found if event.after] == [
        (len(LARGE), "bytes", False)
    ]
    assert sorted(event.type for event in events.events()) == ["create", "modify attributes", "modify content"]
    events.replay(found[0])
    assert jobs["a"] == LARGE
    business.queue("in").put(LARGE)
    with business.transaction() as t:
        t.queue("out").put(t.queue("in").take())
    assert [event.type for event in events.events(type="route")] == ["route"]
