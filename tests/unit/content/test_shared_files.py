"""Shared claim files: groups, what a failing disk leaves, and which files are unsettled when."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kvwal
from kvwal.content import shared
from kvwal.content.claim import claim_of
from kvwal.content.files import ContentFiles
from kvwal.content.writer import SHARED_BYTES
from kvwal.errors import ContentFailed, StorageFull, StoreClosed
from kvwal.store.sync import WritableStore
from kvwal.structures.content.content import Contents
from kvwal.structures.content.naming import NameWaiter
from tests.support.disk.faults import FakeDisk, open_store

_threads = ThreadPoolExecutor(64)


class Call:
    """A call on a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._future = _threads.submit(call)

    def join(self) -> Any:
        """Its result. Raises its error; `TimeoutError` if it waits for ever."""
        return self._future.result(60)


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def store(tmp_path: Path, disk: FakeDisk) -> Iterator[WritableStore]:
    with open_store(tmp_path / "root", disk) as store:
        yield store


@pytest.fixture
def contents(store: WritableStore) -> Contents:
    return store.content("work")


def files_of(store: WritableStore) -> ContentFiles:
    return store._engine.businesses["work"].contents.files


def file_of(contents: Contents, name: str) -> str:
    entry = contents.entry(name)
    assert entry is not None
    return claim_of(entry).file


def held(disk: FakeDisk, contents: Contents) -> Call:
    """The put of `first`, which waits in its write."""
    disk.hold("write_at")
    first = Call(lambda: contents.put("first", b"first"))
    disk.wait_for("held write_at", 1)
    return first


def waiting(store: WritableStore, count: int) -> None:
    """Return once this number of contents waits for a group."""
    while len(files_of(store).shared._queue) < count:
        pass


def test_contents_that_wait_are_written_with_one_fdatasync(
    store: WritableStore, contents: Contents, disk: FakeDisk
) -> None:
    first = held(disk, contents)
    others = [Call(lambda name=name: contents.put(f"{name}", b"x" * name)) for name in range(30)]  # type: ignore[misc]
    waiting(store, 30)
    groups: list[int] = []
    write = files_of(store).shared._write
    files_of(store).shared._write = lambda file, parts: (groups.append(len(parts)), write(file, parts))[1]  # type: ignore[method-assign]
    disk.go_on()
    for call in (first, *others):
        call.join()
    assert groups == [30]
    assert [contents.get(f"{name}") for name in range(30)] == [b"x" * name for name in range(30)]


def test_a_group_ends_before_it_is_too_large(store: WritableStore, contents: Contents, disk: FakeDisk) -> None:
    first = held(disk, contents)
    others = [Call(lambda name=name: contents.put(f"{name}", bytes(3 << 20))) for name in range(4)]  # type: ignore[misc]
    waiting(store, 4)
    disk.go_on()
    for call in (first, *others):
        call.join()
    assert {len(contents.get(f"{name}")) for name in range(4)} == {3 << 20}


def test_a_thread_that_waits_for_several_contents_leads_for_all_or_for_none(
    store: WritableStore, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lead would go to a content for which the thread does not wait yet."""
    contents.put("before", b"before")
    monkeypatch.setattr(shared, "_GROUP_BYTES", 1)
    asked = iter([True, True, False])
    monkeypatch.setattr("kvwal.content.pending.signals_arrive_here", lambda: next(asked))
    files = files_of(store).shared
    claims = Call(lambda: files.append_all([b"one", b"two", b"three"], names=False)).join()
    assert [claim.length for claim in claims] == [3, 3, 5]


@pytest.mark.parametrize("size", [0, 1, SHARED_BYTES - 1, SHARED_BYTES, SHARED_BYTES + 1])
def test_a_content_of_any_size_comes_back(contents: Contents, size: int) -> None:
    contents.put("small", b"before")
    data = bytes(range(251)) * (size // 251 + 1)
    contents.put("a", data[:size])
    assert contents.get("a") == data[:size]
    assert contents.stat("a").length == size
    assert (file_of(contents, "a") == file_of(contents, "small")) is (size <= SHARED_BYTES)


@pytest.mark.parametrize("call", ["write_at", "datasync"])
def test_nothing_goes_into_a_file_after_a_failed_write(
    contents: Contents, store: WritableStore, disk: FakeDisk, call: str
) -> None:
    contents.put("before", b"before")
    disk.fail(call)
    with pytest.raises(ContentFailed, match="nothing was logged"):
        contents.put("failed", b"failed")
    assert "failed" not in contents
    contents.put("after", b"after")
    assert file_of(contents, "after") != file_of(contents, "before")
    assert (contents.get("before"), contents.get("after")) == (b"before", b"after")
    assert file_of(contents, "before") in files_of(store).candidates()


@pytest.mark.parametrize("call", ["truncate", "datasync"])
def test_a_file_that_cannot_be_cut_is_sealed_and_archived_with_what_it_was_allocated(
    tmp_path: Path, disk: FakeDisk, call: str
) -> None:
    with open_store(tmp_path / "root", disk, archive=tmp_path / "archive") as store:
        contents = store.content("work")
        contents.put("a", b"a")
        store._run(store._engine.businesses["work"].log.rotate)  # its calls are not those of the claim file
        disk.fail(call)
        store.archive()
        first = file_of(contents, "a")
        assert first in files_of(store).candidates()
        contents.put("b", b"b")
        assert file_of(contents, "b") != first
    (local,) = tmp_path.glob(f"root/**/content/*/{first}")
    (archived,) = tmp_path.glob(f"archive/**/_content/*/{first}")
    assert (local.stat().st_size > 1) is (call == "truncate")
    assert archived.stat().st_size == local.stat().st_size
    kvwal.restore(tmp_path / "archive", tmp_path / "restored", node="new")
    with kvwal.open(tmp_path / "restored", node="new", archive=tmp_path / "archive") as restored:
        assert restored.content("work").get("a") == b"a"


def test_all_of_a_group_are_told_that_its_write_failed(
    store: WritableStore, contents: Contents, disk: FakeDisk
) -> None:
    first = held(disk, contents)
    others = [Call(lambda name=name: contents.put(f"{name}", b"x")) for name in range(5)]  # type: ignore[misc]
    waiting(store, 5)
    disk.fail("datasync", 2)
    log = disk.calls["datasync"]
    disk.go_on()
    failed = 0
    for call in (first, *others):
        try:
            call.join()
        except ContentFailed:
            failed += 1
        except kvwal.LogFailed:
            failed += 1
    assert failed
    assert disk.calls["datasync"] > log
    assert len(contents) == 6 - failed


def test_a_full_disk_refuses_a_content_and_keeps_the_file(contents: Contents, disk: FakeDisk) -> None:
    contents.put("before", b"before")
    disk.full = True
    with pytest.raises(StorageFull):
        contents.put("large", bytes(2 << 20))
    disk.full = False
    contents.put("after", b"after")
    assert file_of(contents, "after") == file_of(contents, "before")
    assert "large" not in contents


def test_a_full_shared_file_is_cut_and_followed_by_another(
    contents: Contents, store: WritableStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shared, "FILE_BYTES", 1000)
    contents.put("a", bytes(1000))
    contents.put("b", bytes(10))
    first = file_of(contents, "a")
    assert file_of(contents, "b") != first
    (path,) = tmp_path.rglob(f"content/*/{first}")
    assert path.stat().st_size == 1000
    assert files_of(store).candidates() == [first]


def test_a_closed_store_leaves_no_space_behind_its_contents(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.content("work").put("a", b"12345")
    (path,) = [path for path in tmp_path.rglob("content/*/*") if path.is_file()]
    assert path.stat().st_size == 5


def test_a_file_is_unsettled_while_something_goes_into_it(
    store: WritableStore, contents: Contents, disk: FakeDisk
) -> None:
    contents.put("a", b"a")
    files = files_of(store)
    assert files.candidates() == []
    files.seal()
    assert files.candidates() == [file_of(contents, "a")]


def test_a_file_is_unsettled_until_the_entries_of_its_contents_are_logged(
    store: WritableStore, contents: Contents, disk: FakeDisk
) -> None:
    files = files_of(store)
    claim = files.write(b"a", {})
    files.seal()
    assert files.candidates() == []
    files.settled(claim.file)
    assert files.candidates() == [claim.file]


def test_a_file_is_sealed_while_threads_put(store: WritableStore, contents: Contents) -> None:
    stop = threading.Event()

    def put(number: int) -> None:
        while not stop.is_set():
            contents.put(f"{number}", b"x")

    puts = [Call(lambda number=number: put(number)) for number in range(8)]  # type: ignore[misc]
    files = files_of(store)
    while len(contents) < 8:
        files.seal()
    for _ in range(20):
        files.seal()
    stop.set()
    for call in puts:
        call.join()
    files.seal()
    assert set(files.candidates()) >= {file_of(contents, f"{number}") for number in range(8)}


def test_a_content_that_waits_while_the_store_closes_is_refused_or_there(tmp_path: Path) -> None:
    for _ in range(5):
        store = kvwal.open(tmp_path / "root", archive=None)
        contents = store.content("work")
        told: set[str] = set()

        def put(number: int, contents: Contents = contents, told: set[str] = told) -> None:
            for turn in range(1000):
                contents.put(f"{number}-{turn}", b"x")
                told.add(f"{number}-{turn}")

        puts = [Call(lambda number=number: put(number)) for number in range(4)]  # type: ignore[misc]
        while len(told) < 20:
            pass
        store.close()
        for call in puts:
            with pytest.raises(StoreClosed):
                call.join()
        with kvwal.open(tmp_path / "root", archive=None) as again:
            assert told <= set(again.content("work"))


class Stop(Exception):
    """What a signal handler raises."""


class Handler:
    """Has a signal call something on the main thread, once."""

    def __init__(self) -> None:
        self.call: Callable[[], Any] = lambda: None
        self.ran = threading.Event()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self.ran.is_set():
            self.ran.set()
            self.call()

    def send_when(self, ready: Callable[[], None], then: Callable[[], None] = lambda: None) -> Call:
        """Send it until it arrives: the thread may be about to wait, and then looks at no signal."""

        def send() -> None:
            ready()
            while not self.ran.wait(0.01):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            then()

        return Call(send)


@pytest.fixture
def handler() -> Iterator[Handler]:
    made = Handler()
    before = signal.signal(signal.SIGUSR1, made)
    yield made
    signal.signal(signal.SIGUSR1, before)


def stop() -> None:
    raise Stop


def test_a_thread_that_is_interrupted_leaves_nothing_unsettled(
    store: WritableStore, contents: Contents, disk: FakeDisk, handler: Handler
) -> None:
    handler.call = stop
    contents.put("before", b"before")
    disk.hold("write_at")
    sent = handler.send_when(lambda: disk.wait_for("held write_at", 1))
    with pytest.raises(Stop):
        contents.put("a", b"a")
    sent.join()
    disk.go_on()
    contents.put("b", b"b")
    files_of(store).seal()
    assert "a" not in contents
    assert files_of(store).candidates() == [file_of(contents, "before")]


def test_a_thread_that_is_interrupted_while_the_name_is_logged_settles_the_file_afterwards(
    store: WritableStore, contents: Contents, disk: FakeDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents.put("before", b"before")
    files, file, logged = files_of(store), file_of(contents, "before"), contents._changes.logged

    def held(*given: Any) -> Any:
        files.seal()
        disk.hold("datasync")
        return logged(*given)

    def interrupted(waiter: NameWaiter) -> None:
        disk.wait_for("held datasync", 1)
        raise Stop

    with monkeypatch.context() as patched:
        patched.setattr(contents._changes, "logged", held)
        patched.setattr(NameWaiter, "result", interrupted)
        with pytest.raises(Stop):
            contents.put("a", b"a")
    assert files.only_settled([file]) == []
    disk.go_on()
    contents.delete("none")  # after "a" in the log
    assert contents.get("a") == b"a"
    assert files.candidates() == [file]


def test_a_signal_handler_may_put_while_its_thread_puts(contents: Contents, disk: FakeDisk, handler: Handler) -> None:
    handler.call = lambda: contents.put("of the handler", b"1")
    disk.hold("write_at")
    sent = handler.send_when(lambda: disk.wait_for("held write_at", 1), disk.go_on)
    contents.put("a", b"a")
    sent.join()
    assert (contents.get("a"), contents.get("of the handler")) == (b"a", b"1")
