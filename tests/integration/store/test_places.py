"""One log that is reached by two paths has one lock, and a log whose folder is moved or deleted takes no more writes."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import LogFailed, StoreLocked
from kvwal.log.files.names import LOCK, log_folder
from kvwal.ports.posix.file_locks import is_held, take
from kvwal_archive.layout import Place
from tests.support.polling import until

PLACE = Place("default", "local", "m", "local")
LEVELS = ["default", "default/local", "default/local/m", "default/local/m/local"]
OPEN = """
import kvwal, sys
with kvwal.open(sys.argv[1], archive=None) as store:
    try:
        store.map("m")["by"] = "the other process"
        print("written")
    except kvwal.StoreLocked as error:
        print(error)
"""


@contextmanager
def joined(kind: str, old: Path, new: Path) -> Iterator[None]:
    """The folder `old` is reached as `new`, too."""
    new.parent.mkdir(parents=True)
    if kind == "symlink":
        new.symlink_to(old)
        yield
        return
    new.mkdir()
    done = subprocess.run(["mount", "--bind", str(old), str(new)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this machine does not let a test bind a folder: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(new)], check=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["symlink", "bind mount"])
@pytest.mark.variants(3)
def test_two_roots_that_reach_one_log_have_one_lock(kind: str, level: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    with kvwal.open(one, archive=None) as store:
        store.map("m")["a"] = 1
        with joined(kind, one / level, two / level):
            with kvwal.open(two, archive=None) as other, pytest.raises(StoreLocked, match=f"pid {os.getpid()}"):
                other.map("m")
            told = subprocess.run([sys.executable, "-c", OPEN, str(two)], capture_output=True, text=True, check=True)
            assert f"the log is held by pid {os.getpid()}" in told.stdout
            store.map("m")["b"] = 2
            store.close()
            with kvwal.open(two, archive=None) as other:
                assert dict(other.map("m")) == {"a": 1, "b": 2}


def test_a_lock_costs_no_descriptor_and_ends_with_its_release(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    paths = [tmp_path / str(n) / LOCK for n in range(20)]
    for path in paths:
        path.parent.mkdir()
    locks = [take(path, f"note of {path}") for path in paths]
    assert len(os.listdir("/proc/self/fd")) == before
    assert all(is_held(path) for path in paths)
    assert take(paths[0], "second") == f"note of {paths[0]}"
    for lock in locks:
        assert not isinstance(lock, str)
        lock.release()
        lock.release()
    assert not any(is_held(path) for path in paths)


def test_a_lock_follows_its_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    lock = take(tmp_path / "old" / LOCK, "first")
    assert not isinstance(lock, str)
    assert lock.in_place()
    (tmp_path / "old").rename(tmp_path / "new")
    assert not lock.in_place()
    assert take(tmp_path / "new" / LOCK, "second") == "first"
    shutil.copytree(tmp_path / "new", tmp_path / "old")
    assert not lock.in_place(), "a copy stands in its place"
    (tmp_path / "old" / LOCK).unlink()
    os.link(tmp_path / "new" / LOCK, tmp_path / "old" / LOCK)
    assert not lock.in_place(), "of a copy by hard links, too"
    copied = take(tmp_path / "old" / LOCK, "of the copy")
    assert not isinstance(copied, str), "a copy by hard links has a lock of its own"
    assert (tmp_path / "new" / LOCK).read_text() == "first"
    assert copied.in_place()


def test_a_forked_child_keeps_no_lock(tmp_path: Path) -> None:
    lock = take(tmp_path / LOCK, "parent")
    assert not isinstance(lock, str)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        lock.release()
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    assert is_held(tmp_path / LOCK), "a child releases nothing of its parent's"
    lock.release()
    assert not is_held(tmp_path / LOCK), "and keeps nothing"
    os.close(writer)
    os.waitpid(child, 0)
    os.close(reader)


def test_children_that_are_forked_while_locks_are_taken_keep_none(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) / LOCK for number in range(100)]
    for path in paths:
        path.parent.mkdir()
    ending = threading.Event()
    kept: list[str] = []

    def take_and_release() -> None:
        for path in itertools.cycle(paths):
            if ending.is_set():
                return
            lock = take(path, "parent")
            kept.append(lock) if isinstance(lock, str) else lock.release()

    thread = threading.Thread(target=take_and_release)
    reader, writer = os.pipe()
    thread.start()
    children = []
    for _ in range(20):
        if not (child := os.fork()):
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        children.append(child)
    ending.set()
    thread.join()
    kept += [str(path) for path in paths if is_held(path)]
    os.close(writer)
    for child in children:
        os.waitpid(child, 0)
    os.close(reader)
    assert kept == []


def flock_of_nfs(fd: int, operation: int) -> None:
    """What the NFS client of Linux makes of `flock`: a lock of all bytes, with the same owner as a lock of one byte."""
    kinds = {fcntl.LOCK_SH: fcntl.F_RDLCK, fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_UN: fcntl.F_UNLCK}
    whole_file = struct.pack("hhqqi4x", kinds[operation & ~fcntl.LOCK_NB], os.SEEK_SET, 0, 0, 0)
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)


def test_a_lock_is_kept_where_flock_is_a_lock_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", flock_of_nfs)
    lock = take(tmp_path / LOCK, "first")
    assert not isinstance(lock, str)
    assert is_held(tmp_path / LOCK)
    assert take(tmp_path / LOCK, "second") == "first"
    lock.release()
    assert not is_held(tmp_path / LOCK)


def test_a_lock_that_an_earlier_version_holds_is_not_taken(tmp_path: Path) -> None:
    with (tmp_path / LOCK).open("w+") as file:
        file.write("an earlier version")
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        assert take(tmp_path / LOCK, "second") == "an earlier version"
    lock = take(tmp_path / LOCK, "second")
    assert not isinstance(lock, str)
    lock.release()


def moved(root: Path) -> None:
    root.rename(root.with_name("moved"))


def replaced(root: Path) -> None:
    moved(root)
    shutil.copytree(root.with_name("moved"), root)


def replaced_by_links(root: Path) -> None:
    moved(root)
    subprocess.run(["cp", "-al", str(root.with_name("moved")), str(root)], check=True)


def deleted(root: Path) -> None:
    shutil.rmtree(root)


@pytest.mark.parametrize("change", [moved, replaced, replaced_by_links, deleted])
@pytest.mark.variants(2)
def test_a_live_root_that_is_not_there_any_more_is_noticed_by_a_tick(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    store = kvwal.open(root, archive=None)
    m = store.map("m")
    m["a"] = 1
    change(root)
    until(lambda: store.stats()["businesses"]["m"]["failed"])
    with pytest.raises(
        LogFailed, match=r"renamed, replaced or deleted while the store was open.*nothing was written"
    ) as refused:
        m["b"] = 2
    assert "open it where the folder is now" in refused.value.hint
    assert m["a"] == 1, "reading goes on"
    store.close()
    if change is not deleted:
        with kvwal.open(root.with_name("moved"), archive=None) as found:
            assert dict(found.map("m")) == {"a": 1}


def test_a_folder_that_is_put_back_as_the_error_says(tmp_path: Path) -> None:
    root, away = tmp_path / "root", tmp_path / "away"
    store = kvwal.open(root, archive=None)
    m = store.map("m")
    m["a"] = 1
    root.rename(away)
    until(lambda: store.stats()["businesses"]["m"]["failed"])
    with pytest.raises(LogFailed) as refused:
        m["b"] = 2
    assert "Close the store, put the folder back, and open the store again" in refused.value.hint
    store.close()
    away.rename(root)
    with kvwal.open(root, archive=None) as again:
        again.map("m")["b"] = 3
        assert dict(again.map("m")) == {"a": 1, "b": 3}


@pytest.mark.parametrize("act", ["rotate", "checkpoint", "write again"])
def test_nothing_is_written_by_the_path_of_a_folder_that_was_replaced(act: str, tmp_path: Path) -> None:
    """Also in the second before the tick: a file is opened by its path only where the path leads to the log."""
    root = tmp_path / "root"
    store = kvwal.open(root, archive=None)
    m = store.map("m")
    m["a"] = 1
    log = m._business.log  # type: ignore[attr-defined]
    log.appender.close_idle(sync=True)
    replaced(root)
    before = {path.name: path.read_bytes() for path in log_folder(root, PLACE).iterdir()}
    acts: dict[str, Callable[[], object]] = {
        "rotate": lambda: store._run(log.rotate),  # type: ignore[attr-defined]
        "checkpoint": store.checkpoint,
        "write again": lambda: m.put("b", 2),
    }
    with pytest.raises(LogFailed, match="renamed, replaced or deleted"):
        acts[act]()
    store.close()
    assert {path.name: path.read_bytes() for path in log_folder(root, PLACE).iterdir()} == before
