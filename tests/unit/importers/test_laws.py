"""Laws of the readers of foreign logs: of a cut or flipped file they give nothing that was not written, and raise nothing.

SeaTunnel and NiFi have no checksums, and Flume has one of the body only: a flipped bit may give one record other values. It never
changes a second one.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvwal.importers.flume.folders import log_paths
from kvwal.importers.flume.records import FILL, PUT, event_of
from kvwal.importers.flume.records import record_at as flume_record
from kvwal.importers.nifi.cursor import Cursor
from kvwal.importers.nifi.files import journal_head, snapshot_head
from kvwal.importers.nifi.folders import repository
from kvwal.importers.nifi.schema import read_edit
from kvwal.importers.nifi.transactions import Journal, minimal_locking, sequential
from kvwal.importers.seatunnel.records import record_at as seatunnel_record
from kvwal.importers.seatunnel.values import plain_value
from kvwal.importers.source import SourceFile
from kvwal.ports.disk import OS_DISK
from tests.support.chance import new_seed
from tests.support.java.golden_logs import Found, flume, nifi, seatunnel
from tests.support.java.logs import GOLDEN, PRODUCTS

Items = set[str]
READERS: dict[str, Callable[[Path, Found], Any]] = {
    "seatunnel": lambda root, found: seatunnel(root / "cluster", found),
    "flume": flume,
    "nifi-sequential": nifi,
    "nifi-minimal": nifi,
}
SHARE = 150
"""Places for each one that is tried, where a run does not try all of them."""


def items(read: Any) -> Items:
    """What a reader gave, as texts that a set can hold."""
    if isinstance(read, dict):
        return {f"{key!r} = {value!r}" for (_, key), value in read.items()}
    return {f"{each['body']!r} = {each['headers']!r}" for each in read}


def seatunnel_items(root: Path) -> Iterator[str]:
    for path in root.rglob("wal.txt"):
        file, offset = SourceFile(OS_DISK, path), 0
        while offset < file.size:
            record = seatunnel_record(file, offset)
            if not record.deleted:
                key = plain_value(record.key, record.key_class)
                yield f"{key!r} = {plain_value(record.value, record.value_class)!r}"
            offset = record.end


def flume_items(root: Path) -> Iterator[str]:
    for log in log_paths(OS_DISK, root):
        file, offset = SourceFile(OS_DISK, log.path), 0
        while offset < file.size and file.read(offset, 1)[0] != FILL:
            record = flume_record(file, offset)
            if record.kind == PUT:
                event = event_of(record.about)
                yield f"{base64.b64encode(event.body).decode()!r} = {event.headers!r}"
            offset = record.end


def nifi_items(root: Path) -> Iterator[str]:
    files = repository(OS_DISK, root)
    assert files.snapshot is not None
    yield from items(nifi(root, Found()))
    snapshot = SourceFile(OS_DISK, files.snapshot)
    head = snapshot_head(snapshot)
    cursor = Cursor(snapshot, head.end)
    for _ in range(head.records):
        assert cursor.take(1) == b"\x01"
        edit = read_edit(cursor, head.schema)
        yield f"{edit.record!r} = {edit.values!r}"
    for path in (path for partition in files.journals for path in partition):
        file = SourceFile(OS_DISK, path)
        journal = Journal(file, 0, journal_head(file), lambda path, schema: pytest.fail("there is no overflow file"))
        for transaction in (sequential if files.sequential else minimal_locking)(journal, Found()):
            for placed in transaction.edits:
                edit = read_edit(Cursor(file, placed.offset + 1), journal.head.schema)
                yield f"{edit.record!r} = {edit.values!r}"


WRITTEN: dict[str, Callable[[Path], Iterator[str]]] = {
    "seatunnel": seatunnel_items,
    "flume": flume_items,
    "nifi-sequential": nifi_items,
    "nifi-minimal": nifi_items,
}


def files_of(root: Path) -> list[Path]:
    """The files with records of a golden log."""
    paths = [path for path in root.rglob("*") if path.is_file() and path.stat().st_size]
    return sorted(path for path in paths if path.suffix not in (".jsonl", ".meta", ".md"))


def head_bytes(log: str, path: Path) -> int:
    """Bytes of a file's head. Those of NiFi have the schema of all records: a flip there may rename a field of each."""
    if not log.startswith("nifi"):
        return 0
    file = SourceFile(OS_DISK, path)
    return journal_head(file).end if path.suffix == ".journal" else snapshot_head(file).end


def places(size: int, whole: bool) -> range:
    return range(size) if whole else range(random.Random(new_seed()).randrange(SHARE), size, SHARE)


@pytest.fixture(params=PRODUCTS)
def log(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.loop
def test_every_prefix_of_every_file_gives_whole_records_only(log: str, tmp_path: Path, whole: bool) -> None:
    root = Path(shutil.copytree(GOLDEN / log, tmp_path / "log"))
    written = set(WRITTEN[log](GOLDEN / log))
    assert items(READERS[log](root, Found())) <= written
    for path in files_of(root):
        data = path.read_bytes()
        for size in places(len(data), whole):
            path.write_bytes(data[:size])
            assert items(READERS[log](root, Found())) <= written, (path, size)
        path.write_bytes(data)


@pytest.mark.loop
def test_a_flipped_bit_changes_one_record_at_most(log: str, tmp_path: Path, whole: bool) -> None:
    root = Path(shutil.copytree(GOLDEN / log, tmp_path / "log"))
    written = set(WRITTEN[log](GOLDEN / log))
    bodies = {item.partition(" = ")[0] for item in written}
    chance = random.Random(new_seed())
    reported = tried = 0
    for path in files_of(root):
        data = path.read_bytes()
        head = head_bytes(log, path)
        for at in places(len(data), whole):
            flipped = bytearray(data)
            flipped[at] ^= 1 << chance.randrange(8)
            path.write_bytes(flipped)
            found = Found()
            given = items(READERS[log](root, found))
            tried, reported = tried + 1, reported + bool(found.damaged_places)
            if at >= head:
                assert len(given - written) <= 1, (path, at)
            if log == "flume":
                assert {item.partition(" = ")[0] for item in given} <= bodies, (path, at)
        path.write_bytes(data)
    assert reported > tried / 10, "most flips of lengths, tags and texts are seen"


@pytest.mark.loop
def test_a_byte_of_zeros_or_of_noise_anywhere_raises_nothing(log: str, tmp_path: Path, whole: bool) -> None:
    """A page of zeros, and a page of noise: what disks leave."""
    root = Path(shutil.copytree(GOLDEN / log, tmp_path / "log"))
    written = set(WRITTEN[log](GOLDEN / log))
    chance = random.Random(new_seed())
    for path in files_of(root):
        data = path.read_bytes()
        head = head_bytes(log, path)
        for at in places(len(data), whole)[::8]:
            for page in (bytes(200), chance.randbytes(200)):
                path.write_bytes(data[:at] + page + data[at + len(page) :])
                given = items(READERS[log](root, Found()))
                assert at < head or len(given - written) <= 2, (path, at)
        path.write_bytes(data)
