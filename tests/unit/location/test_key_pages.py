"""Pages of the keys of a map, now and at earlier moments, from a reader that stays open while a writer goes on: together they are
the whole map, and no more is read for one of them than it has.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

import kvwal
from kvwal.codecs import registry
from kvwal.entry import DataEntry
from kvwal.location.moments import MomentReader
from kvwal.store.read_only import ReadOnlyBusiness
from kvwal.store.reading.business_reader import BusinessReader
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.map.state import after_prefix
from kvwal.structures.map.view import KeyBounds
from tests.support.archive.machine import ArchivingMachine
from tests.support.chance import examples
from tests.support.disk.faults import make_options

KEYS = st.sampled_from(["", "a", "ab", "b", "ß", "z", 0, 1, -1, 2.5, b"a", b"\0", None])
PREFIXES = ("", "a", "ab", "z", "nothing")
SETTINGS = kvwal.Settings(segment_bytes=64 << 10, overflow_bytes=300, history_seconds=7 * 86400)


def bounds(prefix: str) -> KeyBounds:
    begins = prefix.encode()
    return KeyBounds("str", begins, after_prefix(begins)) if prefix else KeyBounds()


def whole(business: BusinessReader, within: KeyBounds, limit: int) -> list[DataEntry]:
    """All pages, one after the other."""
    found: list[DataEntry] = []
    after = None
    while page := business.page(within, after, limit):
        assert len(page) <= limit
        found += page
        after = (page[-1].key_class, page[-1].key)
    return found


def content(entries: Iterable[DataEntry]) -> dict[Any, Any]:
    found = [(registry.decode(e.key, e.key_class), registry.decode(e.value, e.value_class)) for e in entries]
    assert len(dict(found)) == len(found)
    return dict(found)


class Pages(ArchivingMachine):
    """A store, a reader of its files that stays open, and what the map held at each moment."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr("kvwal.log.unlocked.known._READS", 2)
        self.model: dict[Any, Any] = {}
        self.past: list[tuple[int, dict[Any, Any]]] = []
        self.puts = 0

    @initialize()
    def begin(self) -> None:
        self.store = kvwal.open(self.root, settings=SETTINGS)
        self.put("first")
        self.reader = ReadOnlyStore(make_options(self.root, archive=self.root / "_archive"))

    @rule(key=KEYS)
    def put(self, key: Any) -> None:
        self.puts += 1
        self.past.append((self.store.map("b").put(key, self.puts), dict(self.model) | {key: self.puts}))
        self.model[key] = self.puts

    @rule(keys=st.lists(KEYS, unique=True, max_size=8), gone=KEYS)
    def transaction(self, keys: list[Any], gone: Any) -> None:
        """Large ones are in a file of their own."""
        with self.store.map("b").transaction() as together:
            for key in keys:
                self.puts += 1
                together[key] = self.model[key] = self.puts
            del together[gone]
        self.model.pop(gone, None)
        self.past.append((together.timestamp, dict(self.model)))

    @rule(key=KEYS)
    def delete(self, key: Any) -> None:
        timestamp = self.store.map("b").delete(key)
        self.model.pop(key, None)
        self.past.append((timestamp, dict(self.model)))

    @rule(number=st.integers(0, 3))
    def other_structures(self, number: int) -> None:
        business = self.store.business("b")
        business.queue().put(number)
        business.map("named").put(f"key-{number}", number)
        self.store.content("b").put(f"content-{number}", b"bytes")

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def to_the_archive(self) -> None:
        self.store.archive()

    @rule()
    def reopen(self) -> None:
        self.store.close(archive=False)
        self.store = kvwal.open(self.root, settings=SETTINGS)
        self.store.map("b")

    @invariant()
    def pages_are_the_map(self) -> None:
        if not hasattr(self, "reader"):
            return
        business = self.reader.read_business("b")
        limit = 1 + self.puts % 4
        every = list(business.entries())
        assert content(every) == self.model
        for prefix in PREFIXES:
            within = bounds(prefix)
            asked = [entry for entry in every if within.has(entry.key_class, entry.key)]
            assert whole(business, within, limit) == asked
            assert list(business.within(within)) == asked

    @invariant()
    def pages_of_the_past_are_what_the_map_held(self) -> None:
        if not hasattr(self, "reader"):
            return
        timestamp, held = self.past[len(self.past) * self.puts % 7 % len(self.past)]
        business = MomentReader(self.reader, timestamp).read_business("b")
        found = whole(business, KeyBounds(), 1 + self.puts % 3)
        assert content(found) == held
        assert found == sorted(found, key=lambda entry: (entry.key_class, entry.key))
        of_prefix = {key: value for key, value in held.items() if isinstance(key, str) and key.startswith("a")}
        assert content(whole(business, bounds("a"), 2)) == content(business.within(bounds("a"))) == of_prefix
        for key in (*held, "never"):
            data, key_class = registry.encode_key(key)
            entry = business.find(key_class, data)
            assert (entry and content([entry])) == ({key: held[key]} if key in held else None)


Pages.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=12, deadline=None)
TestPages = Pages.TestCase


@pytest.mark.parametrize("limit", [1, 10, 500])
def test_a_page_of_a_moment_before_most_keys_asks_a_few_times(tmp_path: Path, limit: int) -> None:
    with kvwal.open(tmp_path, flush="os") as store:
        jobs = store.map("jobs")
        early = jobs.put_many({f"key-{number:06d}": 0 for number in range(0, 3_000, 999)})
        jobs.put_many({f"key-{number:06d}": 1 for number in range(3_000)})
    with kvwal.open(tmp_path, read_only=True) as files:
        assert isinstance(files, ReadOnlyStore)
        business = MomentReader(files, early).read_business("jobs")
        asked: list[Any] = []
        as_of = ReadOnlyBusiness.as_of
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ReadOnlyBusiness, "as_of", lambda *given, **more: asked.append(more) or as_of(*given, **more))
            page = business.page(KeyBounds(), None, limit)
            assert [entry.key for entry in page] == [b"key-%06d" % number for number in range(0, 3_000, 999)][:limit]
            assert 1 <= len(asked) <= 3
            assert business.page(KeyBounds(), ("str", b"key-002997"), limit) == []
            assert business.page(KeyBounds("str", b"key-001", b"key-002"), None, limit)[0].key == b"key-001998"


@pytest.mark.parametrize("checkpoints", [False, True])
def test_a_page_of_many_keys_takes_little_memory(tmp_path: Path, checkpoints: bool) -> None:
    """Neither the keys after the page are in memory, nor the entries of other structures before it."""
    with kvwal.open(tmp_path, archive=None, flush="os") as store:
        jobs = store.map("jobs")
        for number in range(300):
            store.content("jobs").put(f"file-{number:06d}", b"x")
        for begin in range(0, 40_000, 2_000):
            jobs.put_many({f"key-{number:06d}": "value " * 20 for number in range(begin, begin + 2_000)})
        if checkpoints:
            store.checkpoint()
    with kvwal.open(tmp_path, read_only=True) as files:
        assert isinstance(files, ReadOnlyStore)
        business = files.read_business("jobs")
        pages = [business.page(KeyBounds(), None, 50)]
        tracemalloc.start()
        try:
            for _ in range(3):
                pages.append(business.page(KeyBounds(), (pages[-1][-1].key_class, pages[-1][-1].key), 50))
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()
    assert [entry.key for page in pages for entry in page] == [b"key-%06d" % number for number in range(200)]
