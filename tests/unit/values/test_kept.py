"""Claim files of large values: who keeps them, when they go, and what a full or failing disk leaves."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.config import Settings
from kvwal.content.claim import claim_of
from kvwal.errors import ContentDamaged, ContentFailed, ContentMissing, LogFailed, StorageFull
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map, submit_entries
from tests.support.content.large_values import cleaned, files_of, seal, there
from tests.support.disk.faults import FakeDisk, open_store

LARGE = bytes(range(256)) * 4


def file_of(jobs: Map, key: Any) -> str:
    entry = jobs._find(key)
    assert entry is not None
    return claim_of(entry).file


def unsettled(store: WritableStore) -> dict[str, int]:
    return dict(files_of(store)._unsettled)


def test_a_value_that_is_replaced_deleted_or_expired_goes_with_the_checkpoints(
    jobs: Map, store: WritableStore, tmp_path: Path
) -> None:
    files = {}
    for key in ("replaced", "deleted", "taken", "expired", "stays"):
        if key == "taken":
            store.queue("jobs").put(LARGE)
        else:
            jobs.put(key, LARGE, ttl=0.001 if key == "expired" else None)
            files[key] = file_of(jobs, key) if key != "expired" else ""
        seal(store)
    assert len(there(tmp_path)) == 5
    jobs["replaced"] = "small"
    del jobs["deleted"]
    store.queue("jobs").take()
    jobs.delete("expired")
    cleaned(store)
    assert there(tmp_path) == {files["stays"]}
    assert jobs["stays"] == LARGE
    assert unsettled(store) == {}


def test_the_log_that_was_reopened_still_knows_what_to_clean(
    tmp_path: Path, disk: FakeDisk, settings: Settings
) -> None:
    with open_store(tmp_path / "root", disk, settings=settings, archive=None) as store:
        store.map("jobs")["a"] = LARGE
    with open_store(tmp_path / "root", disk, settings=settings, archive=None) as store:
        cleaned(store)
        assert store.map("jobs")["a"] == LARGE
        store.map("jobs")["a"] = "small"
        cleaned(store)
        assert there(tmp_path) == set()


@pytest.mark.parametrize(
    "begin", [lambda m: m.scan(), lambda m: m.entries(), lambda m: iter(m.values()), lambda m: m.range()]
)
def test_an_iterator_keeps_what_it_shows(
    jobs: Map, store: WritableStore, tmp_path: Path, begin: Callable[[Map], Iterator[Any]]
) -> None:
    """Without an archive the bytes would be gone."""
    jobs.put_many({"a": LARGE, "b": LARGE[1:]})
    seal(store)
    found = begin(jobs)
    jobs.put_many({"a": 1, "b": 2})
    cleaned(store)
    assert len(there(tmp_path)) == 1
    shown = [item[1] if isinstance(item, tuple) else getattr(item, "value", item) for item in found]
    assert shown == [LARGE, LARGE[1:]]
    cleaned(store)
    assert there(tmp_path) == set()


def test_an_iterator_that_is_dropped_keeps_nothing(jobs: Map, store: WritableStore, tmp_path: Path) -> None:
    jobs["a"] = LARGE
    seal(store)
    for begun in (False, True):
        found = jobs.scan()
        if begun:
            next(found)
        del found
    gc.collect()
    jobs["a"] = 1
    cleaned(store)
    assert there(tmp_path) == set()


def test_a_get_shows_what_replaced_a_value_that_went(
    jobs: Map, store: WritableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file goes between the look and the read."""
    jobs["a"] = LARGE
    seal(store)
    source = store._engine.businesses["jobs"].contents.source
    read = source.read

    def late(what: str, claim: Any) -> bytes:
        monkeypatch.setattr(source, "read", read)
        jobs.put("a", "new") if present else jobs.delete("a")
        cleaned(store)
        return read(what, claim)

    for present in (True, False):
        jobs["a"] = LARGE
        seal(store)
        monkeypatch.setattr(source, "read", late)
        assert jobs.get("a") == ("new" if present else None)


@pytest.mark.breaks("contents", reason="its file is deleted")
def test_a_value_whose_file_is_gone_is_missing_by_its_key(jobs: Map, store: WritableStore, tmp_path: Path) -> None:
    jobs.put_many({"a": LARGE, "b": 1})
    seal(store)
    (path,) = tmp_path.rglob("content/*/*")
    path.unlink()
    with pytest.raises(ContentMissing):
        jobs.get("a")
    with pytest.raises(ContentMissing, match="jobs: the value of b'a'"):
        jobs.entry("a")
    assert (jobs["b"], "a" in jobs, list(jobs)) == (1, True, ["a", "b"])
    jobs["a"] = LARGE
    assert jobs["a"] == LARGE


@pytest.mark.breaks("contents", reason="its bytes are damaged")
def test_an_item_that_cannot_be_read_stays_in_its_queue(store: WritableStore, tmp_path: Path) -> None:
    q = store.queue("jobs")
    q.put_many([LARGE, "next"])
    (path,) = tmp_path.rglob("content/*/*")
    data = path.read_bytes()
    path.write_bytes(b"?" + data[1:])
    with pytest.raises(ContentDamaged):
        q.take()
    with pytest.raises(ContentDamaged), q.transaction() as t:
        t.take()
    assert (len(q), q.in_flight) == (2, 0)
    path.write_bytes(data)
    assert [q.take(), q.take()] == [LARGE, "next"]


@pytest.mark.parametrize("call", ["datasync", "write_at"])
def test_a_value_that_cannot_be_written_is_not_there_and_the_log_goes_on(
    jobs: Map, store: WritableStore, disk: FakeDisk, call: str
) -> None:
    jobs["a"] = 1
    disk.fail(call)
    with pytest.raises(ContentFailed, match="the value of b'a'"):
        jobs["a"] = LARGE
    assert jobs["a"] == 1
    jobs["a"] = LARGE
    assert jobs["a"] == LARGE
    assert set(unsettled(store).values()) == {1}, "only the open file"


def test_a_full_disk_refuses_a_large_value_and_leaves_no_file_in_use(
    jobs: Map, store: WritableStore, disk: FakeDisk
) -> None:
    jobs["a"] = 1
    disk.full = True
    for value in (LARGE, b"x" * (5 << 20)):
        with pytest.raises(StorageFull):
            jobs["a"] = value
    disk.full = False
    assert jobs["a"] == 1
    seal(store)
    assert unsettled(store) == {}


def test_a_log_that_failed_keeps_what_may_be_in_it(jobs: Map, store: WritableStore, disk: FakeDisk) -> None:
    jobs["b"] = LARGE
    seal(store)
    disk.fail("datasync", 2)
    with pytest.raises(kvwal.CommitUnknown):
        jobs["a"] = LARGE
    with pytest.raises(LogFailed):
        jobs["c"] = LARGE
    assert sum(unsettled(store).values()) == 2, "the open file, and the one value that may be logged"


def test_a_condition_that_fails_leaves_no_file_in_use(jobs: Map, store: WritableStore) -> None:
    jobs["a"] = 1
    assert not jobs.replace("a", 2, LARGE)
    assert not jobs.put_if_absent("a", LARGE)
    seal(store)
    assert unsettled(store) == {}


def test_entries_that_a_failed_log_refused_have_their_values_again(jobs: Map, disk: FakeDisk) -> None:
    """A caller may submit encoded entries again, to another store."""
    jobs["b"] = LARGE
    entries = jobs._changes.put_all({"a": LARGE})
    disk.fail("datasync", 2)
    with pytest.raises(kvwal.CommitUnknown):
        submit_entries(jobs, entries).result()
    assert [(entry.value, entry.value_class) for entry in entries] == [(LARGE, "bytes")]


def test_many_threads_and_futures_put_large_values(jobs: Map) -> None:
    futures: list[Future[int]] = []

    def put(number: int) -> None:
        for turn in range(10):
            jobs.put((number, turn), LARGE + bytes([number, turn]))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    futures += [jobs.submit(("f", turn), LARGE + bytes([turn])) for turn in range(10)]
    assert all(future.result() for future in futures)
    for thread in threads:
        thread.join()
    assert dict(jobs) == {
        **{(number, turn): LARGE + bytes([number, turn]) for number in range(4) for turn in range(10)},
        **{("f", turn): LARGE + bytes([turn]) for turn in range(10)},
    }


def test_what_is_left_of_a_sparse_file_is_written_again(
    jobs: Map, store: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small live value does not keep a large dead file, and keeps its time to live."""
    from kvwal.archiver import contents

    monkeypatch.setattr(contents, "SMALL_BYTES", 100)
    big = b"d" * (1 << 20)
    jobs.put_many({"live": LARGE, "dead": big, **{f"dead-{n}": big for n in range(3)}})
    jobs.put("live", LARGE, ttl=1000)
    first = file_of(jobs, "dead")
    assert file_of(jobs, "live") == first
    seal(store)
    for key in [key for key in jobs if key != "live"]:
        del jobs[key]
    for _ in range(5):
        store.checkpoint()
    assert file_of(jobs, "live") != first
    left = jobs.ttl("live")
    assert left is not None
    assert 0 < left <= 1000
    assert first not in there(tmp_path)
    assert jobs["live"] == LARGE
