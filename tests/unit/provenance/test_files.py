"""The files of events: after a kill or a power cut at any step of a checkpoint no event is lost, and none is there twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvwal.config import Settings
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.history.provenance import write
from kvwal.history.provenance.files import event_files
from kvwal.history.provenance.reader import LogEvents
from kvwal.history.provenance.write import tidy_events, write_events
from kvwal.key_class import EVENTS
from kvwal.log.appender import Appender
from kvwal.log.checkpoint import checkpoint
from kvwal.log.files.format import WITH_QUEUES
from kvwal.log.files.names import EVENT_FILES, log_folder
from kvwal.log.files.snapshot_reader import open_snapshot
from kvwal.log.reader import entry_decoder, log_files
from kvwal.structures.provenance.query import question
from kvwal.structures.provenance.record import CREATE, Record, entries_of
from kvwal.structures.provenance.state import ProvenanceOptions
from tests.support.disk.cuts import cuts
from tests.support.disk.faults import FakeClock
from tests.support.disk.power import MemoryDisk
from tests.support.log.logs import PLACE, header

ROOT = Path("/disk")
FOLDER = log_folder(ROOT, PLACE)
ALL = ProvenanceOptions(on=True, keep_seconds=None, keep_bytes=None)


class Log:
    """A log of one create after the other, and its checkpoints."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.clock = FakeClock()
        disk.make_folders(FOLDER)
        head = header()
        head.format = WITH_QUEUES
        self.appender = Appender(disk, self.clock, FOLDER, head, Settings(), [])
        self.keys: list[str] = []

    def put(self, count: int) -> None:
        """Put this number of keys, each in a transaction, and seal the segment."""
        for _ in range(count):
            number = len(self.keys) + 1
            self.keys.append(f"k{number}")
            timestamp = self.clock.wall_ms() + number << 16
            entry = Entry(self.keys[-1].encode(), "str", b"value", "str", False, timestamp)
            events = entries_of([Record(CREATE, True, [], [entry])], timestamp, "n")
            self.appender.append([encode_entries([entry, *events])], 1 + len(events), sync=True, format=WITH_QUEUES)
        self.appender.rotate()

    def checkpoint(self, disk: MemoryDisk | None = None, options: ProvenanceOptions = ALL) -> None:
        """What the archiver does for a checkpoint."""
        disk = disk or self.disk
        segments, decode = list(self.appender.sealed), entry_decoder()
        write_events(disk, self.clock, FOLDER, segments, decode)
        checkpoint(disk, self.clock, FOLDER, segments, decode, leaves_out=EVENTS)
        tidy_events(disk, self.clock, FOLDER, options)

    def found(self, disk: MemoryDisk | None = None) -> list[str]:
        """The keys of all events that a reader finds, oldest first."""
        events = LogEvents(disk or self.disk, ROOT, lambda: [PLACE]).search(question())
        return [event.key for event in events][::-1]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """A log with two files of events and a sealed segment that has none yet. Three files are merged."""
    monkeypatch.setattr(write, "MERGED_FILES", 3)
    made = Log(MemoryDisk())
    for count in (3, 2):
        made.put(count)
        made.checkpoint()
    assert len(event_files(made.disk, FOLDER)) == 2
    made.put(4)
    return made


class Killed(BaseException):
    """The program was killed."""


def killed_at_each_step(log: Log, call: Callable[[MemoryDisk], None]) -> Iterator[MemoryDisk]:
    """The disk after a kill at each change of it that the call makes, and last the disk after the whole call."""
    start = cuts(log.disk, random.Random(0))[0][-1]  # what programs see
    for last in range(1, 1_000):
        disk = MemoryDisk(start)
        left = last

        def watch(disk: MemoryDisk = disk) -> None:
            nonlocal left
            left -= 1
            if not left:
                disk.dead = True
                raise Killed

        disk.watch = watch
        try:
            call(disk)
        except Killed:
            disk.dead, disk.watch = False, lambda: None
            yield disk
            continue
        yield disk
        return


def test_a_kill_at_any_step_of_a_checkpoint_loses_no_event_and_makes_none_twice(log: Log) -> None:
    states = 0
    for disk in killed_at_each_step(log, log.checkpoint):
        assert log.found(disk) == log.keys
        log.checkpoint(disk)
        assert log.found(disk) == log.keys
        assert [tuple(file) for file in event_files(disk, FOLDER)] == [(1, 18)]
        assert sorted(disk.names(FOLDER / EVENT_FILES)) == sorted(
            [event_files(disk, FOLDER)[0].events, event_files(disk, FOLDER)[0].terms]
        )
        states += 1
    assert states > 20


def test_a_power_cut_at_any_step_of_a_checkpoint_loses_no_event_and_makes_none_twice(log: Log) -> None:
    chance, states = random.Random(0), 0
    for disk in killed_at_each_step(log, log.checkpoint):
        images = cuts(disk, chance)[0]
        for image in images[:: 1 + len(images) // 4]:
            left = MemoryDisk(image)
            assert log.found(left) == log.keys
            log.checkpoint(left)
            assert log.found(left) == log.keys
            states += 1
    assert states > 60


def test_a_snapshot_has_no_event(log: Log) -> None:
    log.checkpoint()
    snapshot = open_snapshot(log.disk, FOLDER, log_files(log.disk, FOLDER)[1])
    assert snapshot is not None
    entries = [entry for block in snapshot.whole(entry_decoder()) for entry in block]
    assert {entry.key.decode() for entry in entries} == set(log.keys)
    assert {entry.key_class for entry in entries} == {"str"}


def test_files_are_dropped_whole_by_age(log: Log) -> None:
    log.checkpoint()
    log.clock.ms += 100_000
    log.put(1)
    log.checkpoint(options=ProvenanceOptions(on=True, keep_seconds=50, keep_bytes=None))
    assert log.found() == log.keys[-1:]
    log.checkpoint()
    assert log.found() == log.keys[-1:]


def test_files_are_dropped_whole_by_size(log: Log) -> None:
    target = FOLDER / EVENT_FILES
    newest = event_files(log.disk, FOLDER)[-1]
    size = log.disk.size(target / newest.events) + log.disk.size(target / newest.terms)
    log.checkpoint(options=ProvenanceOptions(on=True, keep_seconds=None, keep_bytes=size * 2))
    assert log.found() == log.keys[-4:]


def test_a_damaged_file_is_named_by_a_search_and_stops_no_checkpoint(log: Log) -> None:
    path = FOLDER / EVENT_FILES / event_files(log.disk, FOLDER)[0].events
    size = log.disk.size(path)
    file = log.disk.open(path)
    file.write_at(0, [bytes(size)])
    file.datasync()
    log.checkpoint()
    with pytest.raises(CorruptLog, match=path.name):
        log.found()
    log.disk.unlink(path)
    assert log.found() == log.keys[3:]


def test_terms_that_are_missing_are_made_again(log: Log) -> None:
    for file in event_files(log.disk, FOLDER):
        log.disk.unlink(FOLDER / EVENT_FILES / file.terms)
    source = LogEvents(log.disk, ROOT, lambda: [PLACE])
    assert [event.key for event in source.search(question(identity=("str", b"k2")))] == ["k2"]
