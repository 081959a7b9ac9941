"""Claim files that only history names: how long they stay beside the log, and what goes when the disk has no room for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.archiver.jobs import Checkpoint, decode_job, encode
from kvwal.archiver.kept_contents import KEPT_FILE, kept_files
from kvwal.archiver.work import answer
from kvwal.config import Settings
from kvwal.content.claim import claim_of
from kvwal.content.folder import claim_files
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import Space
from kvwal.store.sync import WritableStore
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from tests.support.disk.faults import FakeClock, FakeDisk, open_store

PLACE = Place("default", "local", "files", "local")
LARGE = bytes(range(256)) * (20 << 10)
"""5 MiB: a content with a claim file of its own."""
DAY_MS = 86_400_000
CAPACITY = 1 << 40
Opened = Callable[..., WritableStore]


class Archiver:
    """The archiver without its process, with the disk and the clock of the test."""

    checkpoint_ms = 0
    """How long a checkpoint takes."""

    def __init__(self, disk: FakeDisk, clock: FakeClock) -> None:
        self._disk = disk
        self._clock = clock

    def ask(self, line: bytes) -> bytes:
        job = decode_job(line)
        if isinstance(job, Checkpoint):
            self._clock.ms += self.checkpoint_ms
        return encode(answer(job, self._disk, self._clock))

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def disk() -> FakeDisk:
    made = FakeDisk()
    made.room = Space(CAPACITY, CAPACITY)
    return made


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(tmp_path: Path, disk: FakeDisk, clock: FakeClock) -> Iterator[Opened]:
    stores: list[WritableStore] = []

    def open_it(*, seconds: float = 3 * 86400, percent: int = 50, archive: str | None = None) -> WritableStore:
        stores.append(
            open_store(
                tmp_path / "root", disk, clock, start_archiver=lambda: Archiver(disk, clock), archive=archive,
                settings=Settings(content_keep_seconds=seconds, content_keep_percent=percent, reserve_bytes=0),
            )
        )  # fmt: skip
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return log_folder(tmp_path / "root", PLACE)


def local_files(disk: FakeDisk, folder: Path) -> set[str]:
    return {file.name for file in claim_files(disk, folder)}


def file_of(contents: kvwal.Contents, name: str = "report") -> str:
    entry = contents.entry(name)
    assert entry is not None
    return claim_of(entry).file


def replaced(store: WritableStore, clock: FakeClock, times: int) -> list[str]:
    """The claim files of a content that was replaced this number of times, an hour after the other, the oldest first."""
    contents = store.content("files")
    files = []
    for number in range(times + 1):
        contents.put("report", bytes([number]) + LARGE)
        files.append(file_of(contents))
        checkpoint(store, times=2)
        clock.ms += DAY_MS // 24
    return files[:-1]


def checkpoint(store: WritableStore, *, times: int = 1) -> None:
    """Checkpoints after a change each. After two the segments are gone, too."""
    for _ in range(times):
        store.content("files").put("other", b"something to checkpoint")
        if store._engine.options.archive_url is not None:
            store.archive()
        store.checkpoint()


def test_what_was_replaced_stays_for_the_time_that_was_set_and_is_replayed_without_an_archive(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened()
    provenance = store.provenance("files")
    (old,) = replaced(store, clock, 1)
    dropped = next(event for event in provenance.events("report", of="content") if event.type == "create")
    clock.ms += 2 * DAY_MS
    checkpoint(store)
    assert old in local_files(disk, folder)
    provenance.replay(dropped)
    assert store.content("files").get("report") == b"\0" + LARGE
    clock.ms += DAY_MS
    checkpoint(store)
    assert old not in local_files(disk, folder)
    with pytest.raises(kvwal.ContentGone, match="content_keep_seconds"):
        provenance.replay(dropped)


def test_time_goes_on_while_the_store_is_closed_and_idle(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened()
    (old,) = replaced(store, clock, 1)
    store.close()
    clock.ms += 3 * DAY_MS
    store = opened()
    maintenance = store._run(lambda: store._engine.business("files")).maintenance
    clock.seconds += 61  # nothing is written any more: no checkpoint begins a cleaning
    store._run(maintenance.tick)
    store.close()
    assert old not in local_files(disk, folder)
    assert not (folder / "content" / KEPT_FILE).exists()


def test_what_grows_too_old_during_a_checkpoint_goes_with_the_next_one(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That checkpoint listed no files, because nothing was to be done when it began."""
    store = opened()
    (old,) = replaced(store, clock, 1)
    clock.ms += 2 * DAY_MS
    checkpoint(store, times=3)
    monkeypatch.setattr(Archiver, "checkpoint_ms", DAY_MS)
    for name in ("during", "after"):
        assert old in local_files(disk, folder), name
        store.map("files")[name] = "changes no content"
        store.checkpoint()
    assert old not in local_files(disk, folder)


def test_without_the_setting_what_was_kept_goes_with_the_next_checkpoint(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened()
    (old,) = replaced(store, clock, 1)
    assert old in kept_files(disk, folder)
    store.close()
    store = opened(seconds=0)
    checkpoint(store)
    assert old not in local_files(disk, folder)


def test_for_lack_of_room_the_oldest_go_first_and_never_a_live_one(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened()
    first, second, third = replaced(store, clock, 3)
    live = file_of(store.content("files"))
    disk.room = Space(CAPACITY, CAPACITY // 2 - len(LARGE) - 1000)
    with caplog.at_level(logging.WARNING, "kvwal"):
        checkpoint(store)
    there = local_files(disk, folder)
    assert (first in there, second in there, third in there) == (False, False, True)
    (told,) = [vars(record)["kvwal"] for record in caplog.records if "no room for them" in record.getMessage()]
    assert told["bytes"] >= 2 * len(LARGE) + 2
    assert told["not_archived"] == told["files"]
    disk.room = Space(CAPACITY, 0)
    checkpoint(store)
    assert third not in local_files(disk, folder)
    assert live in local_files(disk, folder)
    assert store.content("files").get("report") == b"\3" + LARGE


def test_for_lack_of_room_those_go_first_that_the_archive_holds(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path, tmp_path: Path
) -> None:
    store = opened(archive=str(tmp_path / "archive"))
    older, newer = replaced(store, clock, 2)
    moment = int(clock.ms)
    objects = open_objects(str(tmp_path / "archive"))
    objects.delete(next(item.key for item in objects.list("") if item.key.endswith(older)))
    disk.room = Space(CAPACITY, CAPACITY // 2 - 1000)  # more than the small files have
    checkpoint(store)
    there = local_files(disk, folder)
    assert (older in there, newer in there) == (True, False)
    then = next(entry for entry in store.content("files").history("report") if claim_of(entry).file == newer)
    assert then.timestamp >> 16 < moment
    assert store.content("files").at(then.timestamp).get("report") == b"\1" + LARGE, "the archive has it"


def test_a_full_disk_frees_what_only_history_names(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened(percent=100)
    (old,) = replaced(store, clock, 1)
    maintenance = store._engine.businesses["files"].maintenance
    disk.room = Space(CAPACITY, -1)  # nothing at all is free
    store._run(maintenance._relieve)
    assert old not in local_files(disk, folder)


def test_a_content_of_the_past_that_is_nowhere_is_told_plainly(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path, tmp_path: Path
) -> None:
    store = opened(seconds=0, archive=str(tmp_path / "archive"))
    (old,) = replaced(store, clock, 1)
    objects = open_objects(str(tmp_path / "archive"))
    objects.delete(next(item.key for item in objects.list("") if item.key.endswith(old)))
    contents = store.content("files")
    then = next(entry.timestamp for entry in contents.history("report") if claim_of(entry).file == old)
    with pytest.raises(
        kvwal.ContentMissing, match=r"files/content: 'report': its bytes of that time are neither"
    ) as told:
        contents.at(then).get("report")
    assert "content_keep_seconds" in str(told.value)
    assert "Open the store with the archive that has it" in str(told.value)
    store.close()
    with (
        kvwal.open(tmp_path / "root", archive=tmp_path / "archive", read_only=True) as read,
        pytest.raises(kvwal.ContentMissing, match="content_keep_seconds"),
    ):
        read.content("files").at(then).get("report")


def test_a_note_that_is_lost_or_damaged_only_makes_files_stay_longer(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened()
    (old,) = replaced(store, clock, 1)
    (folder / "content" / KEPT_FILE).write_bytes(b"{")
    clock.ms += 3 * DAY_MS
    checkpoint(store)
    assert old in local_files(disk, folder)
    assert kept_files(disk, folder)[old] == clock.ms
    clock.ms += 3 * DAY_MS
    checkpoint(store)
    assert old not in local_files(disk, folder)


def test_a_clock_that_was_ahead_does_not_make_files_stay_longer_than_the_time_from_now(
    opened: Opened, disk: FakeDisk, clock: FakeClock, folder: Path
) -> None:
    store = opened()
    clock.ms += 400 * DAY_MS
    (old,) = replaced(store, clock, 1)
    clock.ms -= 400 * DAY_MS
    checkpoint(store)
    clock.ms += 3 * DAY_MS
    checkpoint(store)
    assert old not in local_files(disk, folder)


@pytest.mark.parametrize(
    "given", [{"content_keep_seconds": -1}, {"content_keep_seconds": True}, {"content_keep_percent": 0},
              {"content_keep_percent": 0.5}, {"content_keep_percent": 101}]
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(kvwal.ConfigError, match=next(iter(given))):
        Settings(**given)
