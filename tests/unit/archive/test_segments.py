"""Writing and reading back objects: what the footer promises, what counts, and every kind of damage by name."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged, ArchiveError, ArchiveGap, KvwalError
from kvwal_archive.layout import Place, Span, object_key
from kvwal_archive.objects import Objects, Range, open_objects
from kvwal_archive.parquet.chunks import chunks_of
from kvwal_archive.parquet.columns import find_class, find_rows
from kvwal_archive.parquet.metadata import read_footer
from kvwal_archive.parquet.rows import COLUMNS, IDENTITY, Footer, seal_object
from kvwal_archive.reader import coverage, live_objects, read_rows, unsuperseded, without_gaps
from kvwal_archive.writer import put_segment
from tests.support.archive.history import LOG, PLACE, fill, merged, place, put, rows, table
from tests.support.chance import new_seed

SHARE = 5
"""A test of every bit that is not run whole takes so small a part of them."""


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path))


def replace(objects: Objects, key: str, data: bytes) -> None:
    """What no program of ours does: another object under the same key."""
    objects.delete(key)
    objects.put_if_absent(key, data)


def with_footer(data: bytes, **changed: object) -> bytes:
    """The same object with another record in its footer."""
    source = pq.ParquetFile(io.BytesIO(data))
    footer = msgspec.json.decode(source.metadata.metadata[b"kvwal"]) | changed
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, source.schema_arrow, store_schema=False) as writer:
        writer.write_table(source.read())
        writer.add_key_value_metadata({b"kvwal": msgspec.json.encode(footer)})
    return seal_object(sink.getvalue())


def test_rows_come_back_sorted_and_equal(objects: Objects) -> None:
    found = rows(1, 200)
    fill(objects, PLACE, [(1, 200)])
    (info,) = live_objects(objects, PLACE)
    by_order = sorted(found, key=lambda row: (row.identity, -row.timestamp, -row.sequence))
    assert read_rows(objects, info).equals(table(by_order))


def test_the_footer_says_what_is_in_the_object(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 200)])
    found = rows(1, 200)
    with objects.open(stored.key) as file:
        footer = read_footer(file, stored.key, whole=True)
    assert (footer.place, footer.span, footer.log_id) == (PLACE, Span(1, 200), LOG)
    assert (footer.previous_crc, footer.seal_crcs) == (0, list(range(1, 201)))
    assert (footer.rows, footer.identities) == (200, len({row.identity for row in found}))
    assert footer.data_bytes == sum(len(row.key) + len(row.value) for row in found)
    assert (footer.min_timestamp, footer.max_timestamp) == (1001 << 16, 1200 << 16)
    assert stored.size == len(objects.read(stored.key))


def test_other_readers_see_plain_required_columns(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 20)])
    parquet = pq.ParquetFile(io.BytesIO(objects.read(stored.key)))
    group = parquet.metadata.row_group(0)
    assert parquet.schema.names == list(COLUMNS)
    assert all(parquet.schema.column(i).max_definition_level == 0 for i in range(len(COLUMNS)))
    assert {group.column(i).compression for i in range(len(COLUMNS))} == {"ZSTD"}


def test_putting_the_same_segment_again_confirms_it(objects: Objects) -> None:
    first = fill(objects, PLACE, [(1, 20)])
    before = objects.list("")
    assert fill(objects, PLACE, [(1, 20)]) == first
    assert objects.list("") == before


def test_an_object_of_other_seals_is_not_taken_for_ours(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 20)])
    with pytest.raises(ArchiveDamaged, match="its seals or its rows differ"):
        put_segment(objects, PLACE, Span(1, 20), table(rows(1, 20)), log_id=LOG, previous_crc=0, seal_crcs=[21])


@pytest.mark.parametrize("cut", [0, 3, 8, 100, -1, -9])
def test_a_half_written_object_is_never_taken_for_archived(objects: Objects, cut: int) -> None:
    (stored,) = fill(objects, PLACE, [(1, 20)])
    replace(objects, stored.key, objects.read(stored.key)[:cut])
    with pytest.raises(ArchiveDamaged, match="cut short"):
        put(objects, PLACE, 1, 20)
    with pytest.raises(ArchiveDamaged, match="cut short"):
        coverage(objects, PLACE, LOG)


def test_an_object_that_arrived_otherwise_is_not_archived(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = type(objects)
    put_whole = kind.put_if_absent

    def lossy(self: Objects, key: str, data: bytes) -> bool:
        return put_whole(self, key, data if "/_" in key else data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])

    monkeypatch.setattr(kind, "put_if_absent", lossy)
    with pytest.raises(ArchiveDamaged, match="is not what was put there"):
        fill(objects, PLACE, [(1, 20)])


def test_a_flipped_bit_anywhere_is_found(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 20)])
    (info,) = live_objects(objects, PLACE)
    whole = objects.read(stored.key)
    for at in range(0, len(whole), 7):
        replace(objects, stored.key, whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = read_rows(objects, info)
        except ArchiveError:
            continue
        assert found.equals(table(sorted(rows(1, 20), key=lambda row: (row.identity, -row.timestamp)))), at


@pytest.mark.long
@pytest.mark.loop
def test_no_flipped_bit_is_believed_by_a_reader_of_single_keys(objects: Objects, whole: bool) -> None:
    """Headers of pages too: Parquet checks no header, and passes over a page that says that it is an index."""
    first = 0 if whole else random.Random(new_seed()).randrange(SHARE)
    (stored,) = fill(objects, PLACE, [(1, 12)])
    (info,) = live_objects(objects, PLACE)
    whole = objects.read(stored.key)
    body = chunks_of(pq.read_metadata(io.BytesIO(whole)))
    assert len(body) == len(COLUMNS)
    for at in range(body[0].begin + first, body[-1].end, 1 if whole else SHARE):
        replace(objects, stored.key, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(ArchiveDamaged):
            find_rows(objects, info, "str", b"key-001")
        if any(chunk.begin <= at < chunk.end for chunk in body[: len(IDENTITY)]):
            with pytest.raises(ArchiveDamaged):
                find_class(objects, info, "str", ["key"])


@pytest.mark.parametrize(
    "text",
    ['"chunk_crcs":"00"', '"filter_crcs":"00"', '"body_crc":0123456789,', '"footer_crc":"00000000"', '{"format":1,'],
)
def test_a_key_may_look_like_the_record_in_the_footer(objects: Objects, text: str) -> None:
    """The footer has the least and the greatest key, before the record."""
    key = f"x{text}".encode()
    found = [row._replace(key=key) for row in rows(1, 3)]
    registry.register(objects, PLACE, LOG)
    put_segment(objects, PLACE, Span(1, 3), table(found), log_id=LOG, previous_crc=0, seal_crcs=[1, 2, 3])
    (info,) = live_objects(objects, PLACE)
    assert len(read_rows(objects, info)) == len(find_rows(objects, info, "str", key)) == 3
    statistics = pq.read_metadata(io.BytesIO(objects.read(info.key))).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (key, key)


def test_an_object_without_checksums_of_its_chunks_is_checked_whole(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As versions before them wrote it."""
    monkeypatch.setattr("kvwal_archive.parquet.object_file.blank_chunk_crcs", lambda _: msgspec.UNSET)
    (stored,) = fill(objects, PLACE, [(1, 12)])
    (info,) = live_objects(objects, PLACE)
    assert info.footer.chunk_crcs is msgspec.UNSET
    assert len(find_rows(objects, info, "str", b"key-001")) > 0
    whole = objects.read(stored.key)
    replace(objects, stored.key, whole[:5] + bytes([whole[5] ^ 1]) + whole[6:])
    with pytest.raises(ArchiveDamaged, match="the checksum of its rows"):
        find_rows(objects, info, "str", b"key-001")


@pytest.mark.parametrize(("first", "second"), [(20, 25), (25, 20)])
def test_of_two_copies_that_archive_at_once_the_second_is_refused(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, first: int, second: int
) -> None:
    """Neither saw an object of the other before it put its own; a wider one would have taken the place of what was archived."""
    fill(objects, PLACE, [(1, 10)])
    kind = type(objects)
    put_whole = kind.put_if_absent

    def put_after_the_other(self: Objects, key: str, data: bytes) -> bool:
        monkeypatch.setattr(kind, "put_if_absent", put_whole)
        put(objects, PLACE, 11, first)
        return put_whole(self, key, data)

    monkeypatch.setattr(kind, "put_if_absent", put_after_the_other)
    with pytest.raises(ArchiveError, match="a copy of the log's folder is open too"):
        put_segment(
            objects, PLACE, Span(11, second), table(rows(11, second, seed=1)),
            log_id=LOG, previous_crc=10, seal_crcs=[1000 + second],
        )  # fmt: skip
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 10), Span(11, first)]
    found = [read_rows(objects, info) for info in live_objects(objects, PLACE)]
    assert [len(each) for each in found] == [10, first - 10]


def test_an_earlier_attempt_with_more_segments_is_no_copy(objects: Objects) -> None:
    """It arrived late, and the archiver has begun again with fewer."""
    fill(objects, PLACE, [(1, 10)])
    for last, seals in ((25, [20, 25]), (20, [20])):
        put_segment(objects, PLACE, Span(11, last), table(rows(11, last)), log_id=LOG, previous_crc=10, seal_crcs=seals)
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 10), Span(11, 25)]


@pytest.mark.parametrize("wrong", [rows(1, 19), rows(1, 21), rows(2, 21), [*rows(1, 19), *rows(19, 19)], []])
def test_rows_that_are_not_the_range_are_a_bug(objects: Objects, wrong: list) -> None:
    registry.register(objects, PLACE, LOG)
    with pytest.raises(KvwalError):
        put_segment(objects, PLACE, Span(1, 20), table(wrong), log_id=LOG, previous_crc=0, seal_crcs=[1])
    assert live_objects(objects, PLACE) == []


def test_with_a_horizon_rows_may_be_missing(objects: Objects) -> None:
    registry.register(objects, PLACE, LOG)
    put_segment(objects, PLACE, Span(1, 20, 5), table(rows(7, 19)), log_id=LOG, previous_crc=0, seal_crcs=[1])
    assert coverage(objects, PLACE, LOG).horizon == 5


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"format": 2}, ArchiveError, "newer version: format 2, and this version reads format 1"),
        ({"format": 0}, ArchiveError, "format 0"),
        ({"log_id": 7}, ArchiveDamaged, "the record in its footer cannot be read"),
        ({"rows": 19}, ArchiveDamaged, "promises 19 rows"),
        ({"last": 21}, ArchiveDamaged, "its footer says it is .* 1–21"),
        ({"node": "node-2"}, ArchiveDamaged, "its footer says it is ns/local/jobs/node-2"),
        ({"horizon": 3}, ArchiveDamaged, "horizon 3"),
    ],
)
def test_a_footer_that_is_not_the_objects_own(objects: Objects, changed: dict, error: type, says: str) -> None:
    (stored,) = fill(objects, PLACE, [(1, 20)])
    replace(objects, stored.key, with_footer(objects.read(stored.key), **changed))
    with pytest.raises(error, match=f"{stored.key}: .*{says}"):
        live_objects(objects, PLACE)


def test_a_parquet_file_of_someone_else(objects: Objects) -> None:
    registry.register(objects, PLACE, LOG)
    sink = io.BytesIO()
    pq.write_table(table(rows(1, 20)), sink)
    objects.put_if_absent(object_key(PLACE, Span(1, 20)), sink.getvalue())
    with pytest.raises(ArchiveDamaged, match="not one of the archive"):
        live_objects(objects, PLACE)


def test_coverage_ends_at_the_first_gap_and_names_every_gap(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10), (11, 20), (31, 40), (51, 60)])
    found = coverage(objects, PLACE, LOG)
    assert found.last == 20
    assert found.gaps == [(21, 30), (41, 50)]
    assert found.spans == [Span(1, 10), Span(11, 20), Span(31, 40), Span(51, 60)]
    assert (found.max_timestamp, found.horizon) == (1060 << 16, 0)


def test_a_missing_beginning_is_a_gap(objects: Objects) -> None:
    fill(objects, PLACE, [(11, 20)])
    found = coverage(objects, PLACE, LOG)
    assert (found.last, found.gaps) == (0, [(1, 10)])


def test_a_gap_is_an_error_that_names_the_range(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10), (21, 30), (41, 50)])
    infos = live_objects(objects, PLACE)
    with pytest.raises(ArchiveGap, match=r"node-1: sequences 11–20, 31–40 are in no object"):
        without_gaps(PLACE, infos)
    with pytest.raises(ArchiveGap, match=r"sequences 11–20 are"):
        without_gaps(PLACE, infos, up_to=25)
    assert without_gaps(PLACE, infos, up_to=10) == infos[:1]


def test_overlap_is_no_gap(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10), (5, 20), (15, 30)])
    assert coverage(objects, PLACE, LOG).last == 30


def test_names_alone_say_what_is_superseded() -> None:
    spans = [
        Span(1, 10),
        Span(11, 20),
        Span(1, 20),
        Span(1, 20, 5),
        Span(15, 25),
        Span(16, 25),
        Span(26, 30),
        Span(26, 30, 9),
    ]
    assert unsuperseded(spans) == [Span(1, 20, 5), Span(15, 25), Span(26, 30, 9)]


def test_a_reader_that_misses_an_object_lists_again(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(objects, PLACE, [(1, 10), (11, 20)])
    real = type(objects).read_ranges

    def compacted_meanwhile(self: Objects, ranges: Sequence[Range]) -> list[bytes]:
        monkeypatch.setattr(type(objects), "read_ranges", real)
        fill(self, PLACE, [(1, 20)])
        self.delete(ranges[0][0])
        return real(self, ranges)

    monkeypatch.setattr(type(objects), "read_ranges", compacted_meanwhile)
    assert [info.span for info in live_objects(objects, PLACE)] == [Span(1, 20)]


def test_a_footer_that_is_longer_than_most_is_read_whole(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal_archive.parquet.metadata.FOOTER_BYTES", (100, 200))
    fill(objects, PLACE, [(1, 10), (11, 20)])
    assert [info.footer.rows for info in live_objects(objects, PLACE)] == [10, 10]


def test_an_object_that_was_replaced_since_it_was_listed_is_read_as_it_is(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fenced log's object gives way to one of the log that took over, with another size."""
    (stored,) = fill(objects, PLACE, [(1, 10)])
    listed = objects.list(PLACE.prefix)
    monkeypatch.setattr(type(objects), "list", lambda *_: listed)
    objects.delete(stored.key)
    put(objects, PLACE, 1, 10, keys=1, seed=3)
    assert len(objects.read(stored.key)) != stored.size
    (info,) = live_objects(objects, PLACE)
    assert info.footer.identities == 1


def test_only_row_groups_that_may_hold_the_key_are_read(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 200)])
    (info,) = live_objects(objects, PLACE)
    wanted = [row for row in rows(1, 200) if row.key == b"key-003"]
    assert find_rows(objects, info, "str", b"key-003").equals(table(sorted(wanted, key=lambda row: -row.sequence)))
    assert len(find_rows(objects, info, "int", b"key-003")) == 0


def test_a_row_group_ends_where_it_has_the_bytes_of_one(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of one key decodes as little of an object whose rows were in memory as of one that was streamed."""
    monkeypatch.setattr("kvwal_archive.parquet.object_file.ROW_GROUP_BYTES", 500)
    fill(objects, PLACE, [(1, 200)])
    (info,) = live_objects(objects, PLACE)
    metadata = pq.read_metadata(io.BytesIO(objects.read(info.key)))
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert sum(groups) == 200
    assert len(groups) > 2
    assert 250 < max(groups) * info.row_bytes <= 500 + max(groups)
    assert read_rows(objects, info).num_rows == 200
    assert len(find_rows(objects, info, "str", b"key-003")) > 0


def test_places_do_not_mix(objects: Objects) -> None:
    fill(objects, place("a"), [(1, 10)])
    fill(objects, place("ab"), [(1, 20)])
    assert [info.span for info in live_objects(objects, place("a"))] == [Span(1, 10)]
    assert merged(rows(1, 2)).num_columns == len(COLUMNS) + 1
    assert isinstance(live_objects(objects, place("ab"))[0].footer, Footer)
    assert live_objects(objects, Place("ns", "local", "jobs", "b")) == []
