"""docs/format/segment.md and snapshot.md are the format: their tables and the worked example are what the code does, and what
the golden log holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import google_crc32c
import msgspec
import pytest

from kvwal.content.folder import claim_path
from kvwal.entry import DataEntry, encode_entries, make_entry
from kvwal.log.files.format import (
    ALIGNMENT,
    COMPRESSED,
    DURABLE,
    FORMAT,
    HEAD_BYTES,
    MAX_PAYLOAD,
    NEWEST,
    WITH_CONTENT,
    WITH_LARGE_VALUES,
    WITH_QUEUES,
    Block,
    BlockKind,
    Header,
    OverflowReference,
    Seal,
    SnapshotHeader,
    checksum,
    decode_overflow,
    decode_seal,
    pack_block,
    pack_header,
    pack_seal,
    unpack_block,
    unpack_header,
    unpack_snapshot_header,
)
from kvwal.log.files.names import (
    CONTENT_FOLDER,
    OVERFLOW,
    FileKind,
    overflow_name,
    overflow_number,
    parse_name,
    segment_name,
    snapshot_name,
)
from kvwal.log.reader import entry_decoder

ROOT = Path(__file__).resolve().parent.parent.parent.parent
PAGES = {name: (ROOT / "docs" / "format" / f"{name}.md").read_text() for name in ("segment", "snapshot")}
GOLDEN = ROOT / "tests" / "golden" / "log-1"
DELTAS = GOLDEN.parent / "log-2"
LARGE = GOLDEN.parent / "log-4"
QUEUES = GOLDEN.parent / "log-5"
CONTENTS = GOLDEN.parent / "log-6"
DATA = (GOLDEN / segment_name(1)).read_bytes()
EXAMPLE = "A worked example"


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
    """Names and types. A field that may be absent has the type that it has where it is there."""
    annotations = [pair for kind in kinds for pair in kind.__annotations__.items()]
    return [(name, str(annotation).removesuffix(" | msgspec.UnsetType")) for name, annotation in annotations]


def named(table: list[list[str]]) -> list[tuple[str, str]]:
    return [(row[0], row[1]) for row in table]


def blocks(data: bytes) -> Iterator[Block]:
    """Every block of a file, by hand: the salt is 0 for the first one."""
    unpacked = unpack_header(data)
    assert unpacked is not None
    offset, salt = 0, 0
    while (block := unpack_block(data, offset, salt)) is not None:
        yield block
        offset, salt = block.end, unpacked[0].salt
    assert offset == len(data)


def shown(block: Block) -> str:
    """A payload as the page shows it."""
    if block.kind is BlockKind.ENTRIES:
        return f"{len(entry_decoder()(block.payload))} entries"
    return msgspec.json.encode(msgspec.msgpack.decode(block.payload)).decode()


def test_the_names() -> None:
    names = re.findall(r"^    (\S+)  ", section("segment", "Names"), re.MULTILINE)
    folder, name = names[-1].split("/", 1)
    assert (folder, claim_path(Path(), name[3:])) == (CONTENT_FOLDER, Path(names.pop()))
    folder, name = names.pop().split("/")
    assert (folder, overflow_number(name), overflow_name(2)) == (OVERFLOW, 2, name)
    found = [parse_name(name) for name in names]
    assert [(file.kind, file.number) for file in found] == [
        (FileKind.LOCK, 0), (FileKind.FAILURES, 0), (FileKind.SEGMENT, 1), (FileKind.SNAPSHOT, 5), (FileKind.SNAPSHOT, 9),
        (FileKind.PARTIAL, 0), (FileKind.PARTIAL, 0), (FileKind.TORN, 0),
    ]  # fmt: skip
    assert [(file.number, file.first) for file in found if file.kind is FileKind.SNAPSHOT] == [(5, 1), (9, 6)]
    assert [snapshot_name(file.number, file.first) for file in found if file.kind is FileKind.SNAPSHOT] == names[3:5]
    for other in (f"{1:020}-{5:020}.snapshot", f"{6:020}-{5:020}.snapshot", f"{6:020}-{9:020}.wal"):
        assert parse_name(other).kind is FileKind.OTHER


def test_the_head_of_a_block() -> None:
    layout = tables(section("segment", "Block"))[0]
    assert f"at most {MAX_PAYLOAD}" in layout[0][3]
    assert layout[-1][:3] == [str(HEAD_BYTES), "length", "payload"]
    assert f"multiple of {ALIGNMENT}" in section("segment", "Block")
    written, crc = pack_block(BlockKind.ENTRIES, b"payload", salt=7, offset=16, flags=DURABLE)
    values = {"length": 7, "crc": crc, "kind": BlockKind.ENTRIES, "flags": DURABLE, "reserved": 0}
    head = b"".join(written)[:HEAD_BYTES]
    for at, size, field, _ in layout[:-1]:
        assert int.from_bytes(head[int(at) : int(at) + int(size)], "little") == values[field]


def test_the_kinds_and_the_flags() -> None:
    _, kinds, flags = tables(section("segment", "Block"))
    assert [(int(row[0]), row[1]) for row in kinds[1:]] == [(kind.value, kind.name.lower()) for kind in BlockKind]
    assert kinds[0][0] == "0"
    assert unpack_block(bytes(100), 0, 0) is None
    assert [row[:2] for row in flags] == [[str(DURABLE), "durable"], [str(COMPRESSED), "compressed"]]
    assert f"1 to {MAX_PAYLOAD} bytes" in flags[1][2]


def test_what_the_crc_is_taken_over() -> None:
    """In the order that the page tells, put together by hand."""
    head = bytes(range(HEAD_BYTES))
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
    assert named(tables(section("segment", "Overflow"))[0]) == fields(OverflowReference)


def test_an_entry() -> None:
    rows = tables(section("segment", "Entry"))[0]
    assert named([row[1:] for row in rows]) == fields(DataEntry)
    assert [int(row[0]) for row in rows] == list(range(7))
    values = (b"k", "str", b"v", "bytes", False, 5)
    for entry in (make_entry(*values, 0), make_entry(*values, 9)):
        written = msgspec.msgpack.decode(encode_entries([entry]))
        assert written == [[*values, 9] if entry.expires else [*values]]


def test_the_format_number() -> None:
    told = f"formats {FORMAT}, {WITH_QUEUES}, {WITH_CONTENT} and {WITH_LARGE_VALUES}"
    assert all(text.startswith(f"# The {page}: {told}\n") for page, text in PAGES.items())
    assert WITH_LARGE_VALUES == NEWEST
    row = tables(section("segment", "Header"))[0][0][2]
    assert row.startswith(
        f"{FORMAT}; {WITH_QUEUES} in a file that may have entries of queues or of provenance; {WITH_CONTENT} in"
    )


def test_the_worked_example_is_the_golden_segment() -> None:
    (dump,) = re.findall(r"^```hex\n(.*?)^```", section("segment", EXAMPLE), re.MULTILINE | re.DOTALL)
    assert b"".join(bytes.fromhex(line[6:]) for line in dump.splitlines()) == DATA
    assert f"`{segment_name(1)}`, {len(DATA)} bytes" in section("segment", EXAMPLE)


def test_the_blocks_of_the_worked_example() -> None:
    found = [
        [str(b.offset), str(len(b.payload)), f"{b.crc:08x}", str(b.kind.value), str(b.flags), shown(b)]
        for b in blocks(DATA)
    ]
    assert tables(section("segment", EXAMPLE))[0] == found


@pytest.mark.parametrize("path", [p for folder in (GOLDEN, DELTAS, QUEUES, CONTENTS) for p in folder.glob("0*.*")])
def test_written_anew_a_golden_file_is_the_same(path: Path) -> None:
    """What a format says today is what it said when the file was made."""
    golden = path.read_bytes()
    unpacked = (unpack_header if path.suffix == ".wal" else unpack_snapshot_header)(golden)
    assert unpacked is not None
    header, decode = unpacked[0], entry_decoder()
    data = b"".join(pack_header(header))
    for block in list(blocks(golden))[1:-1]:
        payload = encode_entries(decode(block.payload))
        data += b"".join(
            pack_block(BlockKind.ENTRIES, payload, salt=header.salt, offset=len(data), flags=block.flags)[0]
        )
    seal = decode_seal(list(blocks(golden))[-1].payload)
    assert data + b"".join(pack_seal(seal, salt=header.salt)[0]) == golden


def test_written_anew_the_golden_overflow_file_and_its_block_are_the_same() -> None:
    golden = (LARGE / segment_name(1)).read_bytes()
    (reference,) = [decode_overflow(b.payload) for b in blocks(golden) if b.kind is BlockKind.OVERFLOW]
    data = (LARGE / OVERFLOW / reference.file).read_bytes()
    assert (len(data), google_crc32c.value(data)) == (reference.bytes, reference.crc)
    header, *entries, seal = blocks(data)
    unpacked = unpack_header(data)
    assert unpacked is not None
    assert (unpacked[0].salt, unpacked[0].first_sequence) == (reference.salt, 1)
    assert sum(len(entry_decoder()(block.payload)) for block in entries) == reference.entries
    assert [block.kind for block in (header, *entries, seal)] == [
        BlockKind.HEADER, *[BlockKind.ENTRIES] * len(entries), BlockKind.SEAL
    ]  # fmt: skip


def test_a_delta_goes_on_where_the_part_below_it_ends() -> None:
    names = [snapshot_name(3), snapshot_name(6, 4), snapshot_name(8, 7)]
    headers = [found[0] for name in names if (found := unpack_snapshot_header((DELTAS / name).read_bytes()))]
    assert [(header.first_sequence, header.last_sequence) for header in headers] == [(1, 3), (4, 6), (7, 8)]
    assert [header.previous_crc for header in headers] == [0, *(header.last_crc for header in headers[:-1])]


def test_the_snapshot_goes_on_where_the_segment_ends() -> None:
    unpacked = unpack_snapshot_header((GOLDEN / snapshot_name(5)).read_bytes())
    assert unpacked is not None
    header, last = unpacked[0], list(blocks(DATA))[-1]
    assert (header.last_crc, header.last_sequence) == (last.crc, decode_seal(last.payload).last_sequence)
    times = [e.timestamp for b in blocks(DATA) if b.kind is BlockKind.ENTRIES for e in entry_decoder()(b.payload)]
    assert header.last_timestamp == max(times)
