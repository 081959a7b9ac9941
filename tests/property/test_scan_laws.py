"""Laws of a read on Spark, without Spark: the scans of all partitions together are the local merge, and the local history."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import chain
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal_archive import registry
from kvwal_archive.layout import Span
from kvwal_archive.merge import Row, latest_plain
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.key_ranges import KeyRange, class_range, intersect
from kvwal_archive.spark import plan, scan
from kvwal_archive.writer import put_segment
from tests.property.test_archive_laws import HISTORIES, NODES
from tests.support.archive.history import LOG, PLACE, from_table, place, table
from tests.support.chance import examples

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
IDENTITIES = st.tuples(
    st.sampled_from(["", "bytes", "int", "str", "str\0", "z"]), st.sampled_from([b"", b"k", b"k\0", b"l"])
)


@st.composite
def spans(draw: st.DrawFn, length: int) -> list[tuple[int, int]]:
    """Ranges of a log that together have all of it. Some overlap."""
    found, first = [], 1
    while first <= length:
        last = draw(st.integers(first, length))
        found.append((max(1, first - draw(st.integers(0, 2))), last))
        first = last + 1
    return found


@st.composite
def archives(draw: st.DrawFn, url: str = "") -> tuple[Objects, list[Row]]:
    """An archive of three nodes with row groups of two rows, and all rows; in memory, if no URL is given."""
    objects = open_objects(url or f"memory://{uuid.uuid4().hex}")
    logs = draw(HISTORIES)
    with (
        patch("kvwal_archive.parquet.object_file.ROW_GROUP_ROWS", 2),
        patch("kvwal_archive.parquet.object_file.WRITE_BATCH_ROWS", 2),
    ):
        for node, rows in zip(NODES, logs, strict=True):
            registry.register(objects, place(node), LOG)
            for first, last in draw(spans(len(rows))):
                part, seals = table(rows[first - 1 : last]), list(range(first, last + 1))
                put_segment(
                    objects,
                    place(node),
                    Span(first, last),
                    part,
                    log_id=LOG,
                    previous_crc=first - 1,
                    seal_crcs=seals,
                )
    return objects, list(chain.from_iterable(logs))


def scanned(
    read: Callable[[Objects, plan.Partition], Iterator[object]], objects: Objects, **wanted: object
) -> list[Row]:
    """The rows of all partitions. Rows of ranges that do not overlap come from each partition."""
    partitions = plan.plan(objects, *WHERE, **wanted)  # type: ignore[arg-type]
    return [row for partition in partitions for batch in read(objects, partition) for row in from_table(batch)]


@settings(max_examples=examples(30), deadline=None)
@given(st.data(), st.sampled_from([0, 8 << 20]))
def test_the_scans_of_all_partitions_are_the_local_merge(data: st.DataObject, held: int) -> None:
    objects, rows = data.draw(archives())
    limits = sorted(set(data.draw(st.lists(IDENTITIES, max_size=4))))
    ranges = [KeyRange(low, high) for low, high in zip(limits[::2], limits[1::2], strict=False)] or [KeyRange()]
    since = data.draw(st.integers(0, 20))

    def within(row: Row) -> bool:
        return any(key_range.overlaps(row.identity, row.identity) for key_range in ranges)

    with patch.object(plan, "PARTITION_BYTES", 1), patch.object(scan, "HELD_BYTES", held):
        assert scanned(scan.latest_rows, objects) == latest_plain(rows)
        found = scanned(scan.latest_rows, objects, ranges=ranges, since=since)
        assert [row for row in found if row.timestamp >= since] == [
            row for row in latest_plain(rows) if within(row) and row.timestamp >= since
        ]
        found = scanned(scan.all_rows, objects, ranges=ranges, since=since, until=since + 5)
        assert sorted(row for row in found if since <= row.timestamp <= since + 5) == sorted(
            row for row in rows if within(row) and since <= row.timestamp <= since + 5
        )


GROUPS = st.lists(
    st.builds(lambda a, b, size: plan.RowGroup(min(a, b), max(a, b), size), IDENTITIES, IDENTITIES, st.integers(1, 9)),
    max_size=12,
)


@given(GROUPS, st.integers(1, 20))
def test_cuts_are_sorted_and_no_byte_is_read_more_than_a_few_times(groups: list[plan.RowGroup], most: int) -> None:
    cuts = plan.cut_points(groups, most)
    assert cuts == sorted(set(cuts))
    pieces = [KeyRange(low, high) for low, high in zip([("", b""), *cuts], [*cuts, ("\U0010ffff", b"")], strict=True)]
    read = sum(group.size for piece in pieces for group in groups if piece.overlaps(group.least, group.greatest))
    assert read <= 2 * sum(group.size for group in groups)


@given(st.lists(st.tuples(IDENTITIES, IDENTITIES), max_size=4), st.lists(st.tuples(IDENTITIES, IDENTITIES), max_size=4))
def test_an_intersection_has_what_is_in_both(
    some: list[tuple[tuple[str, bytes], tuple[str, bytes]]], others: list[tuple[tuple[str, bytes], tuple[str, bytes]]]
) -> None:
    left, right = [KeyRange(*one) for one in some], [KeyRange(*one) for one in others]
    both = list(intersect(left, right))
    for identity in [("str", b"k"), ("str", b""), ("int", b"k\0"), ("bytes", b"l")]:
        inside = [any(one.overlaps(identity, identity) for one in each) for each in (left, right, both)]
        assert inside[2] == (inside[0] and inside[1])
    assert class_range("str").overlaps(("str", b""), ("str", b""))
    assert not class_range("str").overlaps(("str\0", b""), ("str\0", b""))
