"""Questions to files of events: the answers are those of a scan of all events, and what does not match is not read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvwal
from kvwal.entry import Entry, encode_entries
from kvwal.errors import CorruptLog
from kvwal.history.provenance import tables, terms, write
from kvwal.history.provenance.files import OpenEventFile, event_files
from kvwal.history.provenance.reader import LogEvents
from kvwal.history.provenance.write import tidy_events
from kvwal.log.files.format import WITH_QUEUES
from kvwal.log.files.names import EVENT_FILES
from kvwal.scrub.event_files import event_faults
from kvwal.structures.provenance.event import Event, events_of
from kvwal.structures.provenance.query import ItemId, Question, ended_by, items_of, made_by, question
from kvwal.structures.provenance.record import CONTENT, CREATE, DROP, Record, entries_of
from kvwal.structures.provenance.state import ProvenanceOptions
from tests.support.disk.handles import LimitedReader
from tests.support.disk.power import MemoryDisk
from tests.unit.provenance.test_files import FOLDER, PLACE, ROOT, Log

FILES = FOLDER / EVENT_FILES


class CountingDisk(MemoryDisk):
    """A disk that counts the bytes that are read, by the ends of the names of files."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read: dict[str, int] = {}

    def read_part(self, path: Path, offset: int, size: int) -> bytes:
        data = super().read(path)[offset : offset + size]
        self._count(path, len(data))
        return data

    def read(self, path: Path) -> bytes:
        data = super().read(path)
        self._count(path, len(data))
        return data

    def open_to_read(self, path: Path) -> LimitedReader:
        self._count(path, self.size(path))
        return super().open_to_read(path)

    def _count(self, path: Path, size: int) -> None:
        self.bytes_read[path.suffix] = self.bytes_read.get(path.suffix, 0) + size

    def read_by(self, call: Any) -> dict[str, int]:
        """The bytes that a call reads."""
        self.bytes_read.clear()
        call()
        return dict(self.bytes_read)


class Changes(Log):
    """A log of changes of some keys of a map, and all their events."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.there: dict[str, Entry] = {}
        self.events: list[Event] = []
        self.source = LogEvents(disk, ROOT, lambda: [PLACE])

    def change(self, key: str, state: str | None, component: str = "") -> None:
        """Put a value with this state, or delete the key."""
        timestamp = self.clock.wall_ms() + len(self.events) + 1 << 16
        old = [self.there.pop(key)] if key in self.there else []
        if state is None and not old:
            return
        value = msgspec.json.encode({"state": state, "length": len(self.events)})
        entry = Entry(key.encode(), "str", b"" if state is None else value, "json", state is None, timestamp)
        new = [] if state is None else [entry]
        if new:
            self.there[key] = entry
        type = (CONTENT if new else DROP) if old else CREATE
        events = entries_of([Record(type, True, old, new, component)], timestamp, "n")
        self.appender.append([encode_entries([entry, *events])], 1 + len(events), sync=True, format=WITH_QUEUES)
        self.events += [event for each in events for event in events_of(each)]

    def close_segment(self) -> None:
        """Seal the segment, and let a checkpoint have its events."""
        self.appender.rotate()
        self.checkpoint()

    def asked(self, asked: Question) -> list[Event]:
        """The answers of a reader that stays open, which are those of a scan."""
        found = list(self.source.search(asked))
        assert found == [event for event in reversed(self.events) if asked.fits(event)]
        return found


keys = st.sampled_from(["a", "b", "c", "lake"])
states = st.sampled_from(["new", "done", "lake"])
changes = st.tuples(keys, st.none() | states, st.sampled_from(["", "split"]))


@settings(max_examples=40)
@given(st.lists(changes | st.none(), max_size=40), st.data())
def test_answers_are_those_of_a_scan_of_all_events(
    steps: list[tuple[str, str | None, str] | None], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in ((tables, "EVENT_ROWS", 4), (terms, "BLOCK_TERMS", 5), (write, "MERGED_FILES", 3)):
            patch.setattr(module, name, value)
        log = Changes(MemoryDisk())
        for step in steps:
            if step is None:
                log.close_segment()
            else:
                log.change(*step)
            log.asked(question(text="lake"))
    times = st.none() | st.sampled_from([event.timestamp for event in log.events] or [7])
    asked = st.builds(
        Question, st.none() | st.sampled_from([CREATE, CONTENT, DROP]), st.none() | st.just("split"),
        st.none() | keys.map(lambda key: ("str", key.encode())), times, times,
        st.just(()) | states.map(lambda state: (("state", state),)), st.just(()) | states.map(lambda word: (word,)),
    )  # fmt: skip
    for _ in range(8):
        log.asked(data.draw(asked))
    items = list(dict.fromkeys(item for event in log.events for item in items_of(event)))
    items.append(("str", b"nowhere", 9))
    assert log.source.made(items) == [event for item in items for event in log.events if made_by(event, item)]
    assert log.source.ended(items) == [event for item in items for event in log.events if ended_by(event, item)]


def filled(files: int, each: int) -> tuple[Changes, CountingDisk]:
    """A log with `files` files of events, of other keys and words, that are not merged; its disk."""
    disk = CountingDisk()
    log = Changes(disk)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "MERGED_FILES", 1_000)
        for file in range(files):
            for number in range(each):
                log.change(f"k{file}-{number}", f"word{file}")
            log.close_segment()
    return log, disk


def test_what_does_not_match_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terms, "BLOCK_TERMS", 16)
    for files, each in ((4, 20), (4, 200), (12, 20)):
        log, disk = filled(files, each)
        nowhere, one = question(text="nowhere"), question(text="word2", type=CREATE)
        assert len(log.asked(one)) == each
        read = disk.read_by(lambda log=log, nowhere=nowhere: log.asked(nowhere))
        assert read.pop(".terms", 0) <= files * 16 * 12
        assert ".parquet" not in read, "no file of events is opened"
        read = disk.read_by(lambda log=log, one=one: log.asked(one))
        assert read[".terms"] <= disk.size(FILES / event_files(disk, FOLDER)[2].terms) + 2 * files * 16 * 12
        assert ".parquet" not in read, "the row group is in memory still"


def test_a_question_about_a_time_that_files_have_reads_no_segment() -> None:
    log, disk = filled(3, 5)
    log.change("newest", "new")
    event, last = log.events[7], log.events[-1]
    (item,) = items_of(event)
    assert log.source.made([item]) == [event]
    for call, reads in (
        (lambda: log.source.made([item]), False),
        (lambda: log.asked(Question(before=event.timestamp)), False),
        (lambda: log.asked(Question(before=last.timestamp)), True),
        (lambda: log.asked(Question()), True),
    ):
        assert (".wal" in disk.read_by(call)) == reads


def test_many_items_cost_one_look_at_the_segments() -> None:
    log, disk = filled(2, 60)
    items: list[ItemId] = [item for event in log.events for item in items_of(event)]
    assert log.source.ended(items) == []
    one = disk.read_by(lambda: log.source.ended(items[:1]))
    assert disk.read_by(lambda: log.source.ended(items))[".wal"] == one[".wal"]


def test_a_search_goes_on_when_a_checkpoint_merges_its_files() -> None:
    log, _ = filled(5, 3)
    found: Iterator[Event] = log.source.search(question())
    first = [next(found) for _ in range(4)]
    tidy_events(log.disk, log.clock, FOLDER, ProvenanceOptions(on=True, keep_seconds=None, keep_bytes=None))
    assert len(event_files(log.disk, FOLDER)) < 5
    assert first + list(found) == log.events[::-1]


def make_older(log: Changes) -> None:
    """Replace each file of terms by one as kvwal wrote it before it had a format of its own."""
    for file in event_files(log.disk, FOLDER):
        table = OpenEventFile(log.disk, FOLDER, file).tables()[1]
        sink = io.BytesIO()
        pq.write_table(
            table, sink, compression="zstd", write_page_checksum=True, row_group_size=7, use_dictionary=[],
            column_encoding={"term": "DELTA_BINARY_PACKED", "row": "DELTA_BINARY_PACKED"},
        )  # fmt: skip
        written = log.disk.create(FILES / file.older_terms)
        written.write_at(0, [sink.getvalue()])
        written.close()
        log.disk.unlink(FILES / file.terms)
    log.source = LogEvents(log.disk, ROOT, lambda: [PLACE])


def test_older_files_of_terms_are_read_and_merged_and_dropped() -> None:
    log, disk = filled(5, 8)
    make_older(log)
    for asked in (question(text="word3"), question(type=CREATE, text="word1"), question(text="nowhere")):
        log.asked(asked)
    assert list(event_faults(disk, FOLDER, whole=True)) == []
    options = ProvenanceOptions(on=True, keep_seconds=None, keep_bytes=None)
    tidy_events(disk, log.clock, FOLDER, options)
    merged, single = event_files(disk, FOLDER)
    assert sorted(disk.names(FILES)) == sorted([merged.events, merged.terms, single.events, single.older_terms])
    for asked in (question(text="word3"), question(text="word4"), question()):
        log.asked(asked)
    size = disk.size(FILES / single.events) + disk.size(FILES / single.older_terms)
    tidy_events(disk, log.clock, FOLDER, ProvenanceOptions(on=True, keep_seconds=None, keep_bytes=size))
    assert sorted(disk.names(FILES)) == sorted([single.events, single.older_terms])


def test_terms_of_other_events_are_a_fault() -> None:
    disk = filled(2, 3)[1]
    first, second = event_files(disk, FOLDER)
    disk.rename(FILES / first.terms, FILES / second.terms)
    (fault,) = event_faults(disk, FOLDER, whole=False)
    assert fault.name == f"{EVENT_FILES}/{second.events}"


def test_a_damaged_file_of_terms_is_named() -> None:
    log, disk = filled(1, 3)
    (file,) = event_files(disk, FOLDER)
    written = disk.open(FILES / file.terms)
    written.write_at(8, [b"\xff\xfe\xfd"])
    written.close()
    with pytest.raises(CorruptLog, match=file.terms):
        log.asked(question(text="word0"))


def test_a_store_that_is_read_only_keeps_what_it_knows_of_the_files(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.provenance("work")
        store.map("work")["a"] = 1
        store.checkpoint()
    with kvwal.open(tmp_path, read_only=True) as store:
        business = store.read_business("work")
        assert [event.type for event in business.events().search(question())] == [CREATE]
        assert business.events() is business.events()
