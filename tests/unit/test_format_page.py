"""docs/format/segment.md and snapshot.md are the format: their tables and worked examples are what the code does, and what the
golden files hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwal.entry import DataEntry, Entry, encode_entries
from kvwal.log.format import (
    ALIGNMENT,
    DURABLE,
    FORMAT,
    HEAD_BYTES,
    MAX_PAYLOAD,
    Block,
    Header,
    Kind,
    Seal,
    SnapshotHeader,
    checksum,
    decode_seal,
    pack_block,
    pack_header,
    pack_seal,
    unpack_block,
    unpack_header,
    unpack_snapshot_header,
)
from kvwal.log.names import FileKind, parse_name
from kvwal.log.reader import entry_decoder

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {name: (ROOT / "docs" / "format" / f"{name}.md").read_text() for name in ("segment", "snapshot")}
GOLDEN = {
    "segment": (ROOT / "tests" / "golden" / "segment-1.wal").read_bytes(),
    "snapshot": (ROOT / "tests" / "golden" / "snapshot-1.snapshot").read_bytes(),
}
BOTH = pytest.mark.parametrize("page", PAGES)


def section(page: str, title: str) -> str:
    return re.split(r"^## ", PAGES[page].split(f"## {title}\n")[1], flags=re.MULTILINE)[0]


def tables(text: str) -> list[list[list[str]]]:
    """The bodies of the tables of a text, without backticks and links."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
        for table in found
    ]


def fields(*kinds: type[msgspec.Struct]) -> list[tuple[str, str]]:
    return [(name, str(annotation)) for kind in kinds for name, annotation in kind.__annotations__.items()]


def named(table: list[list[str]]) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in table]


def header_of(page: str) -> Header:
    unpacked = unpack_header(GOLDEN[page]) if page == "segment" else unpack_snapshot_header(GOLDEN[page])
    assert unpacked is not None
    return unpacked[0]


def blocks(page: str) -> Iterator[Block]:
    """Every block of the golden file, by hand: the salt is 0 for the first one."""
    offset, salt = 0, 0
    while (block := unpack_block(GOLDEN[page], offset, salt)) is not None:
        yield block
        offset, salt = block.end, header_of(page).salt
    assert offset == len(GOLDEN[page])


def entries(page: str) -> list[Entry]:
    decode = entry_decoder()
    return [entry for block in blocks(page) if block.kind is Kind.ENTRIES for entry in decode(block.payload)]


def test_the_names() -> None:
    kinds = [parse_name(row[0]) for row in tables(PAGES["segment"])[0]]
    assert [(file.kind, file.number) for file in kinds] == [
        (FileKind.SEGMENT, 1), (FileKind.SNAPSHOT, 7), (FileKind.PARTIAL, 0), (FileKind.TORN, 0), (FileKind.LOCK, 0)
    ]  # fmt: skip


def test_the_head_of_a_block() -> None:
    layout, _, _ = tables(section("segment", "Blocks"))
    assert f"at most {MAX_PAYLOAD}" in layout[0][3]
    assert layout[-1][:2] == [str(HEAD_BYTES), "length"]
    assert f"multiple of {ALIGNMENT}" in section("segment", "Blocks")
    written, crc = pack_block(Kind.ENTRIES, b"payload", salt=7, offset=16, flags=DURABLE)
    values = {"length": 7, "crc": crc, "kind": Kind.ENTRIES, "flags": DURABLE, "reserved": 0}
    head = b"".join(written)[:HEAD_BYTES]
    for offset, size, field, _ in layout[:-1]:
        at = int(offset)
        assert int.from_bytes(head[at : at + int(size)], "little") == values[field]


def test_the_kinds_and_the_flags() -> None:
    _, kinds, flags = tables(section("segment", "Blocks"))
    assert [(int(row[0]), row[1]) for row in kinds[1:]] == [(kind.value, kind.name.lower()) for kind in Kind]
    assert kinds[0][0] == "0"
    assert unpack_block(bytes(100), 0, 0) is None
    assert [row[:2] for row in flags] == [[str(DURABLE), "durable"]]


def test_what_the_crc_is_taken_over() -> None:
    """The order that the page tells, put together by hand."""
    head = bytes(range(12))
    told = (7).to_bytes(4, "little") + (16).to_bytes(8, "little") + head[0:4] + head[8:12] + b"payload"
    assert checksum(7, 16, head, b"payload") == crc32c(told)


def crc32c(data: bytes) -> int:
    """CRC-32C by the book, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_maps() -> None:
    assert named(tables(section("segment", "Header"))[0]) == fields(Header)
    assert named(tables(section("snapshot", "Header"))[0]) == fields(SnapshotHeader)
    assert named(tables(section("segment", "Seal"))[0]) == fields(Seal)
    assert named(tables(section("segment", "Entries"))[0]) == fields(DataEntry)


@BOTH
def test_the_format_number(page: str) -> None:
    assert PAGES[page].startswith(f"# The {page}: format {FORMAT}\n")
    assert tables(section("segment", "Header"))[0][0][2].startswith(f"{FORMAT};")


@BOTH
def test_the_worked_example_is_the_golden_file(page: str) -> None:
    (dump,) = re.findall(r"^```\n(.*?)^```", section(page, "A worked example"), re.MULTILINE | re.DOTALL)
    shown = b"".join(bytes.fromhex(line[6:54]) for line in dump.splitlines())
    assert shown == GOLDEN[page]


@BOTH
def test_the_blocks_of_the_worked_example(page: str) -> None:
    described = tables(section(page, "A worked example"))[0]
    found = [
        [str(b.offset), str(len(b.payload)), f"{b.crc:#010x}", b.kind.name.lower(), str(b.flags)] for b in blocks(page)
    ]
    assert [row[:5] for row in described] == found
    counted = [int(row[5].split()[0]) for row in described if row[3] == "entries"]
    assert sum(counted) == len(entries(page))


@BOTH
def test_the_entries_of_the_worked_example(page: str) -> None:
    rows = tables(section(page, "A worked example"))[1]
    if page == "segment":
        assert [row.pop(0) for row in rows] == [str(number) for number in range(1, len(rows) + 1)]
    assert [shown(entry) for entry in entries(page)] == rows


def shown(entry: Entry) -> list[str]:
    """An entry as the pages show it."""
    value = entry.value.decode() if entry.value_class == "json" else entry.value.hex()
    deleted, expires = str(entry.deleted).lower(), str(entry.expires or "")
    return [entry.key_class, entry.key.decode(), value, entry.value_class, deleted, str(entry.timestamp), expires]


@BOTH
def test_written_anew_the_golden_file_is_the_same(page: str) -> None:
    """What format 1 says today is what it said when the file was made."""
    header, decode = header_of(page), entry_decoder()
    data = b"".join(pack_header(header))
    for block in blocks(page):
        parts: Any = []
        if block.kind is Kind.ENTRIES:
            payload = encode_entries(decode(block.payload))
            parts = pack_block(Kind.ENTRIES, payload, salt=header.salt, offset=len(data), flags=block.flags)[0]
        elif block.kind is Kind.SEAL:
            parts = pack_seal(decode_seal(block.payload), salt=header.salt)[0]
        data += b"".join(parts)
    assert data == GOLDEN[page]


def test_the_snapshot_goes_on_where_the_segment_ends() -> None:
    header, last = header_of("snapshot"), list(blocks("segment"))[-1]
    assert isinstance(header, SnapshotHeader)
    assert (header.last_crc, header.last_sequence) == (last.crc, decode_seal(last.payload).last_sequence)
    assert header.last_timestamp == max(entry.timestamp for entry in entries("segment"))
