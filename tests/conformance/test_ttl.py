"""The time that a key has left is told, and changed without its value, by every kind of map."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from kvwal.errors import CodecError
from kvwal.structures.map.map import Map
from tests.support.polling import until
from tests.support.threads import at_once

HOUR = 3600.0


def left(jobs: Map, key: Any) -> float:
    found = jobs.ttl(key)
    assert found is not None
    return found


@pytest.mark.parametrize("value", ["text", 1.5, None, {"b": 1, "a": [2]}, b"\x00\xff"])
def test_a_ttl_is_told_and_set_and_taken_away(jobs: Map, value: Any) -> None:
    jobs.put("a", value, ttl=HOUR)
    assert left(jobs, "a") == pytest.approx(HOUR, abs=60)
    assert jobs.touch("a", 2 * HOUR)
    assert left(jobs, "a") == pytest.approx(2 * HOUR, abs=60)
    assert jobs.touch("a", ttl=None)
    assert jobs.ttl("a") is None
    assert jobs.touch("a", timedelta(days=1))
    assert left(jobs, "a") == pytest.approx(24 * HOUR, abs=60)
    assert jobs["a"] == value
    assert [bool(entry.expires) for entry in jobs.history("a")] == [True, False, True, True]
    assert len({entry.value for entry in jobs.history("a")}) == 1


def test_a_timedelta_is_a_ttl_everywhere(jobs: Map) -> None:
    day = timedelta(days=1)
    jobs.put("put", 1, ttl=day)
    jobs.submit("submit", 1, ttl=day).result()
    assert jobs.put_if_absent("absent", 1, ttl=day)
    with jobs.transaction() as t:
        t.put("transaction", 1, ttl=day)
        t["none"] = 1
    for key in ("put", "submit", "absent", "transaction"):
        assert left(jobs, key) == pytest.approx(24 * HOUR, abs=60)
    assert jobs.ttl("none") is None
    with pytest.raises(CodecError):
        jobs.put("a", 1, ttl=timedelta())


def test_what_is_absent_stays_absent(jobs: Map) -> None:
    jobs["deleted"] = 1
    del jobs["deleted"]
    jobs.put("expired", 1, ttl=0.001)
    until(lambda: None if "expired" in jobs else True)
    for key in ("never", "deleted", "expired", ("no", "key")):
        assert jobs.touch(key, HOUR) is False
        assert jobs.touch(key, None) is False
        assert key not in jobs
        with pytest.raises(KeyError):
            jobs.ttl(key)


def test_a_touched_key_expires(jobs: Map) -> None:
    jobs["a"] = 1
    assert jobs.touch("a", 0.01)
    until(lambda: None if "a" in jobs else True)
    assert not jobs.touch("a", HOUR)


def test_a_touch_beside_writes_loses_no_value(jobs: Map) -> None:
    """Another thread writes longer values meanwhile: each touch keeps the value that the key has then."""
    jobs["a"] = ""

    def work(number: int) -> bool:
        for step in range(30):
            if number:
                jobs.touch("a", HOUR)
            else:
                jobs["a"] = "x" * step
        return True

    assert at_once(work, threads=2) == [True, True]
    assert jobs["a"] == "x" * 29
    lengths = [len(entry.value) for entry in jobs.history("a")]
    assert lengths == sorted(lengths, reverse=True)
    del jobs["a"]
    assert at_once(lambda number: jobs.touch("a", HOUR), threads=4) == [False] * 4


@pytest.mark.parametrize("ttl", [0, -1, True, "1h", float("nan"), float("inf"), timedelta(days=-1)])
def test_what_is_no_ttl_is_refused(jobs: Map, ttl: Any) -> None:
    jobs.put("a", 1)
    with pytest.raises(CodecError):
        jobs.touch("a", ttl)
    assert jobs.ttl("a") is None


def test_tasks_ask_and_touch(opening: Callable[[], Any]) -> None:
    async def main() -> None:
        async with opening() as store:
            jobs = store.map("aio-ttl")
            await jobs.put("a", {"x": 1}, ttl=timedelta(hours=1))
            assert await jobs.ttl("a") == pytest.approx(HOUR, abs=60)
            assert await jobs.touch("a", None)
            assert await jobs.ttl("a") is None
            assert await jobs.touch("a", 2 * HOUR)
            assert await jobs.ttl("a") == pytest.approx(2 * HOUR, abs=60)
            assert await jobs.get("a") == {"x": 1}
            await jobs.delete("a")
            assert await jobs.touch("a", HOUR) is False
            for key in ("a", ("no", "key")):
                with pytest.raises(KeyError):
                    await jobs.ttl(key)

    asyncio.run(main())
