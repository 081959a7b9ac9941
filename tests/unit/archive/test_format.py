"""docs/format/archive.md is the format: its tables, names and worked example are what the code does. And imports stay light."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from kvwal_archive.bases.check import verify_bases
from kvwal_archive.bases.record import Base, BasePosition, Part
from kvwal_archive.layout import (
    NAME_LENGTH,
    BaseName,
    EventsName,
    LostTail,
    Place,
    Span,
    object_key,
    parse_base_key,
    parse_claim_file_key,
    parse_events_key,
    parse_lost_tail_key,
    parse_object_key,
    parse_registration_key,
)
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.chunks import chunk_crcs
from kvwal_archive.parquet.key_filter import filter_crcs
from kvwal_archive.parquet.object_file import Seals
from kvwal_archive.parquet.rows import FORMAT, Footer, schema
from kvwal_archive.reader import live_objects, read_rows
from kvwal_archive.registry import Registration, owner
from kvwal_archive.verify import verify
from kvwal_archive.view import history, latest, latest_parts
from kvwal_archive.writer import encode
from tests.support.archive.history import from_table, rows, table

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGE = (ROOT / "docs" / "format" / "archive.md").read_text()
GOLDEN = open_objects(str(ROOT / "tests" / "golden" / "archive-1"))
GOLDEN_BASE = open_objects(str(ROOT / "tests" / "golden" / "archive-3"))
GOLDEN_CHUNKS = open_objects(str(ROOT / "tests" / "golden" / "archive-2"))
GOLDEN_FILTERS = open_objects(str(ROOT / "tests" / "golden" / "archive-4"))
PLACE = Place("spark", "local", "jobs", "node-1")


def section(title: str) -> str:
    return re.split(r"^## ", PAGE.split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def cells(text: str) -> list[list[str]]:
    """The body of the first table in a text, without backticks."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def fields(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """The fields of a record and their types; one that earlier versions did not write is `or absent`."""
    types = {name: str(annotation) for name, annotation in kind.__annotations__.items()}
    return [(name, text.replace("| msgspec.UnsetType", "or absent")) for name, text in types.items()]


def blocks(text: str, language: str) -> list[str]:
    return [block.strip() for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


def test_the_columns() -> None:
    assert [(row[0], row[1]) for row in cells(section("Rows"))] == [(f.name, str(f.type)) for f in schema()]


def test_the_record_in_the_footer() -> None:
    assert [(row[0], row[1]) for row in cells(section("The record in the footer"))] == fields(Footer)


def test_the_registration() -> None:
    assert [(row[0], row[1]) for row in cells(section("Registrations"))] == fields(Registration)


def test_the_commit_of_a_base() -> None:
    assert [(row[0], row[1]) for row in cells(section("Bases"))] == fields(Base)
    for kind in (BasePosition, Part):
        assert all(f"`{name}`" in section("Bases") for name, _ in fields(kind))


def test_the_golden_base_is_still_read() -> None:
    (part,) = latest_parts(GOLDEN_BASE, *PLACE[:3])
    assert (part.infos, part.after.sequence, len(part.base)) == ([], 5, 1)
    assert [row.value for row in from_table(latest(GOLDEN_BASE, *PLACE[:3]))] == [b"4"]
    assert verify_bases(GOLDEN_BASE, *PLACE[:3]) == (1, 1, [])


def test_the_names() -> None:
    keys = [row[0] for row in cells(section("Names"))]
    assert [parse_object_key(key) for key in keys[:2]] == [
        (PLACE, Span(1, 250)),
        (PLACE, Span(1, 250, 115816896921600000)),
    ]
    times = 115816896921600000, 115816896987136000
    assert parse_events_key(keys.pop(2)) == EventsName(PLACE, *times, "6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d")
    assert [parse_registration_key(key) for key in keys[2:4]] == [(PLACE, 1), (PLACE, 2)]
    assert parse_lost_tail_key(keys[4]) == LostTail(PLACE, 250, 115816896921600000, 115816896987136000)
    (base,) = map(parse_base_key, keys[5:6])
    assert base == (BaseName(*PLACE[:3], 115816896921862144, "6f1c2a9e4b7d4c0f8e5a3d2b1c0f9e8d"), None)
    assert list(map(parse_claim_file_key, keys[6:])) == [(*PLACE[:3], "5eed5eed5eed5eed5eed5eed5eed5eed")]
    assert f"1 to {NAME_LENGTH} characters" in section("Names")


def test_the_format_number() -> None:
    assert PAGE.startswith(f"# The archive: format {FORMAT}\n")
    assert all(
        row[2].startswith(str(FORMAT))
        for name in ("The record in the footer", "Registrations", "Bases")
        for row in cells(section(name))[:1]
    )


def test_the_worked_example_is_the_golden_object() -> None:
    text = section("A worked example")
    (info,) = live_objects(GOLDEN, PLACE)
    record, registration = blocks(text, "json")
    assert blocks(text, "")[0] == info.key == object_key(PLACE, Span(1, 5))
    assert info.footer == msgspec.json.decode(record, type=Footer)
    assert info.footer.encode().decode() == record
    assert owner(GOLDEN, PLACE) == msgspec.json.decode(registration, type=Registration)
    assert [list(shown(line).values()) for line in read_rows(GOLDEN, info).to_pylist()] == cells(text)


def shown(line: dict[str, Any]) -> dict[str, str]:
    """A row as the page shows it."""
    text = {name: value.decode() if isinstance(value, bytes) else str(value) for name, value in line.items()}
    text["deleted"] = text["deleted"].lower()
    order = ("key_class", "key", "value", "value_class", "deleted", "timestamp", "expires", "sequence")
    return {name: text[name] for name in order}


@pytest.mark.parametrize(
    "golden",
    [GOLDEN, GOLDEN_CHUNKS, GOLDEN_BASE, GOLDEN_FILTERS],
    ids=["archive-1", "archive-2", "archive-3", "archive-4"],
)
def test_the_golden_archives_are_still_read(golden: Objects) -> None:
    assert verify(golden, PLACE) == (1, 5, [])
    assert [row.value for row in from_table(latest(golden, "spark", "local", "jobs"))] == [b"4"]
    (then,) = from_table(latest(golden, "spark", "local", "jobs", at=1767225600002 << 16 | 0xFFFF))
    assert (then.deleted, then.sequence) == (True, 3)
    versions = history(golden, "spark", "local", "jobs", key_class="str", key=b"K").column("sequence").to_pylist()
    assert versions == [5, 4, 3, 2, 1]


def test_only_the_later_golden_archive_has_checksums_of_chunks() -> None:
    (earlier,), (later,) = live_objects(GOLDEN, PLACE), live_objects(GOLDEN_CHUNKS, PLACE)
    assert earlier.footer.chunk_crcs is msgspec.UNSET
    assert isinstance(later.footer.chunk_crcs, str)
    assert (
        later.footer.chunk_crcs
        == chunk_crcs(
            io.BytesIO(GOLDEN_CHUNKS.read(later.key)), pq.read_metadata(io.BytesIO(GOLDEN_CHUNKS.read(later.key)))
        ).decode()
    )


def test_only_the_latest_golden_archive_has_filters() -> None:
    (earlier,), (later,) = live_objects(GOLDEN_CHUNKS, PLACE), live_objects(GOLDEN_FILTERS, PLACE)
    assert earlier.footer.filter_crcs is msgspec.UNSET
    data = GOLDEN_FILTERS.read(later.key)
    assert later.footer.filter_crcs == filter_crcs(io.BytesIO(data), pq.read_metadata(io.BytesIO(data))).decode()


def test_the_page_tells_the_order_of_rows() -> None:
    (info,) = live_objects(GOLDEN, PLACE)
    found = read_rows(GOLDEN, info).to_pylist()
    assert all((a["timestamp"], a["sequence"]) > (b["timestamp"], b["sequence"]) for a, b in pairwise(found))


def test_encoding_is_deterministic() -> None:
    found = table(rows(1, 50)).sort_by([("key", "ascending"), ("timestamp", "descending")])
    assert encode(PLACE, Span(1, 50), found, Seals("x", 0, [1])) == encode(
        PLACE, Span(1, 50), found, Seals("x", 0, [1])
    )


@pytest.mark.parametrize(
    "module",
    [
        "layout",
        "objects",
        "registry",
        "bases.local",
        "spark",
        "writer",
        "reader",
        "view",
        "maintenance.compaction",
        "verify",
        "restore",
    ],
)
def test_importing_is_light(module: str) -> None:
    heavy = "{'pyarrow', 'duckdb', 'fsspec', 's3fs', 'tenacity'}"
    program = f"import sys, kvwal_archive.{module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
