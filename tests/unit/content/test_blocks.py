"""Contents in transactions: with maps and queues, and the files that a block keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.content.claim import claim_of
from kvwal.content.files import ContentFiles
from kvwal.store.sync import WritableStore
from kvwal.structures.content.content import Contents
from kvwal.structures.facade import Structures
from tests.support.disk.faults import FakeDisk, open_store


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FakeDisk) -> Iterator[WritableStore]:
    with open_store(tmp_path / "root", disk) as store:
        yield store


@pytest.fixture
def business(store: WritableStore) -> Structures:
    return store.business("work")


def files_of(business: Structures) -> ContentFiles:
    return business._business.content_files()


def file_of(contents: Contents, name: str) -> str:
    entry = contents.entry(name)
    assert entry is not None
    return claim_of(entry).file


def test_contents_maps_and_queues_change_together(business: Structures) -> None:
    business.queue("todo").put("report")
    with business.transaction() as t:
        name = t.queue("todo").take()
        t.content("files").put(name, b"text")
        t.content("files").copy(name, "copy")
        t.map("state")["last"] = name
        t.queue("done").put(name)
    assert business.content("files").get("copy") == b"text"
    assert business.map("state")["last"] == "report"
    assert (len(business.queue("todo")), business.queue("done").peek()) == (0, "report")


def test_a_block_that_fails_leaves_names_items_and_no_file_in_use(business: Structures) -> None:
    contents = business.content()
    contents.put("a", b"before")
    business.queue().put(1)

    def block() -> None:
        with business.transaction() as t:
            t.queue().take()
            t.content().put("a", b"after")
            t.content().put("large", bytes(5 << 20))
            t.content().delete("b")
            raise LookupError

    with pytest.raises(LookupError):
        block()
    assert contents.get("a") == b"before"
    assert "large" not in contents
    assert len(business.queue()) == 1
    files_of(business).seal()
    assert files_of(business)._unsettled == {}


def test_a_block_reads_what_it_has_changed(business: Structures) -> None:
    contents = business.content()
    contents.put("a", b"1")
    contents.put("b", b"2")
    with business.transaction() as t:
        block = t.content()
        block.put("a", b"3")
        block.copy("a", "c")
        block.delete("b")
        assert (block.get("a"), block.get("c"), "b" in block, "a" in block) == (b"3", b"3", False, True)
        with pytest.raises(KeyError):
            block.get("b")
        with pytest.raises(KeyError):
            block.copy("b", "d")
        assert contents.get("b") == b"2"
    assert sorted(contents) == ["a", "c"]


def test_a_copy_keeps_its_file_until_the_end_of_the_block(business: Structures, store: WritableStore) -> None:
    contents = business.content()
    contents.put("a", bytes(5 << 20))
    file = file_of(contents, "a")
    with business.transaction() as t:
        t.content().copy("a", "b")
        contents.delete("a")
        for _ in range(3):
            store.checkpoint()
        assert files_of(business).only_settled([file]) == []
    assert contents.get("b") == bytes(5 << 20)
    assert files_of(business).only_settled([file]) == [file]


def test_a_file_that_came_into_use_after_it_was_listed_stays(business: Structures, store: WritableStore) -> None:
    contents, care = business.content(), store._engine.businesses["work"].maintenance._care
    contents.put("a", bytes(5 << 20))
    listed = store._run(care.candidates)
    assert listed.files == [file_of(contents, "a")]
    with business.transaction() as t:
        t.content().copy("a", "b")
        contents.delete("a")
        for _ in range(2):
            store.checkpoint()
        store._run(lambda: care.clean(listed))
    assert contents.get("b") == bytes(5 << 20)


@pytest.mark.breaks("contents", reason="the log has failed")
def test_a_file_stays_while_the_outcome_of_its_block_is_unknown(business: Structures, disk: FakeDisk) -> None:
    contents = business.content()
    contents.put("a", b"a")
    file = file_of(contents, "a")

    def block() -> None:
        with business.transaction() as t:
            t.content().put("b", b"b")
            files_of(business).seal()
            disk.refuse = {"datasync"}

    with pytest.raises(kvwal.CommitUnknown):
        block()
    disk.refuse = set()
    assert files_of(business).only_settled([file]) == []


@pytest.mark.breaks("contents", reason="the log has failed")
def test_a_file_stays_while_the_outcome_of_its_put_is_unknown(
    business: Structures, disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = business.content()
    contents.put("a", b"a")
    file, logged = file_of(contents, "a"), contents._changes.logged

    def failing(*given: Any) -> Any:
        files_of(business).seal()
        disk.refuse = {"datasync"}
        return logged(*given)

    monkeypatch.setattr(contents._changes, "logged", failing)
    with pytest.raises(kvwal.CommitUnknown):
        contents.put("b", b"b")
    disk.refuse = set()
    assert files_of(business).only_settled([file]) == []
