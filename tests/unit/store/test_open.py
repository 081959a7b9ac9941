"""Opening a store: who holds it, which names and roots it takes, what it says to each that it does not."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import ConfigError, InvalidName, StoreClosed, StoreLocked, WrongType
from tests.support.disk.faults import FakeDisk, open_store

ROOT = Path(__file__).resolve().parent.parent.parent.parent
HOLD = """
import sys, kvwal
store = kvwal.open(sys.argv[1], archive=None)
store.map("jobs")["a"] = 1
print("held", flush=True)
sys.stdin.read()
"""
# Everything is imported before the privileges go: the interpreter may stand where only root can read.
UNPRIVILEGED = """
import os, shutil, sys, tempfile, kvwal
mine = tempfile.mkdtemp()
with kvwal.open(mine, archive=None) as store:
    store.map("jobs")["a"] = 1
with kvwal.open(mine, archive=None, read_only=True) as store:
    assert store.map("jobs")["a"] == 1
shutil.rmtree(mine)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    with kvwal.open(sys.argv[1], archive=None, read_only=len(sys.argv) > 2) as store:
        print(dict(store.map("jobs")))
        store.map("jobs")["b"] = 1
except kvwal.KvwalError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A root that other users can reach, with a business in it."""
    with tempfile.TemporaryDirectory(prefix="kvwal-open-") as folder:
        os.chmod(folder, 0o755)
        found = Path(folder) / "root"
        fill(found)
        yield found


def fill(root: Path, **given: Any) -> None:
    with kvwal.open(root, archive=None, **given) as store:
        store.map("jobs")["a"] = 1


def run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert not done.stderr
    return done.stdout


def test_a_store_that_is_held_says_by_whom(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    with kvwal.open(tmp_path, archive=None) as store:
        with pytest.raises(StoreLocked, match=f"pid {holder.pid} on {socket.gethostname()}"):
            store.map("jobs")
        assert store.map("other") == {}, "the lock is one business's"
    with kvwal.open(tmp_path, archive=None, read_only=True) as store:
        assert store.map("jobs") == {"a": 1}
    with kvwal.open(tmp_path, archive=None, node="another") as store:
        assert store.map("jobs") == {}
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    with kvwal.open(tmp_path, archive=None, node="local") as store:
        assert store.map("jobs") == {"a": 1}


def test_one_process_cannot_hold_it_twice(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as one, kvwal.open(tmp_path, archive=None) as other:
        assert one.map("jobs") == {}
        with pytest.raises(StoreLocked, match=f"pid {os.getpid()} "):
            other.map("jobs")


def in_a_fork(call: Callable[[], Any]) -> str:
    """What `call` raises in a forked child, as text."""
    here, there = multiprocessing.Pipe()

    def child() -> None:
        try:
            there.send(f"answered {call()!r}")
        except (kvwal.KvwalError, OSError, RuntimeError) as error:
            there.send(f"{type(error).__name__}: {error}")

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    assert here.poll(60), "the child waits for ever"
    answer: str = here.recv()
    process.join()
    return answer


def test_a_forked_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    store = kvwal.open(tmp_path, archive=None)
    jobs = store.map("jobs")
    jobs["a"] = 1
    for call in (lambda: jobs.put("b", 1), lambda: store.map("jobs"), lambda: store.map("new"), store.checkpoint):
        answer = in_a_fork(call)
        assert answer.startswith("StoreClosed: ")
        assert "another process" in answer
    assert in_a_fork(lambda: jobs["a"]) == "answered 1"
    assert in_a_fork(store.close) == "answered None"
    jobs["c"] = 1
    store.close()
    assert in_a_fork(lambda: dict(jobs)) == "answered {'a': 1, 'c': 1}"
    with kvwal.open(tmp_path, archive=None) as again:
        assert again.map("jobs") == {"a": 1, "c": 1}


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
    changes: list[Callable[[], Any]] = [
        lambda: store.map("jobs"), lambda: store.map("new"), store.checkpoint, store.archive,
        lambda: jobs.put("b", 1), lambda: jobs.submit("b", 1), lambda: jobs.pop("a"), jobs.clear,
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(StoreClosed, match="Open it again"):
            change()
    store.close()
    assert jobs == {"a": 1}


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "/a",
        "_archive",
        ".hidden",
        "-x",
        "a b",
        "a\n",
        "a\0",
        "ä",
        "x" * 129,
        "a\\b",
        "*",
        "a:b",
    ],
    ids=repr,
)
def test_hostile_names_are_refused_before_they_become_paths(tmp_path: Path, name: str) -> None:
    root = tmp_path / "root"
    with kvwal.open(root, archive=None) as store, pytest.raises(InvalidName, match="map name"):
        store.map(name)
    for kind in ("namespace", "cluster", "node"):
        with pytest.raises(InvalidName, match=f"{kind} name"):
            kvwal.open(root, archive=None, **{kind: name})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a", "A.b_c-d%2F@1+x", "0", "x" * 128, "LOCK", "a.wal"], ids=repr)
def test_every_legal_name_round_trips(tmp_path: Path, name: str) -> None:
    given = {"namespace": name, "cluster": name, "node": name}
    with kvwal.open(tmp_path, archive=None, **given) as store:
        store.map(name)["a"] = 1
    with kvwal.open(tmp_path, archive=None, namespace=name, cluster=name) as store:
        assert (store.node, store.businesses()) == (name, [name])
        assert store.map(name) == {"a": 1}


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for read_only in (False, True):
        with pytest.raises(ConfigError, match="is a file, and a root is a folder"):
            kvwal.open(file, read_only=read_only)
    with kvwal.open(file / "below", archive=None) as store, pytest.raises(ConfigError, match="is a file, not a folder"):
        store.map("jobs")
    assert file.read_text() == "mine"


def test_a_file_where_a_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "default").write_text("mine")
    with kvwal.open(tmp_path, archive=None) as store, pytest.raises(ConfigError, match="is a file, not a folder"):
        store.map("jobs")


def test_a_root_that_cannot_be_written_can_be_read(root: Path) -> None:
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o555)
    for path in root.rglob("*.*"):
        path.chmod(0o444)
    assert run(UNPRIVILEGED, str(root)).startswith(f"ConfigError: {root}/default/local/jobs/local: not allowed")
    said = run(UNPRIVILEGED, str(root), "read_only").splitlines()
    assert said[0] == "{'a': 1}"
    assert said[1].startswith("ConfigError: the store was opened with read_only=True")
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o755)


@pytest.mark.parametrize("what", ["root", "root/default/local/jobs/local", "root/default/local/jobs/local/*.wal", "."])
@pytest.mark.parametrize("how", [[], ["read_only"]], ids=["writing", "reading"])
@pytest.mark.variants(3)
def test_what_may_not_even_be_seen_is_named(root: Path, what: str, how: list[str]) -> None:
    paths = [root.parent] if what == "." else list(root.parent.glob(what))
    for path in paths:
        path.chmod(0)
    said = run(UNPRIVILEGED, str(root), *how)
    for path in paths:
        path.chmod(0o755)
    assert said.startswith("ConfigError: ")
    assert "not allowed" in said
    assert str(root) in said


def test_the_node_is_the_only_one_or_must_be_chosen(tmp_path: Path) -> None:
    fill(tmp_path, node="n1")
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.node == "n1"
    fill(tmp_path, node="n2")
    with pytest.raises(ConfigError, match="several nodes: n1, n2") as several:
        kvwal.open(tmp_path, archive=None)
    assert "read_only=True" in str(several.value)
    with kvwal.open(tmp_path / "fresh", archive=None) as store:
        assert store.node == "local"


def test_nodes_of_recorders_do_not_count_when_a_node_is_chosen(tmp_path: Path) -> None:
    for app in ("local-1", "local-2"):
        with kvwal.open(tmp_path, node=app, archive=None) as store:
            store.map("spark")[f"{app}/app"] = {}
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.node == "local"
        store.map("jobs")["a"] = 1
    with kvwal.open(tmp_path, archive=None) as store:
        assert store.node == "local"
    fill(tmp_path, node="n1")
    with pytest.raises(ConfigError, match=r"several nodes: local, n1\."):
        kvwal.open(tmp_path, archive=None)


def test_read_only_reads_all_nodes_and_refuses_every_write(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None, node="n1") as store:
        store.map("jobs").update(a=1, b=1)
    with kvwal.open(tmp_path, archive=None, node="n2") as store:
        store.map("jobs")["b"] = 2
        del store.map("jobs")["b"]
        store.map("jobs")["c"] = 3
    with kvwal.open(tmp_path, archive=None, read_only=True, node="n1") as store:
        assert store.map("jobs") == {"a": 1, "b": 1}
    with kvwal.open(tmp_path, archive=None, read_only=True) as store:
        jobs = store.map("jobs")
        assert jobs == {"a": 1, "c": 3}
        assert [entry.deleted for entry in jobs.history("b")] == [True, False, False]
        changes: list[Callable[[], Any]] = [
            lambda: jobs.put("a", 2), lambda: jobs.update(a=2), lambda: jobs.delete("a"), lambda: jobs.pop("a"),
            lambda: jobs.put_if_absent("z", 1), lambda: jobs.submit("a", 2), store.checkpoint, store.archive,
        ]  # fmt: skip
        for change in changes:
            with pytest.raises(ConfigError, match="read_only=True"):
                change()
        with pytest.raises(ConfigError, match=r"no map 'runs' \(there are: jobs\)"):
            store.map("runs")
    assert not list(tmp_path.rglob("*.partial"))


def test_reading_an_empty_root_creates_nothing(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        assert store.businesses() == []
        with pytest.raises(ConfigError, match="there is no such folder"):
            store.map("jobs")
    assert list(tmp_path.iterdir()) == []


def test_without_an_archive_there_is_none(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1
        with pytest.raises(ConfigError, match="archive=None"):
            store.archive()
        stats = store.stats()["businesses"]["jobs"]
        assert (stats["archived_sequence"], stats["archive_lag_entries"]) == (None, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["default"]


@pytest.mark.parametrize(
    "given",
    [{"segment_bytes": 1}, {"ring_slots": 0}, {"overflow_bytes": 6 << 20}, {"archive_seconds": -1}, {"max_skew_seconds": "1"},
     {"ring_bytes": True}],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"settings: {next(iter(given))}="):
        kvwal.Settings(**given)


def test_a_log_that_was_moved_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "default/local/jobs").rename(tmp_path / "default/local/runs")
    with (
        kvwal.open(tmp_path, archive=None) as store,
        pytest.raises(ConfigError, match="written as default/local/jobs/local"),
    ):
        store.map("runs")


@pytest.mark.parametrize("root", [None, 5, b"data", True])
def test_what_is_no_folder_is_no_root(root: Any) -> None:
    with pytest.raises(WrongType, match=r"root=.* is no name of a folder"):
        kvwal.open(root)


@pytest.mark.parametrize("root", ["a\0b", "\0"])
def test_a_folder_with_a_name_that_no_file_system_takes_is_refused(root: str) -> None:
    with pytest.raises(ConfigError, match="NUL"):
        kvwal.open(root)


@pytest.mark.parametrize("archive", [False, True, 0, b"x"])
def test_what_names_no_archive_is_refused(tmp_path: Path, archive: Any) -> None:
    with pytest.raises(WrongType, match="archive="):
        kvwal.open(tmp_path, archive=archive)
    with pytest.raises(WrongType, match="archive="):
        kvwal.restore(archive, tmp_path / "new")
    with pytest.raises(ConfigError, match="the archive is an empty name"):
        kvwal.open(tmp_path, archive="")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("addresses", [None, 5701, [("127.0.0.1", 5701)]])
def test_what_are_no_addresses_is_refused(addresses: Any) -> None:
    with pytest.raises(WrongType, match="are no addresses of nodes"):
        kvwal.connect(addresses)


class SlowDisk(FakeDisk):
    """The files of the business "slow" are read when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.go = threading.Event(), threading.Event()

    def names(self, folder: Path) -> list[str]:
        if "slow" in folder.parts:
            self.reading.set()
            self.go.wait()
        return super().names(folder)


def test_a_log_that_is_long_to_recover_holds_up_no_other_and_is_opened_once(tmp_path: Path) -> None:
    disk = SlowDisk()
    with open_store(tmp_path, disk) as store, ThreadPoolExecutor(2) as pool:
        slow = [pool.submit(store.map, "slow") for _ in range(2)]
        disk.reading.wait()
        store.map("quick")["a"] = 1
        assert not any(each.done() for each in slow)
        disk.go.set()
        first, second = (each.result() for each in slow)
        first["a"] = 1
        assert second["a"] == 1


def test_a_close_waits_for_a_log_that_is_being_opened(tmp_path: Path) -> None:
    disk = SlowDisk()
    store = open_store(tmp_path, disk)
    with ThreadPoolExecutor(2) as pool:
        slow = pool.submit(store.map, "slow")
        disk.reading.wait()
        closing = pool.submit(store.close)
        disk.go.set()
        closing.result()
        assert isinstance(slow.exception(), StoreClosed | None)
    with open_store(tmp_path) as again:
        again.map("slow")["a"] = 1
