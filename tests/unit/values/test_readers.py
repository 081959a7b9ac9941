"""Cleaning beside those that read: it waits for them shortly, takes nothing that they show, and is held up by none for good."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvwal.errors import ConfigError, ContentDamaged
from kvwal.store.contents import care
from kvwal.store.sync import WritableStore
from kvwal.structures.map.map import Map
from kvwal.structures.queue.queue import Queue
from tests.support.content.large_values import cleaned, files_of, seal, there
from tests.support.disk.faults import FakeClock

LARGE = bytes(range(256)) * 4


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def put_away(jobs: Map, store: WritableStore, key: str, value: bytes = LARGE) -> None:
    """Put a large value into a claim file of its own."""
    jobs[key] = value
    seal(store)


class WaitingCleaning:
    """The next cleaning of a store, on a thread of its own, as far as its wait for readers."""

    def __init__(self, store: WritableStore, monkeypatch: pytest.MonkeyPatch) -> None:
        # Not for ever: a cleaning that waits for other readers, too, is to end, and the test to fail.
        monkeypatch.setattr(care, "_READERS_SECONDS", 30.0)
        files, waits = files_of(store), threading.Event()
        call = files.call_when_released

        def noted(upto: int, then: Callable[[], None] | None) -> None:
            call(upto, then)
            waits.set()

        monkeypatch.setattr(files, "call_when_released", noted)
        self._thread = threading.Thread(target=store.checkpoint)
        self._thread.start()
        assert waits.wait(60)

    def ended(self) -> None:
        """Return when the cleaning has ended."""
        self._thread.join(120)
        assert not self._thread.is_alive()


READS: list[Callable[[WritableStore], Iterator[Any]]] = [
    lambda store: store.map("jobs").scan(),
    lambda store: store.map("jobs").entries(),
    lambda store: store.map("jobs").range(),
    lambda store: iter(store.map("jobs").values()),
    lambda store: store.queue("jobs").browse(),
    lambda store: iter(store.queue("jobs").items()),
]


@pytest.mark.breaks("contents", reason="its bytes are damaged")
@pytest.mark.parametrize("begin", READS)
def test_an_error_that_is_kept_keeps_no_files(
    jobs: Map, store: WritableStore, tmp_path: Path, begin: Callable[[WritableStore], Iterator[Any]]
) -> None:
    """As a notebook keeps the last one, with all frames of its traceback."""
    jobs["a"] = LARGE
    store.queue("jobs").put(LARGE)
    seal(store)
    for path in tmp_path.rglob("content/*/*"):
        path.write_bytes(b"?" * path.stat().st_size)
    found = begin(store)
    with pytest.raises(ContentDamaged) as kept:
        list(found)
    jobs["a"] = 1
    store.queue("jobs").purge()
    cleaned(store)
    assert there(tmp_path) == set()
    assert kept.value.__traceback__ is not None
    del found


def test_a_refused_read_keeps_no_files(jobs: Map, store: WritableStore, tmp_path: Path) -> None:
    put_away(jobs, store, "a")
    with pytest.raises(ConfigError, match="limit") as kept:
        jobs.range(limit=-1)
    jobs["a"] = 1
    cleaned(store)
    assert there(tmp_path) == set()
    assert kept.value.__traceback__ is not None


def test_a_cleaning_waits_for_those_that_read_before_it_and_for_no_others(
    jobs: Map, store: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_away(jobs, store, "a")
    before = jobs.scan()
    jobs["a"] = LARGE[1:]
    cleaning = WaitingCleaning(store, monkeypatch)
    after = jobs.scan()
    assert list(before) == [("a", LARGE)]
    cleaning.ended()
    assert len(there(tmp_path)) == 1
    assert list(after) == [("a", LARGE[1:])]


@pytest.mark.breaks("contents", reason="its bytes are damaged")
def test_what_a_reader_logs_again_while_a_cleaning_waits_is_kept(
    store: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A take that cannot read an item puts all back. The checkpoint does not know of them, and the log does only afterwards."""
    cleanings: list[WaitingCleaning] = []
    _one_of_two_is_damaged(store, tmp_path)
    _before_they_are_read(monkeypatch, lambda: cleanings.append(WaitingCleaning(store, monkeypatch)))
    with pytest.raises(ContentDamaged):
        store.queue("jobs").take_many(2)
    cleanings[0].ended()
    monkeypatch.undo()
    cleaned(store)
    assert store.queue("jobs").take() == LARGE


@pytest.mark.breaks("contents", reason="its bytes are damaged")
def test_what_a_reader_logs_again_before_a_cleaning_is_kept(
    store: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, but the take ends after the checkpoint, and before the cleaning looks whether anybody reads."""
    begun, goes_on = threading.Event(), threading.Event()
    clean = care.ContentCare.clean

    async def late(self: care.ContentCare, candidates: care.Candidates) -> None:
        begun.set()
        await asyncio.get_running_loop().run_in_executor(None, goes_on.wait, 60)
        await clean(self, candidates)

    checkpoint = threading.Thread(target=store.checkpoint)

    def checkpointed() -> None:
        monkeypatch.setattr(care.ContentCare, "clean", late)
        checkpoint.start()
        assert begun.wait(60)

    _one_of_two_is_damaged(store, tmp_path)
    _before_they_are_read(monkeypatch, checkpointed)
    with pytest.raises(ContentDamaged):
        store.queue("jobs").take_many(2)
    goes_on.set()
    checkpoint.join(60)
    monkeypatch.undo()
    cleaned(store)
    assert store.queue("jobs").take() == LARGE


def test_an_iterator_that_is_open_for_long_is_told_of_once(
    jobs: Map, store: WritableStore, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr(care, "_READERS_SECONDS", 0.0)
    put_away(jobs, store, "a")
    found = jobs.scan()
    jobs["a"] = 1
    cleaned(store)
    assert "an iterator" not in caplog.text
    clock.seconds += 3_600.0
    cleaned(store)
    assert caplog.text.count("an iterator over a map or a queue keeps the bytes of large values") == 1
    assert len(there(tmp_path)) == 1
    assert list(found) == [("a", LARGE)]
    cleaned(store)
    assert there(tmp_path) == set()


def test_a_cleaning_that_was_put_off_is_due_when_the_reader_has_ended(
    jobs: Map, store: WritableStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another write, and so without a checkpoint."""
    monkeypatch.setattr(care, "_READERS_SECONDS", 0.0)
    put_away(jobs, store, "a")
    found = jobs.scan()
    jobs["a"] = 1
    cleaned(store)
    maintenance = store._engine.businesses["jobs"].maintenance
    assert not maintenance._care.may_clean()
    assert list(found) == [("a", LARGE)]
    assert maintenance._care.may_clean()
    store._thread.run(maintenance._clean_again())
    assert there(tmp_path) == set()
    assert not maintenance._care.may_clean()


def _one_of_two_is_damaged(store: WritableStore, tmp_path: Path) -> None:
    """Two items of a queue, whose bytes are in one claim file."""
    store.queue("jobs").put_many([LARGE, LARGE[1:]])
    seal(store)
    (path,) = tmp_path.rglob("content/*/*")
    data = path.read_bytes()
    at = data.rindex(LARGE[1:])
    path.write_bytes(data[:at] + b"?" + data[at + 1 :])


def _before_they_are_read(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Have something done between a take and the read of its values."""
    decoded = Queue._decoded

    def later(self: Queue, entries: list[Any]) -> list[Any]:
        do()
        return decoded(self, entries)

    monkeypatch.setattr(Queue, "_decoded", later)


def test_what_an_iterator_finds_is_kept_from_before_its_look_at_the_map(
    jobs: Map, store: WritableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is replaced, and the log cleaned, between the look and the return of the iterator."""
    monkeypatch.setattr(care, "_READERS_SECONDS", 0.0)
    put_away(jobs, store, "a")
    find = Map._selected

    def late(self: Map, prefix: Any) -> Any:
        found = find(self, prefix)
        jobs["a"] = 1
        cleaned(store)
        return found

    monkeypatch.setattr(Map, "_selected", late)
    assert list(jobs.scan()) == [("a", LARGE)]
