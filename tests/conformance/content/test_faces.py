"""Contents of a cluster answer as those of a folder do, to threads and to tasks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import ConfigError, InvalidName, StoreClosed, TransactionClosed, WrongType
from tests.support.cluster.nodes import CLUSTER, Cluster, needs_hazelcast
from tests.support.content.faces import ContentsOnThreads, names
from tests.support.disk.faults import open_store

Run = Callable[[Callable[[Any, Any], Coroutine[Any, Any, None]]], None]
LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)
_NUMBERS = count(1)
KINDS = ["embedded", *(pytest.param(kind, marks=needs_hazelcast) for kind in ("cluster", "cluster, tasks"))]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a test on a business that no other test has, and on its store."""
    three: Cluster | None = None if kind == "embedded" else request.getfixturevalue("three")
    business = f"contents-{next(_NUMBERS)}"

    @asynccontextmanager
    async def opened() -> Any:
        if three is None:
            with await asyncio.to_thread(open_store, tmp_path / "root", flush="os") as made:
                yield ContentsOnThreads(made)
        elif kind == "cluster":
            with await asyncio.to_thread(kvwal.connect, three.addresses, cluster=CLUSTER) as connected:
                yield ContentsOnThreads(connected)
        else:
            async with kvwal.aio.connect(three.addresses, cluster=CLUSTER) as store:
                yield store

    def run_test(test: Callable[[Any, Any], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with opened() as store:
                await test(store.business(business), store)

        asyncio.run(main())

    return run_test


async def part(contents: Any, name: str, **given: Any) -> bytes:
    """The bytes of a content, or some of them, as its file gives them."""
    async with contents.open(name, **given) as file:
        return bytes(await file.read())


@pytest.mark.parametrize("data", [b"", b"report", LARGE], ids=["empty", "small", "large"])
def test_bytes_come_back_as_they_were_put(run: Run, data: bytes) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        assert await c.put("a", data, {"codec": "zstd", "of": "part 1"}) > 0
        assert await c.get("a") == data
        assert await part(c, "a", offset=1, length=3) == data[1:4]
        found = await c.stat("a")
        assert (found.name, found.length, found.codec) == ("a", len(data), "zstd")
        assert found.sha256 == hashlib.sha256(data).hexdigest()
        entry = await c.entry("a")
        assert (entry.key, entry.key_class, entry.value_class) == (b"a", "content:str", "json")
        assert (await c.contains("a"), await c.contains("b"), await c.count()) == (True, False, 1)
        await c.check("a")

    run(test)


def test_parts_that_are_written_become_one_content_or_none(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content("logs")
        async with c.create("log", attributes={"of": "job"}) as out:
            for number in range(12):
                assert await out.write(bytearray(b"%x" % number * (1 << 19))) == 1 << 19
            assert out.tell() == 12 << 19
            assert not await c.contains("log")
        assert out.timestamp > 0
        assert await part(c, "log", offset=(1 << 19) - 1, length=2) == b"01"

        async def fails() -> None:
            async with c.create("log") as out:
                await out.write(LARGE)
                raise LookupError

        with pytest.raises(LookupError):
            await fails()
        assert (await c.stat("log")).length == 12 << 19

    run(test)


def test_names_are_listed_copied_changed_and_deleted(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        assert await business.contents() == []
        c = business.content("files")
        for name in ("b/2", "a", "b/10", "ß"):
            await c.put(name, name.encode(), {"v": "1"})
        assert await names(c) == ["a", "b/10", "b/2", "ß"]
        assert await names(c, "b/") == ["b/10", "b/2"]
        await c.copy("a", "copy")
        await c.set_attributes("copy", {"v": "2"})
        await c.delete("a")
        await c.put("copy of a", await c.get("copy"))
        assert ((await c.stat("copy")).attributes, await c.get("copy")) == ({"v": "2"}, b"a")
        for call in (c.get, c.stat, lambda name: c.copy(name, "b"), lambda name: c.set_attributes(name, {})):
            with pytest.raises(KeyError):
                await call("gone")
        assert await c.delete("gone") > 0
        assert await business.contents() == ["files"]

    run(test)


def test_the_past_is_kept(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content("files")
        first = await c.put("a", b"one")
        await c.put("a", b"two")
        last = await c.delete("a")
        history = await c.history("a")
        assert [(entry.timestamp, entry.deleted) for entry in history][::2] == [(last, True), (first, False)]
        then = await c.at(first)
        assert (await then.get("a"), await names(then)) == (b"one", ["a"])
        assert await names(c) == []

    run(test)


@pytest.mark.parametrize("one", ["embedded", pytest.param("cluster", marks=needs_hazelcast)])
def test_claims_are_rows_of_sql_and_changes_of_a_watch(
    one: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    business = f"rows-{next(_NUMBERS)}"
    three: Cluster | None = None if one == "embedded" else request.getfixturevalue("three")
    with open_store(tmp_path / "root") if three is None else kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        files = store.business(business).content("files")
        changes = files.watch()
        files.put("a", b"two")
        files.delete("a")
        seen = [next(changes), next(changes)]
        assert [(entry.key, entry.deleted) for entry in seen] == [(b"a", False), (b"a", True)]
        files.put("a", b"one")
        rows = store.sql(f"""SELECT key, CAST(value->>'length' AS INT) AS bytes FROM "{business}/content/files" """)
        assert rows.to_pylist() == [{"key": "a", "bytes": 3}]


def test_files_go_in_and_out(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        (tmp_path / "in").write_bytes(LARGE)
        await c.put_file("a", tmp_path / "in", {"of": "in"})
        assert await c.export("a", tmp_path / "out") == len(LARGE)
        assert (tmp_path / "out").read_bytes() == LARGE
        with pytest.raises(ConfigError, match="cannot be read"):
            await c.put_file("a", tmp_path / "gone")
        for name, error in (("", InvalidName), ("a\0b", InvalidName), ("n" * 1025, InvalidName), (1, WrongType)):
            with pytest.raises(error):
                await c.put(name, b"")
        assert await names(c) == ["a"]

    run(test)


@pytest.mark.parametrize("with_queue", [False, True], ids=["alone", "with a queue"])
def test_a_transaction_names_contents_with_other_changes(run: Run, with_queue: bool) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content("files")
        await c.put("old", b"old")
        await business.queue("todo").put("part-1")
        async with business.transaction() as t:
            if with_queue:
                assert await t.queue("todo").take(timeout=5) == "part-1"
            files = t.content("files")
            await files.put("new", b"new", {"v": "1"})
            await files.put("large", LARGE)
            files.delete("old")
            t.map("state")["last"] = "new"
            assert await files.get("new") == b"new"
            assert (await files.contains("old"), await files.contains("large")) == (False, True)
            with pytest.raises(KeyError):
                await files.get("old")
            assert await names(c) == ["old"]
        assert t.timestamp > 0
        assert (await names(c), await c.get("large")) == (["large", "new"], LARGE)
        (logged,) = await c.history("new")
        assert logged.timestamp <= t.timestamp, "in a cluster it is the greatest of the transaction"
        assert await business.map("state").get("last") == "new"
        with pytest.raises(TransactionClosed):
            await files.put("late", b"")

        async def rolled_back() -> None:
            async with business.transaction() as t:
                await t.content("files").put("new", b"other")
                raise LookupError

        with pytest.raises(LookupError):
            await rolled_back()
        assert await c.get("new") == b"new"

    run(test)


def test_a_closed_store_takes_nothing_new(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("a", b"a")
        await store.close()
        for change in (lambda: c.put("b", b"b"), lambda: c.delete("a")):
            with pytest.raises(StoreClosed):
                await change()

    run(test)
