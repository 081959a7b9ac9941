"""Laws of bases: on random histories of several nodes, with rewrites and gc, a read through a base gives the same rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvwal_archive import registry
from kvwal_archive.bases import build
from kvwal_archive.bases.check import verify_bases
from kvwal_archive.bases.collect import gc_bases
from kvwal_archive.bases.local import make_base
from kvwal_archive.layout import (
    MAX_NUMBER,
    BaseName,
    PartNumber,
    Span,
    base_key,
    parse_base_key,
    parse_object_key,
    parse_registration_key,
)
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.merge import Row, latest_plain
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.key_ranges import KeyRange
from kvwal_archive.restore import restore_batches
from kvwal_archive.spark import plan, scan
from kvwal_archive.view import history, latest, latest_of, latest_parts
from kvwal_archive.writer import put_segment
from tests.property.test_archive_laws import HISTORIES, NAME, NODES, live
from tests.property.test_scan_laws import scanned
from tests.support.archive.history import LOG, PLACE, from_table, place, table
from tests.support.chance import examples

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(NODES), st.integers(1, 6), st.integers(0, 60), st.sampled_from(["base", "gc", "rewrite"])
    ),
    min_size=3,
    max_size=14,
)


class Archived:
    """Logs of three nodes that are archived step by step, in transactions that are never cut."""

    def __init__(self, objects: Objects, found: Sequence[list[Row]]) -> None:
        self.objects = objects
        self._logged = {
            node: [row._replace(timestamp=row.timestamp << 16) for row in rows]
            for node, rows in zip(NODES, found, strict=True)
        }
        self._ends = dict.fromkeys(NODES, 0)
        for node in NODES:
            registry.register(objects, place(node), LOG)

    def put(self, node: str, count: int) -> None:
        """Archive some more entries of a node."""
        rows, start = self._logged[node], self._ends[node]
        end = min(len(rows), start + count)
        while 0 < end < len(rows) and rows[end].timestamp == rows[end - 1].timestamp:
            end += 1
        if end > start:
            span, part = Span(start + 1, end), table(rows[start:end])
            put_segment(self.objects, place(node), span, part, log_id=LOG, previous_crc=start, seal_crcs=[end])
            self._ends[node] = end

    def rows(self) -> list[Row]:
        """All rows that are archived."""
        return [row for node in NODES for row in self._logged[node][: self._ends[node]]]


def take_step(archived: Archived, node: str, horizon: int, what: str) -> None:
    """Make a base, compact, or compact and collect."""
    objects = archived.objects
    if what == "base" and archived.rows():
        assert make_base(objects, *WHERE) == make_base(objects, *WHERE)
    elif what != "base":
        rewrite(objects, place(node), now_ms=horizon, history_ms=0, force=True)
    if what == "gc":
        gc(objects, place(node), now_ms=1 << 48, grace_ms=0)
        gc_bases(objects, *WHERE, now_ms=1 << 48, grace_ms=0)


def assert_every_form_agrees(archived: Archived, highest: int) -> None:
    """The plain merge of all rows, the local read, the scan of Spark's partitions and a restore tell the same rows."""
    objects = archived.objects
    for at_ms in (highest, highest + 1, 100):
        at = (at_ms << 16) | 0xFFFF
        told = live(from_table(latest(objects, *WHERE, at=at)), at_ms)
        assert told == live(latest_plain(archived.rows(), at), at_ms)
    now = live(latest_plain(archived.rows()), 100)
    assert live(from_table(latest(objects, *WHERE)), 100) == now
    assert live(scanned(scan.latest_rows, objects, latest=True), 100) == now
    within = latest_of(
        objects, latest_parts(objects, *WHERE), ranges=[KeyRange(high=("int", b"")), KeyRange(("int", b""))]
    )
    assert live([row for batch in within for row in from_table(batch)], 100) == now
    restored = [row for batch in restore_batches(objects, *WHERE).batches for row in from_table(batch)]
    assert live(restored, 100) == now


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@given(HISTORIES, STEPS)
def test_a_base_changes_no_answer(found: tuple[list[Row], ...], steps: list[tuple[str, int, int, str]]) -> None:
    archived = Archived(open_objects(f"memory://{uuid.uuid4().hex}"), found)
    highest = 0
    with patch.object(build, "PIECE_BYTES", 140), patch.object(plan, "PARTITION_BYTES", 1):
        for node, count, horizon, what in steps:
            archived.put(node, count)
            take_step(archived, node, horizon, what)
            highest = max(highest, horizon if what != "base" else 0)
        if archived.rows():
            assert_every_form_agrees(archived, highest)
            for node in NODES:
                archived.put(node, MAX_NUMBER)
            assert_every_form_agrees(archived, highest)
    assert verify_bases(archived.objects, *WHERE).findings == []
    for row in archived.rows()[-1:]:
        kept = from_table(history(archived.objects, *WHERE, key_class=row.key_class, key=row.key))
        every = [one for one in archived.rows() if one.identity == row.identity and one.timestamp >= highest << 16]
        assert [one for one in kept if one.timestamp >= highest << 16] == sorted(
            every, key=lambda r: r.age, reverse=True
        )


@given(st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40)), max_size=30), st.lists(st.integers(1, 7)))
def test_pieces_are_cut_by_their_rows_and_not_by_the_batches(pairs: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    rows = table(
        Row("bytes", key, value, "bytes", False, number << 16, 0, "a", number)
        for number, (key, value) in enumerate(pairs, 1)
    )
    with patch.object(build, "PIECE_BYTES", 200):
        whole = [piece.to_pylist() for piece in build._pieces(rows.to_batches())]
        batches, start = [], 0
        for cut in [*cuts, len(rows) + 1]:
            batches += rows.slice(start, cut).to_batches()
            start += cut
        assert [piece.to_pylist() for piece in build._pieces(batches)] == whole
    assert [row for piece in whole for row in piece] == rows.to_pylist()
    sizes = [sum(len(row["key"]) + len(row["value"]) + build.ROW_COST for row in piece) for piece in whole]
    assert all(size >= 200 for size in sizes[:-1])


BASES = st.builds(BaseName, NAME, NAME, NAME, st.integers(0, MAX_NUMBER), st.from_regex("[0-9a-f]{32}", fullmatch=True))
PARTS = st.one_of(st.none(), st.builds(PartNumber, st.integers(0, 999_999), st.integers(0, 999_999), NAME))


@given(BASES, PARTS)
def test_names_of_bases_round_trip_and_are_no_other_names(base: BaseName, part: PartNumber | None) -> None:
    key = base_key(base, part)
    assert parse_base_key(key) == (base, part)
    assert parse_object_key(key) is None
    assert parse_registration_key(key) is None


@given(st.text(st.sampled_from("ab/_.-0123456789parquetjson"), max_size=90))
def test_every_name_of_a_base_that_parses_is_one_that_is_built(key: str) -> None:
    if parsed := parse_base_key(key):
        assert base_key(*parsed) == key
