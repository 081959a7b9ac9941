"""Verify names every kind of damage, and only damage."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from kvwal_archive import registry
from kvwal_archive.layout import Span, object_key, registration_key
from kvwal_archive.maintenance.compaction import rewrite
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import seal_object, sorted_rows
from kvwal_archive.verify import verify
from kvwal_archive.writer import encode, put_segment
from tests.support.archive.history import LOG, PLACE, fill, place, put, rows, table


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path))


def kinds(objects: Objects) -> list[tuple[str, str]]:
    return [(finding.kind, finding.key) for finding in verify(objects).findings]


def put_encoded(objects: Objects, span: Span, found, previous_crc: int = 0, log_id: str = LOG) -> str:
    _, data = encode(PLACE, span, found, Seals(log_id, previous_crc, [span.last]))
    objects.put_if_absent(object_key(PLACE, span), data)
    return object_key(PLACE, span)


def test_a_sound_archive_has_no_findings(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (51, 100), (101, 150), (151, 200)])
    fill(objects, place("node-2"), [(1, 10)])
    rewrite(objects, PLACE, now_ms=1100, history_ms=0)
    told: list[int] = []
    report = verify(objects, progress=lambda done, total, what: told.append(total))
    assert (report.objects_checked, report.findings) == (6, [])
    assert report.rows > 210
    assert told == [sum(item.size for item in objects.list(""))] * 8
    assert verify(objects, place("node-2")).rows == 10


def test_an_empty_archive_has_no_findings(objects: Objects) -> None:
    assert verify(objects) == (0, 0, [])


def test_a_flipped_bit(objects: Objects) -> None:
    stored = fill(objects, PLACE, [(1, 50), (51, 100)])
    whole = objects.read(stored[0].key)
    objects.delete(stored[0].key)
    objects.put_if_absent(stored[0].key, whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
    assert kinds(objects) == [("gap", PLACE.prefix), ("damaged", stored[0].key)]


def test_a_gap_and_a_broken_chain(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (61, 70)])
    put_segment(objects, PLACE, Span(71, 80), table(rows(71, 80)), log_id=LOG, previous_crc=99, seal_crcs=[80])
    report = verify(objects)
    assert [finding.kind for finding in report.findings] == ["gap", "chain"]
    assert "51–60" in report.findings[0].text
    assert "0x00000063" in report.findings[1].text


def test_a_foreign_object(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    key = put_encoded(objects, Span(51, 60), sorted_rows(table(rows(51, 60))), log_id="stranger")
    assert kinds(objects) == [("foreign", key)]


def test_a_newer_object_is_no_damage(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 50)])
    source = pq.ParquetFile(io.BytesIO(objects.read(stored.key)))
    footer = msgspec.json.decode(source.metadata.metadata[b"kvwal"]) | {"format": 2}
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, source.schema_arrow) as writer:
        writer.write_table(source.read())
        writer.add_key_value_metadata({b"kvwal": msgspec.json.encode(footer)})
    objects.delete(stored.key)
    objects.put_if_absent(stored.key, seal_object(sink.getvalue()))
    assert kinds(objects) == [("newer", stored.key)]


@pytest.mark.breaks("files", reason="the object that nothing reads is what it is about")
def test_a_name_that_nothing_reads(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    objects.put_if_absent(f"{PLACE.prefix}/notes.txt", b"")
    assert kinds(objects) == [("unknown", f"{PLACE.prefix}/notes.txt")]


def test_a_missing_or_broken_registration(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50)])
    objects.delete(registration_key(PLACE, 1))
    assert kinds(objects) == [("registration", PLACE.prefix)]
    objects.put_if_absent(registration_key(PLACE, 1), b"{")
    assert kinds(objects) == [("registration", PLACE.prefix)]


def test_a_broken_registration_of_a_log_that_archived_nothing(objects: Objects) -> None:
    objects.put_if_absent(registration_key(PLACE, 1), b"{")
    assert kinds(objects) == [("registration", PLACE.prefix)]


@pytest.mark.parametrize(
    ("span", "found", "says"),
    [
        (Span(1, 50), table(rows(1, 50)), "not sorted"),
        (Span(1, 49), sorted_rows(table(rows(1, 50))), "outside the range"),
        (Span(1, 60), sorted_rows(table(rows(1, 50))), "50 rows for a range of 60"),
    ],
)
def test_rows_that_break_the_promises_of_the_name(objects: Objects, span: Span, found, says: str) -> None:
    registry.register(objects, PLACE, LOG)
    key = put_encoded(objects, span, found)
    report = verify(objects)
    assert [(finding.kind, finding.key) for finding in report.findings] == [("damaged", key)]
    assert says in report.findings[0].text


def test_verify_changes_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 50), (71, 100)])
    put(objects, PLACE, 20, 60)
    before = [(item, objects.read(item.key)) for item in objects.list("")]
    verify(objects)
    assert [(item, objects.read(item.key)) for item in objects.list("")] == before


def test_statistics_that_are_not_those_of_the_rows(objects: Objects) -> None:
    (stored,) = fill(objects, PLACE, [(1, 50)])
    whole = objects.read(stored.key)
    at = whole.rindex(b"key-004")
    objects.delete(stored.key)
    objects.put_if_absent(stored.key, seal_object(whole[:at] + b"key-003" + whole[at + 7 :]))
    (finding,) = verify(objects).findings
    assert (finding.kind, finding.key) == ("damaged", stored.key)
    assert "statistics of key" in finding.text


def test_no_flipped_bit_of_a_footer_is_silent_or_fatal(objects: Objects) -> None:
    """Parsers trust a footer: what it says of types and statistics must be checked before one sees it."""
    (stored,) = fill(objects, PLACE, [(1, 50)])
    whole = objects.read(stored.key)
    begin = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for at in range(begin, len(whole), 7):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        objects.delete(stored.key)
        objects.put_if_absent(stored.key, bytes(flipped))
        assert kinds(objects) == [("damaged", stored.key)], at
