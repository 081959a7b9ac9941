"""The Bloom filters of the keys of an object: no key of the object is hidden, and an object without the key is not read."""

from __future__ import annotations

import io
import random
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import Span
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.objects.local import LocalObjects
from kvwal_archive.parquet.columns import find_rows
from kvwal_archive.parquet.key_filter import FALSE_POSITIVES, filter_place, may_hold_any
from kvwal_archive.parquet.key_ranges import KeyRange, keys_sought
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import schema
from kvwal_archive.reader import live_objects
from kvwal_archive.spark import plan
from kvwal_archive.writer import encode
from tests.support.archive.history import PLACE, fill, rows, table

KEYS = 2_000


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "archive"))


def encoded(keys: list[str], monkeypatch: pytest.MonkeyPatch, group_rows: int = 1_000) -> bytes:
    """An object with one row of each key."""
    monkeypatch.setattr("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", group_rows)
    count = len(keys)
    columns = {
        "key": sorted(key.encode() for key in keys), "key_class": ["str"] * count, "value": [b"1"] * count,
        "value_class": ["int"] * count, "deleted": [False] * count, "timestamp": [7 << 16] * count, "expires": [0] * count,
        "sequence": range(1, count + 1),
    }  # fmt: skip
    return encode(PLACE, Span(1, count), pa.table(columns, schema=schema()), Seals("log-1", 0, [1]))[1]


def groups_of(data: bytes, key: bytes) -> list[int]:
    """The row groups whose filters have the key."""
    metadata = pq.read_metadata(io.BytesIO(data))
    places = [filter_place(metadata, group) for group in range(metadata.num_row_groups)]
    return [group for group, (begin, end) in enumerate(places) if may_hold_any(data[begin:end], [key])]


def test_a_key_is_in_the_filter_of_its_row_group_and_few_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = sorted(f"job-{number}" for number in range(KEYS))
    data = encoded(keys, monkeypatch)
    assert all(place // 1_000 in groups_of(data, key.encode()) for place, key in enumerate(keys))
    absent = sum(len(groups_of(data, b"none-%d" % number)) for number in range(KEYS))
    assert 0 < absent < 2 * FALSE_POSITIVES * 2 * KEYS


def test_duckdb_finds_the_same_in_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    data = encoded([chance.randbytes(chance.randrange(1, 40)).hex() for _ in range(KEYS)], monkeypatch)
    (tmp_path / "object.parquet").write_bytes(data)
    for number in range(100):
        key = f"none-{number}"
        found = duckdb.execute(
            "SELECT row_group_id FROM parquet_bloom_probe(?, 'key', ?::BLOB) WHERE NOT bloom_filter_excludes ORDER BY 1",
            [str(tmp_path / "object.parquet"), key.encode()],
        ).fetchall()
        assert [group for (group,) in found] == groups_of(data, key.encode())


def test_no_flipped_bit_of_a_filter_hides_a_key(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 12)])
    (info,) = live_objects(objects, PLACE)
    whole = objects.read(stored.key)
    begin, end = filter_place(pq.read_metadata(io.BytesIO(whole)), 0)
    for at in range(begin, end):
        objects.delete(stored.key)
        objects.put_if_absent(stored.key, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        for key in (b"key-001", b"key-001a"):
            with pytest.raises(ArchiveDamaged, match="the filter of the keys of row group 0"):
                find_rows(objects, info, "str", key)
            with pytest.raises(ArchiveDamaged, match="the filter of the keys"):
                plan.plan(objects, *PLACE[:3], ranges=[only(key)])


def only(key: bytes) -> KeyRange:
    return KeyRange(("str", key), ("str", key + b"\0"))


def test_a_plan_for_one_key_has_the_objects_whose_filters_have_it(objects: Objects) -> None:
    """All objects have keys on both sides of it."""
    fill(objects, PLACE, [(1, 20), (21, 40), (41, 60)])
    wanted = {row.key for row in rows(1, 60)}
    assert len({row.key for row in rows(1, 20)}) == len(wanted)
    (partition,) = plan.plan(objects, *PLACE[:3], ranges=[only(b"key-001")])
    assert len(partition.objects) == 3
    assert plan.plan(objects, *PLACE[:3], ranges=[only(b"key-001-is-not-there")]) == []
    (partition,) = plan.plan(objects, *PLACE[:3], ranges=[only(b"key-001-is-not-there"), only(b"key-002")])
    assert len(partition.objects) == 3


def test_rows_are_not_read_of_an_object_without_the_key(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    (stored,) = fill(objects, PLACE, [(1, 5_000)], keys=900)
    (info,) = live_objects(objects, PLACE)
    read: list[int] = []
    opened = LocalObjects.open

    def counted(self: LocalObjects, key: str) -> io.BytesIO:
        with opened(self, key) as file:
            return Counted(file.read(), read)

    monkeypatch.setattr(LocalObjects, "open", counted)
    footer = len(objects.read(stored.key)) - filter_place(pq.read_metadata(io.BytesIO(objects.read(stored.key))), 0)[0]
    assert len(find_rows(objects, info, "str", b"key-001-is-not-there")) == 0
    assert sum(read) < 2 * footer + (64 << 10)
    read.clear()
    assert len(find_rows(objects, info, "str", b"key-001")) > 0
    assert sum(read) > stored.size // 2


class Counted(io.BytesIO):
    """A file that notes how many bytes each read gives."""

    def __init__(self, data: bytes, read: list[int]) -> None:
        super().__init__(data)
        self._read = read

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._read.append(len(data))
        return data


def test_an_object_without_filters_may_hold_every_key(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """As versions before them wrote it."""
    monkeypatch.setattr("kvwal_archive.parquet.object_file.blank_filter_crcs", lambda _: msgspec.UNSET)
    fill(objects, PLACE, [(1, 20)])
    (info,) = live_objects(objects, PLACE)
    assert info.footer.filter_crcs is msgspec.UNSET
    assert len(find_rows(objects, info, "str", b"key-001")) > 0
    assert len(plan.plan(objects, *PLACE[:3], ranges=[only(b"key-001-is-not-there")])) == 1


@pytest.mark.parametrize(
    ("ranges", "sought"),
    [
        ([only(b"key-001"), only(b"key-002")], [b"key-001", b"key-002"]),
        ([only(b"key-001"), KeyRange(("str", b"key-002"), ("str", b"key-004"))], None),
        ([KeyRange(("int", b""), ("int\0", b""))], []),
        ([KeyRange(("str", b"key-001"), ("str\0", b"key-001\0"))], None),
    ],
)
def test_only_single_keys_are_looked_up(ranges: list[KeyRange], sought: list[bytes] | None) -> None:
    data = encode(PLACE, Span(1, 20), table(sorted(rows(1, 20))), Seals("log-1", 0, [1]))[1]
    assert keys_sought(pq.read_metadata(io.BytesIO(data)).row_group(0), ranges) == sought


def test_a_filter_of_an_unknown_kind_hides_nothing() -> None:
    assert may_hold_any(b"\x15\x40\x1c\x2c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00" + bytes(32), [b"key"])
    assert not may_hold_any(b"\x15\x40\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00" + bytes(32), [b"key"])
