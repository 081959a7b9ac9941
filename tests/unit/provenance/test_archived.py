"""Events in an archive: they leave the ordinary objects, are dropped whole, and none is lost or there twice after any kill."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.archiver.jobs import ArchiveTarget, Compact, Compacted
from kvwal.archiver.work import answer
from kvwal.entry import Entry
from kvwal.history.provenance.archived import ArchivedEvents
from kvwal.history.reads.entry_rows import to_table
from kvwal.key_class import EVENTS
from kvwal.structures.provenance.query import question
from kvwal.structures.provenance.record import CREATE, Record, entries_of
from kvwal.structures.provenance.state import ProvenanceOptions
from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import EventsName, Place, Span, events_key, parse_events_key
from kvwal_archive.maintenance import events as apart_events
from kvwal_archive.maintenance.compaction import gc, rewrite
from kvwal_archive.maintenance.events import Apart, groups_of, tidy_archived_events
from kvwal_archive.objects import Objects
from kvwal_archive.objects.local import LocalObjects
from kvwal_archive.objects.port import Body
from kvwal_archive.reader import list_events, live_objects, read_rows
from kvwal_archive.restore import restore_batches
from kvwal_archive.verify import verify
from kvwal_archive.writer import put_segment
from tests.support.cli import kvwal as command

PLACE = Place("default", "local", "work", "n")
WHERE = PLACE[:3]
HOUR = 3_600_000
START = 1_767_225_600_000
APART = Apart(EVENTS)


class Killed(BaseException):
    """The program was killed."""


class KilledAfter(LocalObjects):
    """Objects that raise in place of a change, as if the process were killed: `left` changes go through before."""

    def __init__(self, folder: Path, changes: int) -> None:
        super().__init__(str(folder))
        self.left = changes

    def put_if_absent(self, key: str, data: Body) -> bool:
        self._change()
        return super().put_if_absent(key, data)

    def delete(self, key: str) -> None:
        self._change()
        super().delete(key)

    def _change(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1


class Filled:
    """An archive of one create an hour after the other, in objects of some hours each."""

    def __init__(self, folder: Path, keys: Iterable[str] = ()) -> None:
        self.folder = folder
        self.objects = LocalObjects(str(folder))
        self.keys = list(keys)
        registry.register(self.objects, PLACE, "log")

    def put(self, count: int) -> None:
        """Archive this number of creates, each with its event, as one object."""
        first = 2 * len(self.keys) + 1
        entries: list[Entry] = []
        for _ in range(count):
            self.keys.append(f"k{len(self.keys):03d}")
            timestamp = START + len(self.keys) * HOUR << 16
            entry = Entry(self.keys[-1].encode(), "str", b"value", "str", False, timestamp)
            entries += [entry, *entries_of([Record(CREATE, True, [], [entry])], timestamp, "n")]
        last = first + len(entries) - 1
        put_segment(
            self.objects, PLACE, Span(first, last), to_table(list(enumerate(entries, first))),
            log_id="log", previous_crc=first - 1, seal_crcs=[last],
        )  # fmt: skip

    @property
    def now_ms(self) -> int:
        """The time of the last create."""
        return START + len(self.keys) * HOUR

    def compact(self, objects: Objects, apart: Apart = APART) -> None:
        """What the archiver does."""
        rewrite(objects, PLACE, now_ms=self.now_ms, history_ms=HOUR, apart=apart)
        gc(objects, PLACE, now_ms=1 << 45, grace_ms=0)
        tidy_archived_events(objects, PLACE, apart)

    def found(self) -> list[str]:
        """The keys of all events that a reader finds, oldest first."""
        events = list(ArchivedEvents(LocalObjects(str(self.folder)), WHERE, ["n"]).search(question()))
        assert len({event.place for event in events}) == len(events)
        return [event.key for event in events][::-1]

    def restored(self) -> int:
        """How many events a restore has."""
        batches = restore_batches(LocalObjects(str(self.folder)), *WHERE).batches
        return sum(batch.column("key_class").to_pylist().count(EVENTS) for batch in batches)

    def rows_left(self) -> int:
        """The events that are rows of ordinary objects."""
        tables = [read_rows(self.objects, info) for info in live_objects(self.objects, PLACE)]
        return sum(table.column("key_class").to_pylist().count(EVENTS) for table in tables)


@pytest.fixture
def filled(tmp_path: Path) -> Filled:
    made = Filled(tmp_path / "archive")
    for count in (3, 2, 3, 2, 4):
        made.put(count)
    return made


def test_events_leave_the_rows_and_are_found_and_restored(filled: Filled) -> None:
    assert filled.rows_left() == 14
    filled.compact(filled.objects)
    assert (
        filled.rows_left() == 2
    )  # those of the history that is kept, and the newest, which says where the object ends
    assert filled.found() == filled.keys
    assert filled.restored() == 14
    (name,) = list_events(filled.objects, PLACE)
    assert (name.first >> 16, name.last >> 16) == (START + HOUR, filled.now_ms - 2 * HOUR)
    report = verify(filled.objects)
    assert (report.findings, report.objects_checked) == ([], 2)


def test_the_history_that_is_kept_is_whole(filled: Filled) -> None:
    """A reader of changes that goes on at a sequence counts the rows after it."""
    rewrite(filled.objects, PLACE, now_ms=filled.now_ms, history_ms=100 * HOUR, apart=APART)
    assert list_events(filled.objects, PLACE) == {}
    (info,) = live_objects(filled.objects, PLACE)
    assert (info.span, info.footer.rows) == (Span(1, 28), 28)


def test_events_leave_an_object_that_is_not_worth_a_compaction_for_its_rows(tmp_path: Path) -> None:
    filled = Filled(tmp_path)
    filled.put(3)
    later = {"now_ms": filled.now_ms + 10 * HOUR, "history_ms": HOUR}
    assert rewrite(filled.objects, PLACE, **later) == []
    assert len(rewrite(filled.objects, PLACE, **later, apart=APART)) == 1
    assert filled.rows_left() == 1
    assert filled.found() == filled.keys
    assert rewrite(filled.objects, PLACE, **later, apart=APART) == []


def killed_at_each_step(made: Filled, folder: Path) -> Iterator[Filled]:
    """Copies of an archive after a kill at each change of it that a compaction makes, and last after the whole compaction."""
    for changes in range(1_000):
        shutil.copytree(made.folder, folder / str(changes))
        filled = Filled(folder / str(changes), made.keys)
        try:
            filled.compact(KilledAfter(filled.folder, changes))
        except Killed:
            yield filled
            continue
        yield filled
        return


def test_a_kill_at_any_step_of_a_compaction_loses_no_event_and_makes_none_twice(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart_events, "MERGED_OBJECTS", 2)
    filled.compact(filled.objects)
    for count in (1, 2, 1, 2):
        filled.put(count)
    states = 0
    for killed in killed_at_each_step(filled, tmp_path / "killed"):
        assert killed.found() == killed.keys
        killed.compact(killed.objects)
        assert killed.found() == killed.keys
        assert killed.restored() == len(killed.keys)
        states += 1
    assert states > 6


def test_two_processes_at_once_lose_no_event(filled: Filled) -> None:
    """One stands still before it puts its output, while the other does all, merges and removes."""
    slow, left = LocalObjects(str(filled.folder)), [True]
    put = slow.put_if_absent

    def stands_still(key: str, data: Any) -> bool:
        if parse_events_key(key) is None and left:
            left.clear()
            filled.compact(filled.objects)
        return put(key, data)

    slow.put_if_absent = stands_still  # type: ignore[method-assign]
    filled.compact(slow)
    assert filled.found() == filled.keys
    assert filled.restored() == len(filled.keys)


def test_events_are_dropped_whole_by_age(filled: Filled) -> None:
    filled.compact(filled.objects)
    for count in (3, 2, 3, 2, 4):
        filled.put(count)
    filled.compact(filled.objects, Apart(EVENTS, (START + 16 * HOUR) << 16))
    assert filled.found() == filled.keys[15:]  # of the newer rows those that are too old were not put at all
    filled.compact(filled.objects, Apart(EVENTS, (filled.now_ms + 1) << 16))
    assert filled.found() == filled.keys[-2:]
    assert filled.objects.list(f"{PLACE.prefix}/_events/") == []


def test_events_are_dropped_whole_by_size(filled: Filled) -> None:
    filled.compact(filled.objects)
    for count in (3, 2, 3, 2, 4):
        filled.put(count)
    rewrite(filled.objects, PLACE, now_ms=filled.now_ms, history_ms=HOUR, apart=APART)
    (_, old, _), (_, new, _) = list_events(filled.objects, PLACE).values()
    tidy_archived_events(filled.objects, PLACE, Apart(EVENTS, 0, old + new))
    assert filled.found() == filled.keys
    tidy_archived_events(filled.objects, PLACE, Apart(EVENTS, 0, new))
    assert filled.found() == filled.keys[12:]  # the rows that the older object kept are there still


def test_a_damaged_object_is_told_by_verify_and_stops_no_compaction(filled: Filled) -> None:
    filled.compact(filled.objects)
    ((key, size, _),) = list_events(filled.objects, PLACE).values()
    (filled.folder / key).write_bytes(bytes(size))
    for count in (3, 2, 3, 2, 4):
        filled.put(count)
    filled.compact(filled.objects)
    assert [(fault.kind, fault.key) for fault in verify(filled.objects).findings] == [("damaged", key)]
    with pytest.raises(ArchiveDamaged, match=key):
        filled.found()
    (filled.folder / key).unlink()
    assert filled.found() == filled.keys[12:]


def test_a_damaged_object_of_the_same_events_is_put_again(filled: Filled) -> None:
    copy = {path: path.read_bytes() for path in filled.folder.rglob("*.parquet")}
    filled.compact(filled.objects)
    ((key, size, _),) = list_events(filled.objects, PLACE).values()
    for path in filled.folder.rglob("*-*.parquet"):
        path.unlink()
    for path, data in copy.items():
        path.write_bytes(data)
    (filled.folder / key).parent.mkdir(exist_ok=True)
    (filled.folder / key).write_bytes(bytes(size))
    filled.compact(filled.objects)
    assert verify(filled.objects).findings == []
    assert filled.found() == filled.keys


def test_an_event_is_written_a_logarithmic_number_of_times() -> None:
    sizes: dict[EventsName, int] = {}
    written = 0
    for number in range(1_000):
        sizes[EventsName(PLACE, number, number, f"{number:032x}")] = 100_000
        for group in groups_of(sizes):
            size = sum(sizes.pop(name) for name in group)
            written += size
            first = min(name.first for name in group)
            sizes[EventsName(PLACE, first, max(name.last for name in group), f"{number:032x}")] = size
            sizes = {name: sizes[name] for name in sorted(sizes)}
    assert len(sizes) < 30
    assert written < 8 * 1_000 * 100_000


@pytest.mark.parametrize("name", [EventsName(PLACE, 0, 1 << 62, "0" * 32), EventsName(PLACE, 7, 7, "ab" * 16)])
def test_names_of_events_are_parsed_as_they_are_built(name: EventsName) -> None:
    key = events_key(name)
    assert parse_events_key(key) == name
    for other in (key[:-1], f"x/{key}", key.replace("_events", "_base"), key.replace("/_events", "")):
        assert parse_events_key(other) is None


def test_a_store_keeps_its_events_apart_and_answers_from_its_archive(tmp_path: Path) -> None:
    root, archive = tmp_path / "data", tmp_path / "archive"
    with kvwal.open(root, archive=archive) as store:
        store.provenance("work")
        work = store.map("work")
        for number in range(5):
            work[f"k{number}"] = {"state": "NEW", "number": number}
            work[f"k{number}"] = {"state": "DONE", "number": number}
            store.archive()
        node = store.node or ""
    keep = ProvenanceOptions(on=True)
    target = ArchiveTarget(str(archive), Place(*WHERE, node), "")
    assert isinstance(answer(Compact(target, str(root), 0, 0, keep=keep)), Compacted)
    assert list_events(LocalObjects(str(archive)), target.place)
    for asked in (["search", "--text", "done"], ["search", "--key", "k3"], ["lineage", "k3"], ["search", "-n", "3"]):
        verb, *options = asked
        arguments = (options[0], *options[1:]) if verb == "lineage" else tuple(options)
        here = command("provenance", verb, root, "work", *arguments, "--json")
        there = command("provenance", verb, archive, "work", *arguments, "--json")
        assert (here.code, there.code) == (0, 0), there.err
        assert here.out == there.out != ""
    kvwal.restore(archive, tmp_path / "restored", node="again")
    with kvwal.open(tmp_path / "restored", read_only=True) as store:
        assert len(store.provenance("work").events(limit=None)) == 10
    ran = command("provenance", "search", archive, "other")
    assert (ran.code, "other" in ran.err) == (2, True)
