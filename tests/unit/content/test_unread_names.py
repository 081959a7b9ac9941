"""Names of contents that recovery passes unread: what a store does with them is what it does with names that it has read."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import CorruptLog, LogFailed
from kvwal.log.ranges.stored_entries import StoredEntries
from kvwal.store.sync import WritableStore
from kvwal.structures.memory import BusinessMemory
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import open_aio, open_store

NAMES = [f"app-{number:03}" for number in range(60)]
CLASSES = ["", "logs"]
"""Contents of the business's own, and named ones: their names are in two ranges of a snapshot."""


@pytest.fixture(autouse=True)
def blocks_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.log.files.snapshot.BLOCK_ENTRIES", 4)
    monkeypatch.setattr("kvwal.log.ranges.passed_blocks.LEAST_BYTES", 1)


def opened(root: Path, **options: object) -> WritableStore:
    return open_store(root, archive=options.pop("archive", None), start_archiver=lambda: InProcess(""), **options)  # type: ignore[arg-type]


def memory_of(store: WritableStore) -> BusinessMemory:
    return store._engine.businesses["b"].memory


def folder_of(root: Path) -> Path:
    return root / "default" / "local" / "b" / "local"


def held(store: WritableStore) -> dict[str, dict[str, bytes]]:
    contents = {kind: store.business("b").content(kind) for kind in CLASSES}
    return {kind: {name: of.get(name) for name in of} for kind, of in contents.items()}


@pytest.fixture
def model() -> dict[str, dict[str, bytes]]:
    return {kind: {name: f"{kind} {name}".encode() for name in NAMES} for kind in CLASSES}


@pytest.fixture
def root(tmp_path: Path, model: dict[str, dict[str, bytes]]) -> Path:
    """A closed store with entries of maps and a queue around its contents, all of them in a snapshot."""
    with opened(tmp_path / "root") as store:
        b = store.business("b")
        for kind, contents in model.items():
            with b.transaction() as t:
                for name, data in contents.items():
                    t.content(kind).put(name, data)
        for number in range(20):
            b.map()[f"key-{number}"] = number
            b.map("zones")[f"key-{number}"] = number
            b.queue().put(number)
        store.checkpoint()
    return tmp_path / "root"


def test_a_store_opens_without_reading_the_names(root: Path, model: dict[str, dict[str, bytes]]) -> None:
    with opened(root) as store:
        b = store.business("b")
        assert len(b.map()) == len(b.map("zones")) == len(b.queue()) == 20
        b.map()["another"] = 1
        assert memory_of(store)._unread
        assert memory_of(store).contents() == {}
        assert held(store) == model
        assert not memory_of(store)._unread
        assert len(b.content()) == len(NAMES)
        assert b.contents() == CLASSES


@pytest.mark.parametrize(
    "look",
    [
        lambda store: store.business("b").contents(),
        lambda store: store.business("b").content().stat(NAMES[5]),
        lambda store: "x" in store.business("b").content("logs"),
        lambda store: store.business("b").content("new").put("x", b""),
        lambda store: list(memory_of(store).latest_kept()),
        lambda store: memory_of(store).lookup("content:str", b"x"),
    ],
)
def test_each_look_at_contents_reads_the_names(
    root: Path, model: dict[str, dict[str, bytes]], look: Callable[[WritableStore], object]
) -> None:
    with opened(root) as store:
        store.map("b")
        assert memory_of(store)._unread
        look(store)
        assert not memory_of(store)._unread
        assert held(store) == model


def test_names_that_are_above_the_snapshot_are_read_too(root: Path, model: dict[str, dict[str, bytes]]) -> None:
    with opened(root) as store:
        c = store.business("b").content()
        c.put(NAMES[3], b"another")
        c.delete(NAMES[4])
        c.copy(NAMES[5], "copied")
    model[""] |= {NAMES[3]: b"another", "copied": model[""][NAMES[5]]}
    del model[""][NAMES[4]]
    with opened(root) as store:
        store.map("b")
        assert memory_of(store)._unread
        assert held(store) == model


def test_names_of_several_parts_of_a_snapshot_are_read(root: Path, model: dict[str, dict[str, bytes]]) -> None:
    with opened(root) as store:
        logs = store.business("b").content("logs")
        for name in NAMES[:9]:
            logs.put(name, b"new")
        logs.delete(NAMES[9])
        store.checkpoint()
    assert len(list(folder_of(root).glob("*.snapshot"))) == 2
    model["logs"] |= dict.fromkeys(NAMES[:9], b"new")
    del model["logs"][NAMES[9]]
    with opened(root) as store:
        store.map("b")
        assert memory_of(store)._unread
        assert held(store) == model


def test_a_checkpoint_between_the_opening_and_the_first_look_changes_nothing(
    root: Path, model: dict[str, dict[str, bytes]]
) -> None:
    with opened(root) as store:
        for number in range(100):
            store.map("b")[f"more-{number}"] = number
        store.checkpoint()
        assert memory_of(store)._unread
        assert held(store) == model
    with opened(root) as store:
        assert held(store) == model


def test_a_business_with_nothing_but_unread_names_does_not_retire(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with opened(root) as store, store.business("b").transaction() as t:
        for name in NAMES:
            t.content().put(name, b"x")
    with opened(root) as store:
        store.map("b")
        store.checkpoint()
    with opened(root) as store:
        store.map("b")
        assert memory_of(store)._unread
        assert not memory_of(store).holds_nothing()
        assert len(store.business("b").content()) == len(NAMES)


def test_all_threads_see_one_state_of_the_contents(root: Path) -> None:
    with opened(root) as store, ThreadPoolExecutor(8) as threads:
        store.map("b")
        ready = threading.Barrier(8)

        def put(number: int) -> None:
            ready.wait()
            store.business("b").content().put(f"new-{number}", b"x")

        for done in [threads.submit(put, number) for number in range(8)]:
            done.result()
        assert len(store.business("b").content()) == len(NAMES) + 8


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OSError]]:
    """Errors that the next readings of names raise, when they have given some."""
    errors: list[OSError] = []
    contents = StoredEntries.contents

    def failing(stored: StoredEntries) -> Iterator[object]:
        blocks = contents(stored)
        yield next(blocks)
        if errors:
            raise errors.pop(0)
        yield from blocks

    monkeypatch.setattr(StoredEntries, "contents", failing)
    yield errors
    assert errors == []


def test_names_are_read_again_when_a_checkpoint_replaced_a_file_meanwhile(
    root: Path, model: dict[str, dict[str, bytes]], reads: list[OSError]
) -> None:
    with opened(root) as store:
        reads += [FileNotFoundError(), FileNotFoundError()]
        assert held(store) == model


def test_names_that_cannot_be_read_are_asked_for_again_later(
    root: Path, model: dict[str, dict[str, bytes]], reads: list[OSError]
) -> None:
    with opened(root) as store:
        store.map("b")
        reads.append(OSError(5, "Input/output error"))
        with pytest.raises(LogFailed, match=r"names of contents cannot be read .*Input/output error.* Mend the disk"):
            store.content("b")
        store.map("b")["key"] = 1
        assert held(store) == model


@pytest.mark.parametrize("share", [0.3, 0.5, 0.6])
def test_damage_of_what_is_passed_is_found_at_the_opening(root: Path, share: float) -> None:
    (snapshot,) = folder_of(root).glob("*.snapshot")
    data = bytearray(snapshot.read_bytes())
    data[int(len(data) * share)] ^= 0xFF
    snapshot.write_bytes(data)
    with pytest.raises(CorruptLog, match="a block does not verify"), opened(root) as store:
        store.map("b")


def test_tasks_see_the_names(root: Path, model: dict[str, dict[str, bytes]]) -> None:
    async def look() -> None:
        async with open_aio(root, archive=None, start_archiver=lambda: InProcess("")) as store:
            b = store.business("b")
            assert await b.map().get("key-1") == 1
            assert store._engine.businesses["b"].memory._unread
            assert await b.content().get(NAMES[7]) == model[""][NAMES[7]]
            assert await b.contents() == CLASSES

    asyncio.run(look())


def test_an_archive_of_unread_names_has_their_bytes(
    root: Path, tmp_path: Path, model: dict[str, dict[str, bytes]]
) -> None:
    with opened(root, archive=tmp_path / "archive") as store:
        store.map("b")["key"] = 1
        store.archive()
        store.checkpoint()
        assert memory_of(store)._unread
    kvwal.restore(tmp_path / "archive", tmp_path / "restored", node="new")
    with opened(tmp_path / "restored", node="new", archive=tmp_path / "archive") as restored:
        assert held(restored) == model
