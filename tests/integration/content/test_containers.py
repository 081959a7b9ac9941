"""Containers: further folders for contents, side by side, found wherever they are; one that fails, is full, or is missing."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.config import Settings
from kvwal.content.claim import claim_of
from kvwal.content.containers.homes import AVOIDED_SECONDS
from kvwal.content.containers.record import RECORD, recorded
from kvwal.content.folder import all_claim_files, home_of
from kvwal.errors import ConfigError, ContentDamaged, ContentMissing, StorageFull
from kvwal.log.files.names import log_folder
from kvwal.ports.disk import OS_DISK, File, Space
from kvwal.store.sync import WritableStore
from kvwal_archive.layout import Place
from tests.support.cli import kvwal as command
from tests.support.disk.faults import FakeClock, FakeDisk, make_options, open_store
from tests.support.disk.lives import OnDisk
from tests.support.disk.power import Cut, MemoryDisk

PLACE = Place("default", "local", "files", "local")
LARGE = bytes(range(256)) * (20 << 10)
"""5 MiB: a content with a claim file of its own."""


class OneFailing(FakeDisk):
    """A disk on which new files below a folder cannot be made, or have no room."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: Path | None = None
        self.full_folder: Path | None = None

    def create(self, path: Path) -> File:
        if self.failing is not None and path.is_relative_to(self.failing):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().create(path)

    def space(self, folder: Path) -> Space:
        found = super().space(folder)
        return Space(found.capacity, 0) if self.full_folder is not None and folder == self.full_folder else found


class Archiver:
    """The archiver without its process."""

    def __init__(self, disk: FakeDisk) -> None:
        self._disk = disk

    def ask(self, line: bytes) -> bytes:
        return encode(answer(decode_job(line), self._disk))

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def containers(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "disk-2", tmp_path / "disk-3"
    for folder in folders:
        folder.mkdir()
    return folders


@pytest.fixture
def disk() -> OneFailing:
    return OneFailing()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, containers: tuple[Path, Path], disk: OneFailing, clock: FakeClock) -> Iterator[WritableStore]:
    with open_store(
        tmp_path / "root", disk, clock, settings=settings_of(*containers), start_archiver=lambda: Archiver(disk)
    ) as store:
        yield store


def settings_of(*folders: Path, **given: Any) -> Settings:
    return Settings(content_folders=tuple(map(str, folders)), **given)


def folder_of(root: Path) -> Path:
    return log_folder(root, PLACE)


def put_in_each(contents: kvwal.Contents, root: Path, homes: int = 3) -> dict[str, bytes]:
    """Contents, until each folder has a shared claim file and a large content."""
    put: dict[str, bytes] = {}

    def put_one(number: int) -> None:
        data = LARGE if number % 8 == 0 else b"%d" % number
        contents.put(f"{number}", data)
        put[f"{number}"] = data

    with ThreadPoolExecutor(8) as threads:
        number = 0
        while len({home_of(file.path) for file in all_claim_files(OS_DISK, folder_of(root))}) < homes:
            list(threads.map(put_one, range(number, number + 16)))
            number += 16
            assert number < 2000, "contents are not spread"
    return put


def home_of_name(contents: kvwal.Contents, root: Path, name: str) -> Path:
    entry = contents.entry(name)
    assert entry is not None
    file = claim_of(entry).file
    return next(home_of(one.path) for one in all_claim_files(OS_DISK, folder_of(root)) if one.name == file)


def in_container(container: Path, contents: kvwal.Contents, root: Path, put: dict[str, bytes]) -> list[str]:
    return [name for name in put if home_of_name(contents, root, name).is_relative_to(container)]


def test_contents_are_spread_and_found_wherever_they_are(tmp_path: Path, containers: tuple[Path, Path]) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with kvwal.open(root, archive=archive, settings=settings_of(*containers)) as store:
        contents = store.content("files")
        put = put_in_each(contents, root)
        assert {name: contents.get(name) for name in put} == put
        store.archive()
    with kvwal.open(root, read_only=True, archive=None) as read:
        assert {name: read.content("files").get(name) for name in put} == put
    assert command("content", "verify", root, "files", "--archive", "none").code == 0
    with kvwal.open(root, archive=archive) as store:  # the setting is remembered
        contents = store.content("files")
        assert {name: contents.get(name) for name in put} == put
        store.backup(tmp_path / "copy")
        old = {file.name for file in all_claim_files(OS_DISK, folder_of(root))}
        for name in put:
            contents.delete(name)
        contents.put("last", b"last")
        for _ in range(3):
            store.archive()
            store.checkpoint()
            contents.put("last", b"something to checkpoint")
        store.archive()
        left = {file.name for file in all_claim_files(OS_DISK, folder_of(root))}
        assert not old & left, "the cleaner knows all folders"
    with kvwal.open(tmp_path / "copy", archive=None) as copy:
        assert {name: copy.content("files").get(name) for name in put} == put
        assert recorded(OS_DISK, folder_of(tmp_path / "copy")) == []
    kvwal.restore(archive, tmp_path / "restored", node="new")
    with kvwal.open(tmp_path / "restored", archive=archive) as restored:
        assert restored.content("files").get("last") == b"something to checkpoint"


@pytest.mark.parametrize("how", ["fails", "is full"])
def test_when_one_folder_cannot_take_contents_others_do(
    store: WritableStore, containers: tuple[Path, Path], disk: OneFailing, clock: FakeClock, tmp_path: Path,
    caplog: pytest.LogCaptureFixture, how: str,
) -> None:  # fmt: skip
    contents = store.content("files")
    put = put_in_each(contents, tmp_path / "root")
    store._engine.businesses["files"].contents.files.seal()  # what is open already could be written
    if how == "fails":
        disk.failing = containers[0]
    else:
        disk.full_folder = containers[0]
    with caplog.at_level(logging.WARNING, "kvwal"), ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: contents.put(f"new/{number}", LARGE[: number << 19]), range(24)))
    assert {len(contents.get(f"new/{number}")) for number in range(24)} == {
        min(number << 19, len(LARGE)) for number in range(24)
    }
    told = [record for record in caplog.records if "a folder for contents fails" in record.getMessage()]
    assert 1 <= len(told) <= 8, "once for each time at which it failed, and not for each content"
    new = dict.fromkeys((f"new/{number}" for number in range(1, 24)), b"")
    assert in_container(containers[0], contents, tmp_path / "root", new) == []
    assert {name: contents.get(name) for name in put} == put
    disk.failing = disk.full_folder = None
    clock.seconds += AVOIDED_SECONDS
    again = put_in_each(contents, tmp_path / "root")
    assert {name: contents.get(name) for name in again} == again


def test_when_no_folder_can_take_contents_the_put_is_refused(store: WritableStore, disk: OneFailing) -> None:
    contents = store.content("files")
    contents.put("before", b"before")
    disk.full = True
    with pytest.raises(StorageFull):
        contents.put("large", LARGE)
    disk.full = False
    contents.put("after", LARGE)
    assert (contents.get("before"), contents.get("after")) == (b"before", LARGE)


@pytest.mark.breaks("contents", reason="a folder with bytes of contents is away")
def test_a_container_that_is_missing_is_told_when_the_store_is_opened(
    tmp_path: Path, containers: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None, settings=settings_of(*containers)) as store:
        contents = store.content("files")
        put = put_in_each(contents, root)
        lost = in_container(containers[0], contents, root, put)
    away = containers[0].rename(tmp_path / "unmounted")
    containers[0].mkdir()  # as an empty mount point
    for settings in (settings_of(*containers), Settings()):
        with kvwal.open(root, archive=None, settings=settings) as store:
            with pytest.raises(
                ConfigError, match=f"the container {containers[0]} has contents of this log, and is not"
            ):
                store.content("files").get("0")
            assert store.map("others").put("k", 1), "other businesses are not in its way"
    with (
        caplog.at_level(logging.WARNING, "kvwal"),
        kvwal.open(root, archive=None, settings=settings_of(containers[1])) as store,
    ):
        contents = store.content("files")
        assert {name: contents.get(name) for name in put if name not in lost} == {
            name: data for name, data in put.items() if name not in lost
        }
        with pytest.raises(ContentMissing):
            contents.get(lost[0])
        contents.put("new", LARGE)
        store.checkpoint()
    assert [record for record in caplog.records if "a folder for contents is not there" in record.getMessage()]
    containers[0].rmdir()
    away.rename(containers[0])
    with kvwal.open(root, archive=None) as store:
        assert {name: store.content("files").get(name) for name in put} == put
    with (
        kvwal.open(root, archive=None, settings=settings_of(tmp_path / "none")) as store,
        pytest.raises(ConfigError, match="is no folder"),
    ):
        store.content("files").get("0")


def test_two_stores_may_have_one_container(tmp_path: Path, containers: tuple[Path, Path]) -> None:
    roots = [tmp_path / "root", tmp_path / "other"]
    put = {}
    for root in roots:
        with kvwal.open(root, archive=None, settings=settings_of(*containers)) as store:
            put[root] = put_in_each(store.content("files"), root)
    for root in roots:
        with kvwal.open(root, archive=None, settings=settings_of(*containers)) as store:
            store.content("files").put("more", b"something to checkpoint")
            store.checkpoint()
    for root in roots:
        with kvwal.open(root, archive=None) as store:
            assert {name: store.content("files").get(name) for name in put[root]} == put[root]


def test_a_list_of_containers_that_is_damaged_is_told(tmp_path: Path, containers: tuple[Path, Path]) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None, settings=settings_of(*containers)) as store:
        put_in_each(store.content("files"), root)
    (folder_of(root) / "content" / RECORD).write_bytes(b"[")
    with kvwal.open(root, archive=None) as store, pytest.raises(ContentDamaged, match="the list of the containers"):
        store.content("files").get("0")


def test_a_container_is_on_the_list_durably_before_it_holds_a_content() -> None:
    disk, clock, container = MemoryDisk(), FakeClock(), Path("/disk-2")
    disk.make_folders(container)
    options = make_options(
        Path("/root"), disk=disk, clock=clock, settings=settings_of(container, reserve_bytes=0),  # type: ignore[arg-type]
        start_archiver=lambda: OnDisk(disk, clock),
    )  # fmt: skip
    folder = folder_of(Path("/root"))
    with WritableStore(options) as store:
        contents = store.content("files")
        contents.put("first", b"beside the log")
        store._engine.businesses["files"].contents.files._homes.failed(folder, OSError(errno.EIO, "it fails"))
        contents.put("second", b"in the container")
        assert any(path.is_relative_to(container) for path in disk.seen)
        (inside,) = recorded(disk, folder)
        record = disk.seen[folder / "content" / RECORD]
        nodes = (record, disk._folder(folder / "content"), disk._folder(inside), disk._folder(inside.parent))
        assert [choice for choice in Cut(disk).choices if choice.node in nodes] == []


@pytest.mark.parametrize("folders", [("here",), ["/a"], ("/a", "/a/"), (1,), "/a"])
def test_folders_that_make_no_sense_are_refused(folders: Any) -> None:
    with pytest.raises(ConfigError, match="content_folders"):
        Settings(content_folders=folders)


def test_a_container_inside_of_the_root_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    with (
        kvwal.open(root, archive=None, settings=settings_of(root / "inside")) as store,
        pytest.raises(ConfigError, match="lie in each other"),
    ):
        store.content("files").put("a", b"a")
