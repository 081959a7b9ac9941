"""The spool of a recorder into a cluster: one reader at a time, nothing left behind, and where it is by default."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kvwal
from kvwal.spark.eventlog.logs import LocalEventLog
from kvwal.spark.recording.spool import Spool, spools
from kvwal.spark.recording.target import default_spool


def test_a_spool_in_use_is_left_alone_and_goes_with_its_last_log(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "default", "three", "app-1")
    lock = spool.lock()
    assert spool.addresses() == set()
    spool.name_addresses(["b:5701", "a:5701"])
    assert spool.addresses() == {"a:5701", "b:5701"}
    with pytest.raises(kvwal.StoreLocked, match="a recorder is using this spool"):
        spool.lock()
    logs = [spool.folder / f"eventlog_v2_app-{number}" for number in (1, 2)]
    for log in logs:
        log.mkdir()
    spool.remove(LocalEventLog(logs[0]))
    assert list(spools(tmp_path)) == [spool]
    spool.remove(LocalEventLog(logs[1]))
    lock.release()
    assert not list(spools(tmp_path))
    assert not (tmp_path / "_spark").exists()
    spool.lock().release()


def test_the_spool_is_in_the_users_folder_for_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_spool({"XDG_STATE_HOME": "/state"}) == Path("/state/kvwal")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_spool({}) == tmp_path / ".local" / "state" / "kvwal"


def test_drivers_begin_and_end_side_by_side_in_one_root(tmp_path: Path) -> None:
    """One removes the empty folders above its spool while another is about to make its own in them."""

    def record(namespace: str) -> None:
        for _ in range(500):
            spool = Spool(tmp_path, namespace, "local", "app")
            spool.make()
            log = spool.folder / "eventlog_v2_app-1"
            log.mkdir()
            assert spool in list(spools(tmp_path))
            assert [found.path for found in spool.logs()] == [log]
            spool.remove(LocalEventLog(log))

    with ThreadPoolExecutor(3) as drivers:
        list(drivers.map(record, ["a", "b", "c"]))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_goes_while_a_driver_makes_its_own_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there when the driver makes it, and gone when the driver looks whether it is a folder."""
    spool, made = Spool(tmp_path, "default", "local", "app"), []

    def make_folder(folder: Path, most: int, *, keep_group: bool = False) -> None:
        made.append(folder)
        if made.count(folder) == 1 and folder.name == "default":
            raise FileExistsError(folder)
        folder.mkdir(most)

    monkeypatch.setattr("kvwal_archive.objects.owner.make_folder", make_folder)
    spool.make()
    assert spool.folder.is_dir()
    assert [folder.name for folder in made].count("default") == 2
    spool.folder.rmdir()
    spool.folder.write_text("no folder")
    with pytest.raises(FileExistsError):
        spool.make()


def test_the_lock_of_a_spool_that_was_removed_locks_no_other_one(tmp_path: Path) -> None:
    """A file system may give the number of a deleted lock file to the next file, and a lock is known by that number."""
    one = Spool(tmp_path, "default", "local", "one")
    lock = one.lock()
    number = (one.folder / "LOCK").stat().st_ino
    one.remove(LocalEventLog(one.folder / "eventlog_v2_app"))
    assert not one.folder.exists()
    others = [tmp_path / str(n) for n in range(20)]
    for other in others:
        other.touch()
    assert number not in {other.stat().st_ino for other in others}
    lock.release()
