"""The asynchronous contents answer as the synchronous ones do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import (
    ConfigError,
    ContentDamaged,
    ContentFailed,
    InvalidName,
    StorageFull,
    StoreClosed,
    TooLarge,
    TransactionClosed,
    WrongType,
)
from tests.support.archive.archiver import InProcess
from tests.support.content.faces import ContentsOnThreads, names
from tests.support.disk.faults import FakeClock, FakeDisk, open_aio, open_store

Run = Callable[..., None]
LARGE = bytes(range(256)) * (SHARED_BYTES // 256 + 1)


@pytest.fixture(params=["synchronous", "asynchronous"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a test on the business `work` of a store that is opened for it, and on the store, if the test wants it."""

    @asynccontextmanager
    async def opened(**given: Any) -> Any:
        if request.param == "asynchronous":
            async with open_aio(tmp_path / "root", flush="os", **given) as store:
                yield store
        else:
            with await asyncio.to_thread(open_store, tmp_path / "root", flush="os", **given) as made:
                yield ContentsOnThreads(made)

    def run_test(test: Callable[..., Coroutine[Any, Any, None]], **given: Any) -> None:
        async def main() -> None:
            async with opened(**given) as store:
                await test(store.business("work"), store)

        asyncio.run(main())

    return run_test


def claim_files(root: Path) -> list[Path]:
    return [path for path in root.rglob("content/*/*") if path.is_file()]


async def part(contents: Any, name: str, **given: Any) -> bytes:
    """The bytes of a content, or some of them, as its file gives them in parts."""
    parts = []
    async with contents.open(name, **given) as file:
        while data := await file.read(1 << 20):
            parts.append(data)
    return b"".join(parts)


async def in_transaction(business: Any, name: str, data: bytes) -> None:
    async with business.transaction() as t:
        await t.content().put(name, data)


@pytest.mark.parametrize("data", [b"", b"report", LARGE], ids=["empty", "small", "large"])
def test_bytes_come_back_as_they_were_put(run: Run, data: bytes) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        assert c.name == "work/content"
        timestamp = await c.put("a", data, {"codec": "zstd", "of": "part 1"})
        assert await c.get("a") == data
        found = await c.stat("a")
        assert (found.name, found.length, found.timestamp) == ("a", len(data), timestamp)
        assert found.sha256 == hashlib.sha256(data).hexdigest()
        assert (found.codec, found.attributes) == ("zstd", {"codec": "zstd", "of": "part 1"})
        entry = await c.entry("a")
        assert (entry.key, entry.key_class, entry.value_class) == (b"a", "content:str", "json")
        assert (await c.contains("a"), await c.contains("b"), await c.count()) == (True, False, 1)

    run(test)


def test_an_absent_name_is_a_key_error(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content("files")
        for call in (c.get, c.stat):
            with pytest.raises(KeyError, match="gone"):
                await call("gone")
        with pytest.raises(KeyError):
            await part(c, "gone")
        with pytest.raises(KeyError):
            await c.copy("gone", "b")
        with pytest.raises(KeyError):
            await c.set_attributes("gone", {})
        assert await c.entry("gone") is None
        assert await c.delete("gone") > 0
        assert await names(c) == []

    run(test)


def test_parts_that_are_written_become_one_content(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        async with c.create("log", attributes={"of": "job"}) as out:
            for number in range(12):
                assert await out.write(bytearray(b"%x" % number * (1 << 19))) == 1 << 19
            assert out.tell() == 12 << 19
            assert not await c.contains("log")
        assert out.timestamp == (await c.stat("log")).timestamp
        async with c.open("log") as file:
            assert await file.read(3) == b"000"
            assert file.tell() == 3
            assert file.seek(11 << 19) == 11 << 19
            assert await file.read() == b"b" * (1 << 19)
            assert await file.read(1) == b""
        async with c.open("log", offset=(1 << 19) - 1, length=2) as file:
            assert await file.read() == b"01"
        async with c.open("log", offset=1 << 40) as file:
            assert await file.read() == b""

    run(test)


def test_a_block_that_raises_leaves_what_was_there(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("a", b"old")
        before = len(claim_files(tmp_path))
        out = c.create("a")

        async def write() -> None:
            async with out:
                await out.write(LARGE)
                assert len(claim_files(tmp_path)) == before + 1
                raise LookupError

        with pytest.raises(LookupError):
            await write()
        assert (await c.get("a"), out.timestamp) == (b"old", 0)
        assert len(claim_files(tmp_path)) == before
        with pytest.raises(ValueError, match="content"):
            await out.write(b"more")

    run(test)


def test_names_are_listed_in_their_order(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        for name in ("b/2", "a", "b/10", "c", "ß"):
            await c.put(name, name.encode())
        assert await names(c) == ["a", "b/10", "b/2", "c", "ß"]
        assert await names(c, "b/") == ["b/10", "b/2"]
        assert [found.length async for found in c.list("b/")] == [4, 3]
        assert await names(business.content("other")) == []

    run(test)


def test_copies_and_attributes_move_no_bytes(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("a", LARGE, {"v": "1"})
        files = claim_files(tmp_path)
        await c.copy("a", "b")
        await c.set_attributes("b", {"v": "2"})
        assert claim_files(tmp_path) == files
        assert ((await c.stat("a")).attributes, (await c.stat("b")).attributes) == ({"v": "1"}, {"v": "2"})
        await c.delete("a")
        assert await c.get("b") == LARGE
        assert await names(c) == ["b"]

    run(test)


def test_the_past_is_kept(run: Run) -> None:
    clock = FakeClock()

    async def test(business: Any, store: Any) -> None:
        c = business.content("files")
        first = await c.put("a", b"one")
        clock.ms += 1
        await c.put("a", b"two")
        clock.ms += 1
        last = await c.delete("a")
        history = await c.history("a")
        assert [(entry.timestamp, entry.deleted) for entry in history][::2] == [(last, True), (first, False)]
        then = await c.at(first)
        assert (await then.get("a"), await names(then), await then.count()) == (b"one", ["a"], 1)
        assert await names(c) == []

    run(test, clock=clock)


def test_files_go_in_and_out(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        source, target = tmp_path / "in", tmp_path / "out"
        source.write_bytes(LARGE)
        await c.put_file("a", source, {"of": "in"})
        assert await c.export("a", target) == len(LARGE)
        assert target.read_bytes() == LARGE
        with pytest.raises(ConfigError, match="is there already"):
            await c.export("a", str(target))
        with pytest.raises(ConfigError, match="cannot be read"):
            await c.put_file("a", tmp_path / "gone")
        with pytest.raises(ConfigError, match="cannot be read"):
            await c.put_file("b", tmp_path)
        with pytest.raises(KeyError):
            await c.export("gone", tmp_path / "new")
        assert not (tmp_path / "new").exists()
        assert await names(c) == ["a"]

    run(test)


def test_wrong_arguments_write_nothing(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        for name, error in (("", InvalidName), ("a\0b", InvalidName), ("n" * 1025, InvalidName), (1, WrongType)):
            with pytest.raises(error):
                await c.put(name, b"")
        with pytest.raises(WrongType, match="no text"):
            await c.put("a", b"", {"a": 1})
        with pytest.raises(TooLarge):
            await c.put("a", b"", {"a": "v" * (1 << 17)})
        await c.put("a", b"a")
        for given in ({"offset": -1}, {"length": 1.5}):
            with pytest.raises(ConfigError, match="whole number"):
                await part(c, "a", **given)
        with pytest.raises(InvalidName):
            business.content("a/b")
        assert await names(c) == ["a"]

    run(test)


def test_a_transaction_names_contents_with_other_changes(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content("files")
        await c.put("old", b"old")
        async with business.transaction() as t:
            files = t.content("files")
            await files.put("new", b"new", {"v": "1"})
            await files.put("large", LARGE)
            files.copy("old", "kept")
            files.delete("old")
            t.map("state")["last"] = "new"
            assert (await files.get("new"), await files.get("kept")) == (b"new", b"old")
            assert (await files.contains("old"), await files.contains("large")) == (False, True)
            with pytest.raises(KeyError):
                await files.get("old")
            assert await names(c) == ["old"]
        assert await names(c) == ["kept", "large", "new"]
        assert await c.get("large") == LARGE
        assert {found.timestamp async for found in c.list()} == {t.timestamp}
        with pytest.raises(TransactionClosed):
            await files.put("late", b"")
        with pytest.raises(TransactionClosed):
            files.delete("new")

        async def rolled_back() -> None:
            async with business.transaction() as t:
                await t.content("files").put("new", b"other")
                raise LookupError

        with pytest.raises(LookupError):
            await rolled_back()
        assert await c.get("new") == b"new"

    run(test)


def test_a_full_or_failing_disk_writes_nothing(run: Run) -> None:
    disk = FakeDisk()

    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("a", b"a")
        for data in (b"b" * 100, LARGE):
            disk.fail("datasync")
            with pytest.raises(ContentFailed, match="nothing was logged"):
                await c.put("b", data)
            disk.full = True
            with pytest.raises(StorageFull):
                await c.put("b", data)
            with pytest.raises(StorageFull):
                async with business.transaction() as t:
                    await t.content().put("b", data)
            disk.full = False
            await c.put("c", data)
        assert await names(c) == ["a", "c"]

    run(test, disk=disk)


def test_damaged_bytes_are_told_and_others_are_read(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("good", b"good")
        await c.put("bad", LARGE)
        (path,) = [path for path in claim_files(tmp_path) if path.stat().st_size == len(LARGE)]
        with path.open("r+b") as file:
            file.seek(len(LARGE) - 1)
            file.write(b"?")
        with pytest.raises(ContentDamaged, match="'bad'"):
            await c.get("bad")
        with pytest.raises(ContentDamaged):
            await part(c, "bad")
        assert await part(c, "bad", offset=1, length=2) == LARGE[1:3]
        with pytest.raises(ContentDamaged):
            await c.export("bad", tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert await c.get("good") == b"good"

    run(test)


def test_damaged_bytes_are_mended_from_the_archive(run: Run, tmp_path: Path) -> None:
    async def test(business: Any, store: Any) -> None:
        c = business.content()
        await c.put("a", LARGE, {"v": "1"})
        await store.archive()
        assert await c.repair("a") is False
        (path,) = claim_files(tmp_path / "root")
        path.write_bytes(b"?" * len(LARGE))
        with pytest.raises(ContentDamaged):
            await c.check("a")
        assert await c.get("a") == LARGE
        assert await c.export("a", tmp_path / "copy") == len(LARGE)
        assert (tmp_path / "copy").read_bytes() == LARGE
        assert await c.repair("a") is True
        await c.check("a")
        assert (await c.stat("a")).attributes == {"v": "1"}
        with pytest.raises(KeyError):
            await c.repair("gone")

    run(test, archive=tmp_path / "archive", start_archiver=lambda: InProcess(""))


def test_a_closed_store_takes_and_shows_nothing_new(run: Run) -> None:
    kept: list[Any] = []

    async def test(business: Any, store: Any) -> None:
        kept.append(business.content())
        await kept[0].put("a", b"a")
        await store.close()
        with pytest.raises(StoreClosed):
            await kept[0].put("b", b"b")
        with pytest.raises(StoreClosed):
            await kept[0].delete("a")

    run(test)


def test_the_names_of_the_contents_of_a_business(run: Run) -> None:
    async def test(business: Any, store: Any) -> None:
        assert await business.contents() == []
        await business.content("files").put("a", b"")
        await store.content("work").put("a", b"")
        await business.content("gone").delete("a")
        assert await business.contents() == ["", "files"]

    run(test)


def test_a_store_that_is_only_read_shows_contents_and_refuses_changes(tmp_path: Path) -> None:
    with open_store(tmp_path, flush="os") as store, kvwal.open(tmp_path, read_only=True) as reader:
        store.content("work").put("a", LARGE)
        c = reader.content("work")
        assert (c.get("a"), len(c), list(c)) == (LARGE, 1, ["a"])
        for change in (lambda: c.put("b", b""), lambda: c.delete("a"), lambda: c.copy("a", "b")):
            with pytest.raises(ConfigError, match="read_only"):
                change()
