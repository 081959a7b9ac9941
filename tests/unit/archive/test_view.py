"""Merging and reading: the seed's example, ties between nodes, limits, horizons, tails, restore."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ArchiveGap, BeforeHistory, Kind
from kvwal_archive.layout import Span, object_key
from kvwal_archive.merge import BATCH_BYTES, MergeSource, Row, all_rows, latest_plain, latest_table, newest_first
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.key_ranges import KeyRange, key_range
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import node_schema
from kvwal_archive.restore import businesses, restore_batches
from kvwal_archive.view import history, latest, latest_of
from kvwal_archive.writer import encode, put_segment
from tests.support.archive.history import LOG, PLACE, fill, from_table, merged, place, rows, table

WHERE = ("ns", "local", "jobs")


@pytest.fixture(params=["folder", "odd [folder]* 'name'?"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / request.param))


def row(key: str, value: bytes, timestamp: int, sequence: int, node: str = "node-1", deleted: bool = False) -> Row:
    return Row("str", key.encode(), value, "" if deleted else "int", deleted, timestamp, 0, node, sequence)


SEED = [
    row("K", b"1", 1, 1),
    row("K", b"2", 2, 2),
    row("K", b"", 3, 3, deleted=True),
    row("K", b"3", 4, 4),
    row("K", b"4", 5, 5),
]


def test_the_seeds_example_reads_4_and_keeps_five_entries(objects: Objects) -> None:
    registry.register(objects, PLACE, LOG)
    put_segment(objects, PLACE, Span(1, 5), table(SEED), log_id=LOG, previous_crc=0, seal_crcs=[1])
    assert from_table(latest(objects, *WHERE)) == [SEED[4]]
    assert from_table(history(objects, *WHERE, key_class="str", key=b"K")) == SEED[::-1]
    assert [found.value for at in range(6) for found in from_table(latest(objects, *WHERE, at=at))] == [
        b"1",
        b"2",
        b"",
        b"3",
        b"4",
    ]
    assert from_table(latest(objects, *WHERE, at=3))[0].deleted


def test_newest_first_skips_what_either_set_holds() -> None:
    stream = [
        row("a", b"", 9, 9, deleted=True),
        row("b", b"2", 8, 8),
        row("a", b"1", 7, 7),
        row("b", b"", 6, 6, deleted=True),
    ]
    assert list(newest_first(stream)) == stream[:2]


def both_ways(sources: list[MergeSource]) -> list[Row]:
    """The latest rows, which are the same whether few rows are sorted at once or taken in turns."""
    at_once = from_table(latest_table(sources))
    with patch("kvwal_archive.merge.FEW_ROWS", 0):
        assert from_table(latest_table(sources)) == at_once
    return at_once


def test_equal_timestamps_are_ordered_by_node_then_sequence() -> None:
    tied = [
        row("a", b"1", 5, 9, "node-1"),
        row("a", b"2", 5, 1, "node-2"),
        row("b", b"3", 5, 1, "x"),
        row("b", b"4", 5, 2, "x"),
    ]
    assert [found.value for found in latest_plain(tied)] == [b"2", b"4"]
    sources = [MergeSource(name, table(r for r in tied if r.node == name)) for name in ("node-1", "node-2", "x")]
    assert both_ways(sources) == latest_plain(tied)


def test_the_class_is_part_of_the_identity_and_sorts_first() -> None:
    found = [row("a", b"1", 1, 1), row("a", b"2", 2, 2)._replace(key_class="int"), row("B", b"3", 3, 3)]
    assert [(r.key_class, r.key) for r in latest_plain(found)] == [("int", b"a"), ("str", b"B"), ("str", b"a")]
    assert both_ways([MergeSource("node-1", table(found))]) == latest_plain(found)


def test_keys_that_sort_and_hash_awkwardly() -> None:
    keys = [b"", b"\0", b"\0\0", b"\x7f", b"\x80", b"\xff", b"\xff\0", "é".encode(), "𝄞".encode()]
    classes = ["", "bytes", "é", "ﬀ", "𝄞"]
    found = [
        Row(c, k, b"v", "int", False, 1, 0, "n", i)
        for i, (c, k) in enumerate(((c, k) for c in classes for k in keys), 1)
    ]
    assert both_ways([MergeSource("n", table(found))]) == latest_plain(found)


def test_no_source_is_an_empty_table(objects: Objects) -> None:
    assert latest(objects, *WHERE).equals(node_schema().empty_table())
    assert history(objects, *WHERE, key_class="str", key=b"K").equals(node_schema().empty_table())
    assert latest_table([]).schema == node_schema()


def test_all_nodes_and_their_tails_are_merged(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    fill(objects, place("b"), [(1, 80)])
    tail = rows(101, 120, node="a")
    everything = rows(1, 100, node="a") + rows(1, 80, node="b") + tail
    assert latest(objects, *WHERE, tails=[("a", table(tail))]).equals(merged(latest_plain(everything)))


def test_a_tail_that_overlaps_the_archive_changes_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    tail = table(rows(30, 50))
    assert latest(objects, *WHERE, tails=[("node-1", tail)]).equals(latest(objects, *WHERE))
    found = history(objects, *WHERE, key_class="str", key=b"key-001", tails=[("node-1", tail)])
    assert found.equals(history(objects, *WHERE, key_class="str", key=b"key-001"))


def test_only_the_nodes_asked_for_and_up_to_the_sequence_given(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    fill(objects, place("b"), [(1, 80)])
    assert latest(objects, *WHERE, nodes={"a": 70}).equals(merged(latest_plain(rows(1, 70, node="a"))))
    expected = latest_plain(rows(1, 100, node="a") + rows(1, 10, node="b"))
    assert latest(objects, *WHERE, nodes={"a": None, "b": 10}).equals(merged(expected))
    assert len(latest(objects, *WHERE, nodes={"nobody": None})) == 0


def test_a_missing_range_is_named_unless_it_lies_after_what_is_asked(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10), (21, 30)])
    for read in (latest, restore_batches):
        with pytest.raises(ArchiveGap, match="sequences 11–20"):
            read(objects, *WHERE)
    with pytest.raises(ArchiveGap, match="sequences 11–20"):
        history(objects, *WHERE, key_class="str", key=b"key-001")
    assert len(latest(objects, *WHERE, nodes={"node-1": 10})) == len(latest_plain(rows(1, 10)))


def test_a_read_from_before_the_horizon_is_refused(objects: Objects) -> None:
    registry.register(objects, PLACE, LOG)
    kept = [found for found in rows(1, 20) if found.sequence > 5]
    put_segment(objects, PLACE, Span(1, 20, 1006 << 16), table(kept), log_id=LOG, previous_crc=0, seal_crcs=[20])
    for asked in (1005 << 16, (1005 << 16) + 65535):
        with pytest.raises(BeforeHistory) as caught:
            latest(objects, *WHERE, at=asked)
        assert "before 1970-01-01 00:00:01.006Z only the latest entry of each key was kept" in str(caught.value)
        assert "1970-01-01 00:00:01.005Z was asked" in str(caught.value)
        assert (isinstance(caught.value, ArchiveGap), caught.value.kind) == (True, Kind.CALLER)
    assert latest(objects, *WHERE, at=1006 << 16).equals(merged(latest_plain(kept, at=1006 << 16)))


def test_history_is_newest_first_over_all_nodes(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    fill(objects, place("b"), [(1, 80)])
    everything = rows(1, 100, node="a") + rows(1, 80, node="b")
    wanted = sorted((r for r in everything if r.key == b"key-002"), key=lambda r: r.age, reverse=True)
    found = history(objects, *WHERE, key_class="str", key=b"key-002")
    assert from_table(found) == wanted
    early = history(objects, *WHERE, key_class="str", key=b"key-002", at=1030 << 16, nodes={"a": 25, "b": None})
    assert from_table(early) == [r for r in wanted if r.timestamp <= 1030 << 16 and (r.node == "b" or r.sequence <= 25)]


def test_rows_of_a_snapshot_share_a_sequence_and_are_all_kept(objects: Objects) -> None:
    snapshot = [found._replace(sequence=20) for found in latest_plain(rows(1, 20))]
    registry.register(objects, PLACE, LOG)
    put_segment(objects, PLACE, Span(1, 20, 1020 << 16), table(snapshot), log_id=LOG, previous_crc=0, seal_crcs=[20])
    assert from_table(latest(objects, *WHERE)) == snapshot
    everything = all_rows([("node-1", table(snapshot)), ("node-1", table(snapshot)), ("node-2", table(snapshot))])
    assert len(everything) == 2 * len(snapshot)


def test_damage_in_an_object_is_found_by_every_reader(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 200)])
    whole = objects.read(stored.key)
    objects.delete(stored.key)
    objects.put_if_absent(stored.key, whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    for read in (latest, restore_batches):
        with pytest.raises(ArchiveDamaged, match="the checksum of its rows does not match"):
            read(objects, *WHERE)


def test_ranges_that_overlap_are_no_damage_but_an_error_of_who_asks(objects: Objects) -> None:
    with pytest.raises(ValueError, match="overlap or are not sorted"):
        list(latest_of(objects, [], ranges=[key_range("str", b"b"), KeyRange(("str", b"b"), ("str", b"c"))]))


def test_restore_gives_batches_positions_and_the_greatest_timestamp(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    fill(objects, place("b"), [(1, 80)])
    result = restore_batches(objects, *WHERE)
    found = pa.Table.from_batches(result.batches, schema=node_schema())
    assert found.equals(latest(objects, *WHERE))
    assert (result.positions, result.max_timestamp) == ({"a": 100, "b": 80}, 1100 << 16)


def test_restore_as_of_a_time_says_where_each_log_was_then(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    fill(objects, place("b"), [(1, 80)], start_ms=1040)
    result = restore_batches(objects, *WHERE, at=1070 << 16)
    everything = rows(1, 100, node="a") + rows(1, 80, node="b", start_ms=1040)
    found = pa.Table.from_batches(result.batches, schema=node_schema())
    assert from_table(found) == latest_plain(everything, at=1070 << 16)
    assert (result.positions, result.max_timestamp) == ({"a": 70, "b": 30}, 1070 << 16)
    before = restore_batches(objects, *WHERE, at=1)
    assert (list(before.batches), before.positions, before.max_timestamp) == ([], {"a": 0, "b": 0}, 0)


def test_restore_up_to_a_sequence(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 50), (51, 100)])
    result = restore_batches(objects, *WHERE, nodes={"a": 60})
    assert from_table(pa.Table.from_batches(result.batches)) == latest_plain(rows(1, 60, node="a"))
    assert result.positions == {"a": 60}


def test_businesses_are_listed(objects: Objects) -> None:
    for business in ("jobs", "alerts"):
        registry.register(objects, place("a", business), LOG)
        registry.register(objects, place("b", business), LOG)
    assert businesses(objects, "ns", "local") == ["alerts", "jobs"]
    assert businesses(objects, "ns", "elsewhere") == []


def test_an_object_removed_while_it_is_merged_is_looked_for_again(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100)])
    real_fetch = type(objects).fetch

    def fetch(self: Objects, key: str, folder: Path) -> Path:
        monkeypatch.undo()
        fill(self, PLACE, [(1, 100)])
        self.delete(key)
        return real_fetch(self, key, folder)

    monkeypatch.setattr(type(objects), "fetch", fetch)
    assert latest(objects, *WHERE).equals(merged(latest_plain(rows(1, 100))))


def test_an_object_that_stays_away_is_an_error(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    (stored,) = fill(objects, PLACE, [(1, 50)])
    listed = objects.list("")
    objects.delete(stored.key)
    monkeypatch.setattr(type(objects), "list", lambda self, prefix: [i for i in listed if i.key.startswith(prefix)])
    with pytest.raises(ArchiveError, match="no such object"):
        latest(objects, *WHERE)


def test_large_values_come_in_batches_that_stay_small(objects: Objects) -> None:
    value = bytes(1 << 20)
    large = [row(f"{number:03d}", value, number, number) for number in range(1, 41)]
    registry.register(objects, PLACE, LOG)
    for first in (1, 21):
        found = table(large[first - 1 : first + 19])
        put_segment(
            objects, PLACE, Span(first, first + 19), found, log_id=LOG, previous_crc=first - 1, seal_crcs=[first + 19]
        )
    sizes = [batch.nbytes for batch in restore_batches(objects, *WHERE).batches]
    assert sum(sizes) > 40 << 20
    assert max(sizes) <= BATCH_BYTES


def test_an_object_that_is_not_sorted_is_damage(objects: Objects) -> None:
    registry.register(objects, PLACE, LOG)
    unsorted = table([row(key, b"1", number, number) for number, key in enumerate("dacb", 1)])
    _, data = encode(PLACE, Span(1, 4), unsorted, Seals(LOG, 0, [4]))
    objects.put_if_absent(object_key(PLACE, Span(1, 4)), data)
    with pytest.raises(ArchiveDamaged, match="not sorted by identity"):
        latest(objects, *WHERE)
