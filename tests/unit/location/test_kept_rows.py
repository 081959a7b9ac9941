"""A reader of an archive that stays open: what it keeps of objects never shows in its answers, and saves reads of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import kvwal
from kvwal.codecs import registry
from kvwal.history.bounded_cache import BoundedCache
from kvwal.location.archived import ArchivedBusiness, ArchiveReader
from kvwal.structures.map.view import KeyBounds
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import Listing, LocalObjects
from kvwal_archive.parquet.kept_object import KeptObject
from kvwal_archive.parquet.kept_rows import kept_rows
from kvwal_archive.parquet.key_ranges import ABOVE_ALL, LEAST, KeyRange
from kvwal_archive.reader import live_objects
from tests.support.archive.archiver import InProcess
from tests.support.archive.machine import ArchivingMachine
from tests.support.chance import examples

KEYS = st.sampled_from([*(f"k{number:02}" for number in range(20)), 0, 1, -1, b"a", b"\0", None])
PLACE = Place("default", "local", "b", "local")
LATER_MS = 10 * 365 * 86_400_000


class CountedObjects(LocalObjects):
    """Counts how often an object is opened, and how often objects are listed."""

    opened = lists = 0

    def open(self, key: str) -> BinaryIO:
        self.opened += 1
        return super().open(key)

    def list(self, prefix: str) -> Listing:
        self.lists += 1
        return super().list(prefix)


def business_of(objects: LocalObjects) -> ArchivedBusiness:
    return ArchiveReader(objects, "default", "local", None).read_business("b")


def cache(most: int = 1 << 20) -> BoundedCache[Any, Any]:
    return BoundedCache(most, lambda value: int(value.held_bytes))


class Archived(ArchivingMachine):
    """A store that archives and compacts, a reader of its archive that stays open, and new readers that keep nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.patch.setattr("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", 3)
        self.patch.setattr("kvwal_archive.parquet.kept_rows._MOST_GROUPS", 4)
        self.puts = 0

    @initialize(
        most=st.sampled_from([1, 20_000, 1 << 20]),
        few=st.sampled_from([0, 4096]),
        held=st.sampled_from([0, 200, 1 << 20]),
        group=st.sampled_from([1_000, 1 << 20]),
    )
    def begin(self, most: int, few: int, held: int, group: int) -> None:
        self.patch.setattr("kvwal_archive.parquet.kept_object._MOST_BYTES", group)
        self.patch.setattr("kvwal_archive.merge.FEW_ROWS", few)
        self.patch.setattr("kvwal_archive.view.HELD_BYTES", held)
        self.store = kvwal.open(self.root)
        self.put("k05")
        self.store.archive()
        self.lasting = business_of(LocalObjects(str(self.root / "_archive"), cache(most)))
        self.moments = [self.store.map("b").put("k06", 0)]

    @rule(key=KEYS)
    def put(self, key: Any) -> None:
        self.puts += 1
        self.store.map("b").put(key, self.puts)

    @rule(key=KEYS)
    def put_a_large_value(self, key: Any) -> None:
        """Its row group is too large to be kept, and those of its neighbours are not."""
        self.puts += 1
        self.store.map("b").put(key, f"{self.puts} " * 1_000)

    @rule(keys=st.lists(KEYS, unique=True, max_size=8), gone=KEYS)
    def transaction(self, keys: list[Any], gone: Any) -> None:
        self.puts += 1
        with self.store.map("b").transaction() as together:
            for key in keys:
                together[key] = self.puts
            del together[gone]

    @rule(number=st.integers(0, 3))
    def other_structures(self, number: int) -> None:
        self.store.business("b").queue().put(number)
        self.store.business("b").map("named").put(f"key-{number}", number)

    @rule()
    def to_the_archive(self) -> None:
        self.store.archive()
        self.moments.append(self.store.map("b").put("k07", self.puts))
        self.what_is_kept_never_shows()

    @rule(has_gone=st.booleans())
    def compact(self, has_gone: bool) -> None:
        objects = LocalObjects(str(self.root / "_archive"))
        compaction.rewrite(objects, PLACE, now_ms=0, force=True)
        if has_gone:
            compaction.gc(objects, PLACE, now_ms=LATER_MS, grace_ms=0)
        self.what_is_kept_never_shows()

    def what_is_kept_never_shows(self) -> None:
        """Asked twice, because the second answer is made from what the first one kept."""
        new = seen(business_of(LocalObjects(str(self.root / "_archive"))), self.moments)
        assert [seen(self.lasting, self.moments) for _ in range(2)] == [new, new]


def seen(business: ArchivedBusiness, moments: list[int]) -> list[Any]:
    """What a reader says: ranges that many objects have keys around, of single keys, of the past, and of other structures."""
    spans = [(f"k{low:02}".encode(), f"k{low + width:02}".encode()) for low in (0, 5, 14) for width in (1, 6)]
    found: list[Any] = [list(business.spans([span])) for span in spans]
    found += [list(business.spans(apart)) for apart in (spans[::2], [spans[0], *spans[3::2]])]
    found.append(business.page(KeyBounds("str", b"k03", b"k15"), None, 4))
    for key in ("k05", "k06", 1, "never"):
        data, key_class = registry.encode_key(key)
        found += [business.find(key_class, data), business.history(key_class, data)]
    within = KeyRange(("str", b"k02"), ("str", b"k09"))
    found += [business.as_of(moment, within=within).tables for moment in moments[-2:]]
    found += [list(business.of_structure("map/named") or ()), business.structures_of("map"), list(business.entries())]
    return found


Archived.TestCase.settings = settings(max_examples=examples(10), stateful_step_count=12, deadline=None)
TestArchived = Archived.TestCase


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An archive of two objects. Both have keys below and above those of the other."""
    with kvwal.open(tmp_path) as store:
        for turn in range(2):
            store.map("b").put_many(
                {f"k{number:04}": number for number in range(turn, 4_000, 2) if number % 1_000 < 500}
            )
            store.archive()
    return tmp_path / "_archive"


def test_a_second_question_about_keys_nearby_opens_no_object(folder: Path) -> None:
    objects = CountedObjects(str(folder), cache())
    business = business_of(objects)
    assert [entry.key for entry in business.spans([(b"k1001", b"k1004")])] == [b"k1001", b"k1002", b"k1003"]
    first = objects.opened
    assert first == 2
    assert len(list(business.spans([(b"k1100", b"k1200")]))) == 100
    entry = business.find("str", b"k1100")
    assert entry is not None
    assert [each.key for each in business.history("str", b"k1100")] == [b"k1100"]
    assert list(business.spans([(b"k0600", b"k0700"), (b"k1700", b"k1800")])) == []
    assert objects.opened == first


def test_keys_that_no_object_has_are_looked_for_once(folder: Path) -> None:
    """The cache has no room for rows, and the gap between the keys around the sought ones is known all the same."""
    objects = CountedObjects(
        str(folder), BoundedCache[Any, Any](10, lambda value: int(not isinstance(value, KeptObject)) * 10)
    )
    business = business_of(objects)
    assert list(business.spans([(b"k0600", b"k0700")])) == []
    first = objects.opened
    assert list(business.spans([(b"k0550", b"k0990")])) == list(business.spans([(b"k0650", b"k0651")])) == []
    assert objects.opened == first
    assert len(list(business.spans([(b"k0490", b"k0510")]))) == 10
    assert objects.opened > first


def test_damaged_rows_are_an_error_of_each_question_and_are_not_kept(folder: Path) -> None:
    (damaged, *_) = sorted(folder.rglob("*.parquet"))
    sound = damaged.read_bytes()
    modified = damaged.stat()
    damaged.write_bytes(sound[:200] + bytes([sound[200] ^ 1]) + sound[201:])
    os.utime(damaged, ns=(modified.st_atime_ns, modified.st_mtime_ns))
    business = business_of(LocalObjects(str(folder), cache()))
    for _ in range(2):
        with pytest.raises(ArchiveDamaged, match=damaged.name):
            list(business.spans([(b"k1001", b"k1004")]))
    damaged.write_bytes(sound)
    os.utime(damaged, ns=(modified.st_atime_ns, modified.st_mtime_ns))
    assert len(list(business.spans([(b"k1001", b"k1004")]))) == 3


def test_the_gap_around_a_range_reaches_to_the_keys_beside_it() -> None:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pydict({"key_class": ["int", "str", "str"], "key": [b"1", b"b", b"d"]})
    gaps = {
        low: KeyRange(("str", low), ("str", high)).gap(batch)
        for low, high in ((b"a", b"a0"), (b"b0", b"c"), (b"e", b"f"))
    }
    assert gaps == {
        b"a": KeyRange(("int", b"1\0"), ("str", b"b")),
        b"b0": KeyRange(("str", b"b\0"), ("str", b"d")),
        b"e": KeyRange(("str", b"d\0"), ABOVE_ALL),
    }
    assert KeyRange(("a", b""), ("b", b"")).gap(batch) == KeyRange(LEAST, ("int", b"1"))


def test_a_page_passes_a_thousand_rows_of_other_structures_in_few_steps(tmp_path: Path) -> None:
    """They stand before the keys of the map, in many row groups of several objects."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kvwal.archiver.remote.Child", InProcess)
        patch.setattr("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", 20)
        with kvwal.open(tmp_path) as store:
            for turn in range(5):
                store.business("b").queue().put_many(list(range(200)))
                store.map("b").put(f"k{turn}", turn)
                store.archive()
    objects = CountedObjects(str(tmp_path / "_archive"), cache())
    business = business_of(objects)
    objects.lists = 0
    assert [entry.key for entry in business.page(KeyBounds(), None, 10)] == [b"k0", b"k1", b"k2", b"k3", b"k4"]
    assert objects.lists == 1


def test_few_rows_do_not_hold_their_row_group_in_memory(folder: Path) -> None:
    objects = LocalObjects(str(folder), cache())
    (info, *_) = live_objects(objects, PLACE)
    (part,) = kept_rows(objects, info, [KeyRange(("str", b"k1000"), ("str", b"k1006"))]) or []
    assert part.num_rows == 3
    assert part.get_total_buffer_size() < 2_000
