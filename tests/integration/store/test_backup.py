"""A backup of a live store: each log whole at one moment, while writers, checkpoints, archiving and rotations go on."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

import kvwal
from kvwal import aio
from kvwal.errors import ConfigError, CorruptLog, StorageFull
from kvwal.history.restore.backup import backup
from kvwal.log.files.format import Header, SnapshotHeader
from kvwal.log.files.names import log_folder
from kvwal.log.files.retired import retire
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OsDisk, Space
from kvwal_archive.layout import Place
from tests.support.archive.archiver import business
from tests.support.cli import kvwal as run
from tests.support.disk.faults import FakeDisk
from tests.support.log.logs import recovered

SETTINGS = kvwal.Settings(segment_bytes=64 << 10, reserve_bytes=0, checkpoint_bytes=100_000, archive_seconds=0.5)
THREADS = 3
KEYS = 40
Q = Place("default", "local", "q", "local")


class OtherDisk(OsDisk):
    """Links are not possible, as between two disks."""

    def link(self, old: Path, new: Path) -> None:
        raise OSError(18, "Invalid cross-device link", str(old))


class Writers:
    """Threads that put the next number under all their keys at once; `told` has the last that each was told."""

    def __init__(self, store: kvwal.Store) -> None:
        self.told = [0] * THREADS
        self._maps = [store.map("b" if n else "other") for n in range(THREADS)]
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(THREADS)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _write(self, n: int) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            self._maps[n].put_many({f"{n}-{key}": [number, "x" * 100] for key in range(KEYS)})
            self.told[n] = number


def check(folder: Path, least: list[int]) -> None:
    """A backup opens as a store: each thread's transaction is whole, and not older than what it was told before."""
    with kvwal.open(folder, archive=None) as found:
        for n in range(THREADS):
            values = found.map("b" if n else "other")
            numbers = {values[f"{n}-{key}"][0] for key in range(KEYS)} if least[n] or f"{n}-0" in values else {0}
            assert len(numbers) == 1, "half a transaction"
            assert numbers.pop() >= least[n]
        found.map("b")["goes on"] = True


@pytest.mark.long
@pytest.mark.parametrize("disk", [OsDisk(), OtherDisk()], ids=["links", "copies"])
def test_backups_under_load(disk: OsDisk, tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=tmp_path / "archive", settings=SETTINGS) as store, Writers(store) as writers:
        least = []
        for turn in range(3):
            store.checkpoint() if turn % 2 else store.archive()
            least.append(list(writers.told))
            report = backup(disk, root, tmp_path / f"backup-{turn}")
            assert report.logs == 2
            assert not (report.linked and isinstance(disk, OtherDisk))
            assert report.copied >= 2
    for turn, told in enumerate(least):
        check(tmp_path / f"backup-{turn}", told)
    with kvwal.open(root, archive=None) as store:
        assert store.map("b")["1-0"][0] >= writers.told[1], "the store is not changed by writes to its backups"
        assert "goes on" not in store.map("b")


def test_a_backup_has_exactly_what_the_store_has(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("b").put_many({f"k{n}": n for n in range(50)})
        store.checkpoint()
        del store.map("b")["k7"]
        store.map("c")["of another node"] = 0
        store.backup(tmp_path / "backup")
        store.map("b")["later"] = 1
        with kvwal.open(tmp_path / "backup", archive=None, read_only=True) as found:
            assert dict(found.map("b")) == {f"k{n}": n for n in range(50) if n != 7}
            assert dict(found.map("c")) == {"of another node": 0}
            assert found.map("b").history("k7")[0].deleted
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "root"], "no unfinished folder is left"
    with kvwal.open(tmp_path / "root", read_only=True, archive=None) as closed:
        closed.backup(tmp_path / "again")
    with kvwal.open(tmp_path / "again", archive=None) as found:
        assert found.map("b")["later"] == 1


def test_a_backup_of_an_asynchronous_store(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open(tmp_path / "root", archive=None) as store:
            await store.map("b").put("a", 1)
            await store.backup(tmp_path / "backup")

    asyncio.run(main())
    with kvwal.open(tmp_path / "backup", archive=None) as found:
        assert dict(found.map("b")) == {"a": 1}


def test_what_a_backup_refuses(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        store.map("b")["a"] = 1
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "note").touch()
        (tmp_path / "empty").mkdir()
        with pytest.raises(ConfigError, match="not empty"):
            store.backup(tmp_path / "full")
        with pytest.raises(ConfigError, match="is inside"):
            store.backup(root / "backup")
        with pytest.raises(ConfigError, match="no such folder"):
            backup(OsDisk(), tmp_path / "missing", tmp_path / "new")
        store.backup(tmp_path / "empty")
    (segment,) = log_folder(root, Place("default", "local", "b", "local")).glob("*.wal")
    data = bytearray(segment.read_bytes())
    data[20] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptLog):
        backup(OsDisk(), root, tmp_path / "new")
    assert not (tmp_path / "new").exists()


class Meanwhile(OsDisk):
    """A disk on which something happens once, when the n-th file is linked."""

    def __init__(self, nth: int, meanwhile: Callable[[], object]) -> None:
        self._left = nth
        self._meanwhile = meanwhile

    def link(self, old: Path, new: Path) -> None:
        self._left -= 1
        if not self._left:
            self._meanwhile()
        super().link(old, new)


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_two_backups_to_one_folder_at_once(nth: int, tmp_path: Path) -> None:
    """The one that ends first has the folder, whole, and the other one is refused. Neither deletes what the other one builds."""
    root, folder = tmp_path / "root", tmp_path / "backup"
    with kvwal.open(root, archive=None) as store:
        for name in "abcd":
            store.map(name)["a"] = name
        store.checkpoint()
        with pytest.raises(ConfigError, match="is there already, and not empty"):
            backup(Meanwhile(nth, lambda: backup(OsDisk(), root, folder)), root, folder)
        with pytest.raises(ZeroDivisionError):
            backup(Meanwhile(nth, lambda: fails_beside(root, tmp_path / "second")), root, tmp_path / "second")
    with kvwal.open(folder, archive=None) as found:
        assert {name: dict(found.map(name)) for name in found.businesses()} == {name: {"a": name} for name in "abcd"}
    assert sorted(os.listdir(tmp_path)) == ["backup", "root"], "neither left its unfinished folder"


def fails_beside(root: Path, folder: Path) -> None:
    """Another backup begins while one is under way, and fails; then the first fails, too."""
    with pytest.raises(ZeroDivisionError):
        backup(Meanwhile(2, lambda: 1 // 0), root, folder)
    assert len(list(folder.parent.glob(".second.*.backup"))) == 1, "the first one's folder is still there"
    raise ZeroDivisionError


class NoLinks(FakeDisk):
    """Links are refused on the store's own disk, as those to files of another user are."""

    def link(self, old: Path, new: Path) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(old))


def test_a_backup_by_copies_leaves_the_reserve_of_the_disk(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store:
        store.map("b")["a"] = os.urandom(1 << 20)
        store.checkpoint()
    disk = NoLinks()
    disk.room = Space(100 << 20, (5 << 20) + 1000)
    with pytest.raises(
        StorageFull, match=r"copies of 1,0\d\d,\d{3} bytes are needed, and 1,000 are free.*nothing was written"
    ):
        backup(disk, root, tmp_path / "backup")
    assert "write_at" not in disk.calls
    assert os.listdir(tmp_path) == ["root"]
    disk.room = Space(100 << 20, 10 << 20)
    disk.fail("datasync")
    with pytest.raises(ConfigError, match="cannot be written"):
        backup(disk, root, tmp_path / "backup")
    assert os.listdir(tmp_path) == ["root"], "what an error leaves would keep files that the store drops"
    backup(disk, root, tmp_path / "backup")


def retire_q(root: Path) -> None:
    """The map q was destroyed: of its log only the end is kept."""
    found = recovered(log_folder(root, Q))[0]
    end = SnapshotHeader(
        **{name: getattr(found.header, name) for name in Header.__struct_fields__} | {"first_sequence": 1},
        last_sequence=found.next_sequence - 1, last_crc=found.previous_crc, last_timestamp=found.last_timestamp,
    )  # fmt: skip
    retire(OsDisk(), SYSTEM, root, Q, end, lambda: None)


def bring_q_back(root: Path) -> None:
    with kvwal.open(root, archive=None) as store:
        store.map("q")["again"] = 1


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("meanwhile", [bring_q_back, retire_q])
def test_a_map_that_goes_or_comes_back_meanwhile(meanwhile: Callable[[Path], None], nth: int, tmp_path: Path) -> None:
    """The copy has the log or its end: a log that is begun anew in its place would be refused by the archive."""
    root, folder = tmp_path / "root", tmp_path / "backup"
    with kvwal.open(root, archive=None) as store:
        store.map("q")["a"] = 1
        for number in range(2):
            store.map("b")["a"] = number
            store.checkpoint()
    was = recovered(log_folder(root, Q))[0]
    if meanwhile is bring_q_back:
        retire_q(root)
    backup(Meanwhile(nth, lambda: meanwhile(root)), root, folder)
    with kvwal.open(folder, archive=None) as found:
        assert dict(found.map("b")) == {"a": 1}
        found.map("q")["of the copy"] = 1
    copied = recovered(log_folder(folder, Q))[0]
    assert copied.header is not None
    assert was.header is not None
    assert copied.header.log_id == was.header.log_id
    assert copied.next_sequence > was.next_sequence


KILLED = """
import os, signal, sys
from pathlib import Path
from kvwal.history.restore.backup import backup
from kvwal.ports.disk import OsDisk
class Dying(OsDisk):
    left = int(sys.argv[3])
    def step(self):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGKILL)
    def link(self, old, new):
        self.step(); super().link(old, new)
    def rename(self, old, new):
        self.step(); super().rename(old, new)
    def sync_folder(self, folder):
        self.step(); super().sync_folder(folder)
backup(Dying(), Path(sys.argv[1]), sys.argv[2])
"""


def test_a_backup_that_is_killed_anywhere_is_no_backup_and_runs_again(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "backup"
    with kvwal.open(root, archive=None, settings=SETTINGS) as store:
        for n in range(3):
            store.map("b")["a"] = n
            store.checkpoint()
        store.map("b")["b"] = 1
        kills, code = 1, -signal.SIGKILL
        while code == -signal.SIGKILL:
            kills += 3
            code = subprocess.run(
                [sys.executable, "-c", KILLED, str(root), str(folder), str(kills)], check=False
            ).returncode
            if code == -signal.SIGKILL and folder.exists():
                break  # killed after the rename: it is whole
    assert kills > 5
    with kvwal.open(folder, archive=None) as found:
        assert dict(found.map("b")) == {"a": 2, "b": 1}
    backup(OsDisk(), root, tmp_path / "second")
    assert os.listdir(tmp_path / "second") == ["default"]
    assert sorted(os.listdir(tmp_path)) == ["backup", "root", "second"], (
        "what was left by those that were killed is gone"
    )


def test_a_backup_that_archives_where_its_original_goes_on_is_refused(tmp_path: Path) -> None:
    """It is the same log to the archive: one of both archives on, and the other one says so and keeps its entries."""
    archive = tmp_path / "archive"
    with kvwal.open(tmp_path / "root", archive=archive) as store:
        store.map("b")["a"] = 1
        store.archive()
        store.backup(tmp_path / "backup")
        store.map("b")["original"] = 1
        store.archive()
        with kvwal.open(tmp_path / "backup", archive=archive) as copy:
            copy.map("b")["backup"] = 1
            with pytest.raises(kvwal.KvwalError):
                copy.archive()
            assert business(copy)["archive_error"]
            copy.close(archive=False)
    kvwal.restore(archive, tmp_path / "restored")
    with kvwal.open(tmp_path / "restored") as found:
        assert dict(found.map("b")) == {"a": 1, "original": 1}


def test_the_answer_of_the_command_counts_in_words(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("notes")["a"] = 1
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("notes")["a"] = 2
    one = tmp_path / "one"
    assert run("backup", str(tmp_path / "root"), str(one)).out == f"{one}: 1 log; 1 file is linked, 1 copied.\n"
    with kvwal.open(tmp_path / "root", archive=None) as store:
        store.map("notes")["a"] = 3
    two = tmp_path / "two"
    assert run("backup", str(tmp_path / "root"), str(two)).out == f"{two}: 1 log; 2 files are linked, 1 copied.\n"
