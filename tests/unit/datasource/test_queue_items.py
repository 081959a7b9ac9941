"""Items of queues in the data source: columns of their place, and conditions on it that read fewer bytes and lose no row."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual, Not

from kvwal.errors import ConfigError
from kvwal.spark.datasource.filters import wanted
from kvwal.spark.datasource.options import read_options
from kvwal.spark.datasource.source import PushdownReader, schema_of
from kvwal.spark.datasource.stream_options import stream_options
from kvwal.structures.queue.positions import LAST_POSITION, item_class, key_of
from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import Span
from kvwal_archive.merge import Row
from kvwal_archive.objects import open_objects
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, PLACE, object_paths, table
from tests.unit.datasource.test_pushdown import counted

__all__ = ["counted"]

PRIORITY, POSITION, STRUCTURE = ("priority",), ("position",), ("structure",)
FIRST = 1 << 57
QUEUES = ("queue", "queue/todo", "queue/todo2")
ITEMS = 4_000
GROUP_ROWS = 250
Holds = Callable[[int, int], bool]


def item(structure: str, priority: int, position: int, sequence: int, *, taken: bool = False) -> Row:
    value, name = (b"", "") if taken else (b'"%s %d"' % (structure.encode(), position), "json")
    return Row(
        item_class(structure), key_of(priority, position), value, name, taken, sequence << 16, 0, PLACE.node, sequence
    )


def rows() -> list[Row]:
    """Items of three queues, negative priorities among them, of which every fifth is taken; a map beside them."""
    puts = [(structure, number % 7 - 3, FIRST + number) for number in range(ITEMS) for structure in QUEUES]
    found = [item(*place, sequence) for sequence, place in enumerate(puts, 1)]
    takes = [place for number, place in enumerate(puts) if number % 5 == 0]
    found += [item(*place, sequence, taken=True) for sequence, place in enumerate(takes, len(found) + 1)]
    strange = ("str", "queue-like:int", "queue/todo:str", "map/todo:int")
    return found + [
        Row(name, key_of(0, FIRST), b"1", "json", False, 1 << 16, 0, PLACE.node, sequence)
        for sequence, name in enumerate(strange, len(found) + 1)
    ]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    put(folder, rows())
    return folder


def put(folder: Path, found: list[Row]) -> None:
    """Archive these rows as one object of many row groups."""
    store = open_objects(str(folder))
    registry.register(store, PLACE, LOG)
    ordered = sorted(found, key=lambda row: (row.key_class, row.key, -row.sequence))
    with patch("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", GROUP_ROWS):
        span, seals = Span(1, len(found)), list(range(1, len(found) + 1))
        put_segment(store, PLACE, span, table(ordered), log_id=LOG, previous_crc=0, seal_crcs=seals)


def read(folder: Path, structure: str, filters: list[Filter], view: str = "latest") -> list[dict[str, Any]]:
    names = {"namespace": PLACE.namespace, "business": PLACE.business}
    reader = PushdownReader(read_options({"archive": str(folder), "structure": structure, "view": view, **names}), None)
    assert list(reader.pushFilters(filters)) == filters
    return [line for part in reader.partitions() for batch in reader.read(part) for line in batch.to_pylist()]


def live(structures: tuple[str, ...] = QUEUES) -> list[tuple[str, int, int]]:
    """The places of the items that nobody took, sorted."""
    numbered = [(structure, number % 7 - 3, FIRST + number) for number in range(ITEMS) for structure in QUEUES]
    return sorted(place for number, place in enumerate(numbered) if number % 5 and place[0] in structures)


def places(found: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return sorted((row["structure"], row["priority"], row["position"]) for row in found)


def test_items_come_with_their_places(archive: Path) -> None:
    for structure in QUEUES:
        found = read(archive, structure, [])
        assert places(found) == live((structure,))
        assert [*found[0]] == schema_of(structure).names
        assert all(row["value"] == f'"{structure} {row["position"]}"' for row in found)
        assert all(int(row["key"]) == (row["priority"] << 58) + row["position"] for row in found)
    assert places(read(archive, "queue/*", [])) == live()
    assert read(archive, "queue/other", []) == []
    assert [row["key_class"] for row in read(archive, "map/todo", [])] == ["map/todo:int"]
    gone = [row for row in read(archive, "queue/todo", [], "history") if row["deleted"]]
    assert len(gone) == ITEMS // 5
    assert {(row["value"], row["priority"] in range(-3, 4)) for row in gone} == {(None, True)}


@pytest.mark.parametrize(
    ("filters", "holds"),
    [
        ([EqualTo(PRIORITY, -3)], lambda priority, _: priority == -3),
        ([In(PRIORITY, (-1, 2))], lambda priority, _: priority in (-1, 2)),
        ([LessThan(PRIORITY, -1)], lambda priority, _: priority < -1),
        ([GreaterThan(PRIORITY, 2), LessThanOrEqual(PRIORITY, 3)], lambda priority, _: priority == 3),
        ([EqualTo(PRIORITY, 0), EqualTo(POSITION, FIRST + 3)], lambda *place: place == (0, FIRST + 3)),
        ([GreaterThanOrEqual(POSITION, FIRST + 3_900)], lambda _, position: position >= FIRST + 3_900),
        ([LessThan(POSITION, FIRST + 100), EqualTo(PRIORITY, 1)], lambda p, at: at < FIRST + 100 and p == 1),
        ([EqualTo(PRIORITY, 40)], lambda *_: False),
        ([GreaterThan(POSITION, LAST_POSITION + 7)], lambda *_: False),
        ([LessThan(POSITION, -7)], lambda *_: False),
    ],
)
def test_a_condition_on_the_place_reads_few_row_groups_and_all_its_rows(
    archive: Path, counted: list[int], filters: list[Filter], holds: Holds
) -> None:
    read(archive, "queue/todo", [])
    whole = sum(counted)
    counted.clear()
    found = read(archive, "queue/todo", filters)
    assert [place for place in places(found) if holds(*place[1:])] == [
        p for p in live(("queue/todo",)) if holds(*p[1:])
    ]
    assert sum(counted) < whole
    together = read(archive, "queue/*", [*filters, In(STRUCTURE, ("queue/todo", "queue"))])
    chosen = [place for place in places(together) if holds(*place[1:])]
    assert chosen == [place for place in live(("queue", "queue/todo")) if holds(*place[1:])]
    assert {place[0] for place in places(read(archive, "queue/*", filters)) if holds(*place[1:])} == {
        place[0] for place in live() if holds(*place[1:])
    }


BOUNDS = st.integers(-40, 40) | st.integers(-(1 << 63), (1 << 63) - 1)
COMPARED = {
    EqualTo: int.__eq__, GreaterThan: int.__gt__, GreaterThanOrEqual: int.__ge__, LessThan: int.__lt__,
    LessThanOrEqual: int.__le__,
}  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(COMPARED, key=str)), st.sampled_from([PRIORITY, POSITION]), BOUNDS), max_size=4
    ),
    st.lists(st.tuples(st.integers(-32, 31), BOUNDS.map(lambda number: number & LAST_POSITION)), min_size=1),
)
def test_no_place_that_fulfils_the_conditions_is_left_out(
    drawn: list[tuple[Any, tuple[str], int]], found: list[tuple[int, int]]
) -> None:
    filters = [kind(column, value) for kind, column, value in drawn]
    ranges = wanted(filters, "queue/todo").ranges
    assert list(ranges) == sorted(ranges)
    assert all(before.high <= after.low for before, after in pairwise(ranges))
    near = [
        (p, at)
        for _, column, value in drawn
        if column == POSITION
        for p in (-1, 0)
        for at in (value - 1, value, value + 1)
    ]
    for priority, position in [*found, *((p, at) for p, at in near if 0 <= at <= LAST_POSITION)]:
        values = {PRIORITY: priority, POSITION: position}
        if all(COMPARED[kind](values[column], value) for kind, column, value in drawn):
            identity = (item_class("queue/todo"), key_of(priority, position))
            assert any(key_range.overlaps(identity, identity) for key_range in ranges)


def test_other_conditions_leave_nothing_out(archive: Path) -> None:
    whole = wanted([], "queue/todo").ranges
    for condition in (
        Not(EqualTo(PRIORITY, 1)),
        In(PRIORITY, (None,)),
        EqualTo(("value",), "x"),
        EqualTo(PRIORITY, True),
    ):
        assert wanted([condition], "queue/todo").ranges == whole
    assert wanted([EqualTo(STRUCTURE, "map/todo")], "queue/*").ranges == ()
    assert wanted([EqualTo(("key",), "5")], "queue/todo").ranges == whole
    assert wanted([EqualTo(PRIORITY, 1)]).ranges == wanted([]).ranges


def test_an_item_whose_codec_is_not_here_is_null_or_its_json(tmp_path: Path) -> None:
    found = [item("queue", 0, FIRST + number, number) for number in (1, 2)]
    put(
        tmp_path,
        [row._replace(value_class="own", value=value) for row, value in zip(found, (b"\xff", b'{"a":1}'), strict=True)],
    )
    assert [(row["value"], row["value_class"]) for row in read(tmp_path, "queue", [])] == [
        (None, "own"),
        ('{"a":1}', "own"),
    ]


def test_a_damaged_object_is_named(tmp_path: Path) -> None:
    put(tmp_path, rows())
    [path] = object_paths(tmp_path)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(ArchiveDamaged, match=re.escape(path.name)):
        read(tmp_path, "queue/*", [])


@pytest.mark.parametrize("structure", ["todo", "queue/", "queue/a:b", "queue/a/b", "map/*", "counters", "Queue"])
def test_a_wrong_structure_is_named(tmp_path: Path, structure: str) -> None:
    options = {"archive": str(tmp_path), "business": "work", "structure": structure}
    for read_all in (read_options, stream_options):
        with pytest.raises(
            ConfigError, match=rf"the option 'structure' is {re.escape(repr(structure))}.* queue/NAME, queue/\* for all"
        ):
            read_all(options)


def test_a_cluster_has_no_queues() -> None:
    with pytest.raises(ConfigError, match="is a cluster, of which Spark reads the maps of businesses only"):
        read_options({"store": "kvwal://localhost:5701", "business": "work", "structure": "queue"})
