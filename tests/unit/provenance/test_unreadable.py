"""Events that cannot be decoded, and damaged files of events: nothing fails for them, none is lost, and all are told of."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

import kvwal
from kvwal.entry import Entry, encode_entries
from kvwal.history.provenance.files import aside_files, event_files
from kvwal.history.provenance.tables import entries_of_events
from kvwal.key_class import EVENTS
from kvwal.log.files.format import WITH_QUEUES
from kvwal.log.files.names import EVENT_FILES, log_folder
from kvwal.log.reader import entry_decoder
from kvwal.ports.disk import OS_DISK
from kvwal.structures.provenance.event import events_of
from kvwal.structures.provenance.record import CREATE, EventKey, Record, entries_of
from kvwal_archive.layout import Place
from tests.support.cli import kvwal as command
from tests.support.disk.power import MemoryDisk
from tests.unit.provenance.test_files import FOLDER, Log, killed_at_each_step

WRONG = [b"", b"\xc1", b"\x91\x01", msgspec.msgpack.encode([["create", False, [], []]]), b"\x93\x01\x02\x03"]


def put_wrong(log: Log, value: bytes, key: bytes | None = None) -> Entry:
    """Put an entry of events that no decoder takes, and seal the segment."""
    timestamp = log.clock.wall_ms() + len(log.keys) + 1 << 16 | 7
    wrong = Entry(
        EventKey(timestamp, 0, "n").to_bytes() if key is None else key, EVENTS, value, "msgpack", False, timestamp
    )
    log.appender.append([encode_entries([wrong])], 1, sync=True, format=WITH_QUEUES)
    log.appender.rotate()
    return wrong


def set_aside(disk: MemoryDisk) -> list[tuple[bytes, bytes]]:
    """Keys and values in all files that were set aside."""
    files = aside_files(disk.names(FOLDER / EVENT_FILES))
    return [
        (entry.key, entry.value)
        for file in files
        for entry in entry_decoder()(disk.read(FOLDER / EVENT_FILES / file.aside))
    ]


@pytest.mark.parametrize("value", WRONG)
def test_an_event_that_cannot_be_decoded_is_set_aside_and_told_of(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(MemoryDisk())
    log.put(2)
    wrong = put_wrong(log, value)
    log.put(2)
    assert log.found() == log.keys  # from the segments
    assert "cannot be decoded and is left out" in caplog.text
    with caplog.at_level(logging.WARNING):
        log.checkpoint()
    assert log.found() == log.keys
    assert set_aside(log.disk) == [(wrong.key, wrong.value)]
    assert "were set aside" in caplog.text
    log.put(1)
    log.checkpoint()
    assert log.found() == log.keys
    assert set_aside(log.disk) == [(wrong.key, wrong.value)]


def test_a_key_that_cannot_be_decoded_is_set_aside() -> None:
    log = Log(MemoryDisk())
    put_wrong(log, b"\x90", b"short")
    log.checkpoint()
    assert event_files(log.disk, FOLDER) == []
    assert set_aside(log.disk) == [(b"short", b"\x90")]


def test_a_kill_at_any_step_keeps_what_is_set_aside() -> None:
    log = Log(MemoryDisk())
    log.put(2)
    wrong = put_wrong(log, b"\xc1")
    for disk in killed_at_each_step(log, log.checkpoint):
        log.checkpoint(disk)
        assert log.found(disk) == log.keys
        assert set_aside(disk) == [(wrong.key, wrong.value)]


def test_the_entries_of_events_are_those_that_were_logged() -> None:
    chance = random.Random(0)
    for number in range(20):
        items = [Entry(b"k%d" % each, "str", chance.randbytes(9), "bytes", False, 7) for each in range(3)]
        records = [Record(CREATE, True, [], items), Record("fork", False, items[:1], items[1:], "c", {"a": "b"})]
        logged = entries_of(records, number + 1, "n")
        again = list(entries_of_events(event for entry in logged for event in events_of(entry)))
        assert [entry.key for entry in again] == [entry.key for entry in logged]
        read = [[event for entry in entries for event in events_of(entry)] for entries in (logged, again)]
        assert read[0] == read[1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A store with two files of events, and events in a segment."""
    with kvwal.open(tmp_path / "data", archive=None) as store:
        store.provenance("work")
        for part in range(3):
            for number in range(3):
                store.map("work")[f"k{number}"] = {"part": part}
            if part < 2:
                store.checkpoint()
    return tmp_path / "data"


def folder_of(root: Path) -> Path:
    return log_folder(root, Place("default", "local", "work", "local"))


def hurt(root: Path) -> None:
    """Damage the snapshot, so that the log needs a repair."""
    snapshot = max(folder_of(root).glob("*.snapshot"))
    data = bytearray(snapshot.read_bytes())
    data[len(data) // 2] ^= 1
    snapshot.write_bytes(data)


def repaired(root: Path, into: Path) -> str:
    """What a repair says, which writes a new root."""
    hurt(root)
    ran = command("log", "repair", root, "--into", into, "--archive", "none")
    assert into.exists(), ran.out + ran.err
    return ran.out + ran.err


def places(root: Path) -> list[Any]:
    with kvwal.open(root, read_only=True) as store:
        return [event.place for event in store.provenance("work").events(limit=None)]


def test_a_repaired_log_has_its_events(root: Path, tmp_path: Path) -> None:
    before = places(root)
    repaired(root, tmp_path / "new")
    assert places(tmp_path / "new") == before
    with kvwal.open(tmp_path / "new", archive=None) as store:
        store.provenance("work").set_options(keep_bytes=None)
        store.map("work")["k9"] = {"part": 9}
        store.checkpoint()
        assert len(store.provenance("work").events(limit=None)) == len(before) + 1


def test_a_damaged_file_of_events_is_told_and_the_others_are_repaired(root: Path, tmp_path: Path) -> None:
    before = places(root)
    file, *_ = event_files(OS_DISK, folder_of(root))
    path = folder_of(root) / EVENT_FILES / file.events
    path.write_bytes(bytes(path.stat().st_size))
    with kvwal.open(root, archive=None) as store:  # it opens, and takes writes and checkpoints
        store.map("work")["k0"] = {"part": 4}
        store.checkpoint()
    for asked in (("log", "verify", root), ("doctor", root)):
        ran = command(*asked)
        assert ran.code != 0
        assert file.events in ran.out + ran.err
    assert file.events in repaired(root, tmp_path / "new")
    assert set(before) - set(places(tmp_path / "new")) == set(before[-3:])


def test_what_was_set_aside_is_in_backups_and_repaired_logs(root: Path, tmp_path: Path) -> None:
    wrong = Entry(EventKey(7, 0, "local").to_bytes(), EVENTS, b"\xc1", "msgpack", False, 7)
    (folder_of(root) / EVENT_FILES / f"{1:020d}-{2:020d}.aside").write_bytes(encode_entries([wrong]))
    assert "could not be decoded" in command("doctor", root).out
    assert "could not be decoded" in command("log", "verify", root).out
    ran = command("backup", root, tmp_path / "copy")
    assert ran.code == 0, ran.err
    assert aside_files(OS_DISK.names(folder_of(tmp_path / "copy") / EVENT_FILES))
    repaired(root, tmp_path / "new")
    with kvwal.open(tmp_path / "new", archive=None) as store:
        store.checkpoint()
    assert aside_files(OS_DISK.names(folder_of(tmp_path / "new") / EVENT_FILES))
