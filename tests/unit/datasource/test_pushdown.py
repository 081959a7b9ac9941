"""Filters that Spark pushes down: which ranges they become, and how many bytes of the archive are read for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from kvwal.spark.datasource.filters import wanted
from kvwal.spark.datasource.options import read_options
from kvwal.spark.datasource.source import PushdownReader
from kvwal_archive import registry
from kvwal_archive.layout import Span
from kvwal_archive.merge import Row
from kvwal_archive.objects import LocalObjects, open_objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, PLACE, object_paths, table

KEYS = 2000
GROUP_ROWS = 250
FOOTERS = 2 * 5 * (64 << 10)
"""Two objects, whose footers are read at most five times: for the list, the plan and the scan, and twice for marks."""
KEY, CLASS, TIME = ("key",), ("key_class",), ("timestamp",)
OTHERS = [("", b""), ("bytes", b"k"), ("int", b"a"), ("str\0", b""), ("z", b"a")]


@pytest.mark.parametrize(
    ("filters", "inside", "outside"),
    [
        ([EqualTo(KEY, "b")], ["b"], ["a", "b\0", "ba", "c"]),
        ([In(KEY, ("d", "b", None))], ["b", "d"], ["a", "c", "e"]),
        ([GreaterThan(KEY, "b"), LessThan(KEY, "d")], ["bb", "c"], ["a", "e", "db"]),
        ([GreaterThanOrEqual(KEY, "b"), LessThanOrEqual(KEY, "d")], ["b", "c", "d"], ["a", "db"]),
        ([StringStartsWith(KEY, "bé")], ["bé", "béa"], ["b", "bf", "c"]),
        ([StringStartsWith(KEY, ""), IsNotNull(KEY), Not(EqualTo(KEY, "b")), EqualTo(("node",), "b")], ["a", "b"], []),
    ],
)
def test_a_condition_on_the_key_leaves_out_other_texts_only(
    filters: list[Filter], inside: list[str], outside: list[str]
) -> None:
    ranges = wanted(filters).ranges
    assert list(ranges) == sorted(ranges)

    def held(identity: tuple[str, bytes]) -> bool:
        return any(key_range.overlaps(identity, identity) for key_range in ranges)

    assert all(held(("str", text.encode())) for text in inside)
    assert not any(held(("str", text.encode())) for text in outside)
    assert all(held(identity) for identity in OTHERS)
    of_text = wanted([*filters, In(CLASS, ("str", "float"))]).ranges
    assert not any(key_range.overlaps(identity, identity) for identity in OTHERS for key_range in of_text)


def test_conditions_on_time_narrow_one_another() -> None:
    assert wanted(
        [GreaterThan(TIME, 5), GreaterThanOrEqual(TIME, 7), LessThan(TIME, 9), LessThanOrEqual(TIME, 20)]
    ) == (
        (KeyRange(),),
        7,
        9,
    )
    assert wanted([EqualTo(TIME, 5)])[1:] == (5, 5)


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    """Two objects of one node: the same keys with long random values, twice, in row groups of 250 rows."""
    chance = random.Random(46)
    store = open_objects(str(tmp_path))
    registry.register(store, PLACE, LOG)
    with patch("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", GROUP_ROWS):
        for first in (1, KEYS + 1):
            rows = [
                Row("str", b"key-%05d" % number, b'"%s"' % chance.randbytes(500).hex().encode(), "json", False,
                    first + number << 16, 0, PLACE.node, first + number)
                for number in range(KEYS)
            ]  # fmt: skip
            span, seals = Span(first, first + KEYS - 1), list(range(first, first + KEYS))
            put_segment(store, PLACE, span, table(rows), log_id=LOG, previous_crc=first - 1, seal_crcs=seals)
    return tmp_path


class CountingFile:
    """An open file that counts the bytes that are read."""

    def __init__(self, file: Any, counted: list[int]) -> None:
        self._file = file
        self._counted = counted

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._file.read(size)
        self._counted.append(len(data))
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of all reads of objects."""
    found: list[int] = []
    opened = LocalObjects.open
    monkeypatch.setattr(LocalObjects, "open", lambda self, key: CountingFile(opened(self, key), found))
    return found


def read(url: Path, filters: list[Filter], view: str = "latest") -> list[dict[str, Any]]:
    options = {"archive": str(url), "namespace": PLACE.namespace, "business": PLACE.business, "view": view}
    reader = PushdownReader(read_options(options), None)
    assert list(reader.pushFilters(filters)) == filters
    return [line for part in reader.partitions() for batch in reader.read(part) for line in batch.to_pylist()]


def test_one_key_reads_the_footers_and_one_row_group_of_each_object(objects: Path, counted: list[int]) -> None:
    size = sum(path.stat().st_size for path in object_paths(objects))
    assert len(read(objects, [])) == KEYS
    assert sum(counted) >= size
    for filters in (
        [EqualTo(KEY, "key-00777")],
        [In(KEY, ("key-00770", "key-00777"))],
        [StringStartsWith(KEY, "key-0077")],
    ):
        counted.clear()
        found = [row for row in read(objects, filters) if row["key"] == "key-00777"]
        assert [row["sequence"] for row in found] == [KEYS + 778]
        assert sum(counted) < 1.1 * size / (KEYS // GROUP_ROWS) + FOOTERS < size
    counted.clear()
    assert not read(objects, [EqualTo(KEY, "job-1")])
    assert sum(counted) <= FOOTERS


def test_an_object_outside_the_time_is_not_read(objects: Path) -> None:
    assert {row["sequence"] for row in read(objects, [GreaterThan(TIME, KEYS + 5 << 16)])} == set(
        range(KEYS + 1, 2 * KEYS + 1)
    )
    early = read(objects, [LessThan(TIME, KEYS << 16)], view="history")
    assert {row["sequence"] for row in early} == set(range(1, KEYS + 1))
    assert (
        len(read(objects, [LessThan(TIME, KEYS << 16)])) == KEYS
    )  # the younger object decides which rows are the latest
