"""The last version without queues, from the history of the repository: it refuses a log with a queue by a sentence and changes
nothing of it, and what either version wrote without one is read and written by the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

import kvwal
from kvwal.log.files.names import log_folder
from kvwal_archive.layout import Place
from tests.repository.source import ROOT

VERSION = "07c43a1"
"""The last commit before the queue."""
GOLDEN = ROOT / "tests" / "golden" / "log-5"
PLACE = Place("default", "local", "work", "local")
REFUSED = "the file has format 2, and this kvwal reads format 1: written by a newer version."
pytestmark = pytest.mark.long

Older = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Older:
    """Run the command line of the older version, or, with `-c`, a program that imports it."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", VERSION, "kvwal", "archive"], capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip(f"the history of the repository, with the commit {VERSION}, is not here")
    source = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as files:
        files.extractall(source, filter="data")
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{source / 'archive'}"}

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        if words[0] != "-c":
            words = ["-c", "from kvwal.cli.main import main; main()", *words]
        return subprocess.run(
            [sys.executable, *words], env=environment, cwd=source, capture_output=True, text=True, check=False
        )

    where = run("-c", "import kvwal, kvwal_archive; print(kvwal.__file__, kvwal_archive.__file__)")
    assert where.stdout.count(str(source)) == 2, where
    return run


def files(root: Path) -> dict[str, bytes]:
    """What is in a log, but for the note of who holds its lock."""
    return {path.name: path.read_bytes() for path in log_folder(root, PLACE).iterdir() if path.name != "LOCK"}


WRITES = """
import sys, kvwal
with kvwal.open(sys.argv[1]) as store:
    work = store.map("work")
    work["key"], work["other"] = 1, {"a": [2]}
    del work["key"]
    store.checkpoint()
    work["key"] = 3
    store.archive()
    work["last"] = "4"
"""


def test_what_the_older_version_wrote_is_read_and_written(older: Older, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert not older("-c", WRITES, root).stderr
    expected = {"key": 3, "other": {"a": [2]}, "last": "4"}
    before = files(root)
    with kvwal.open(root, read_only=True) as store:
        assert dict(store.map("work")) == expected
    assert files(root) == before
    with kvwal.open(root) as store:
        assert dict(store.map("work")) == expected
        store.map("work")["more"] = 5
        store.checkpoint()
        store.archive()
    found = older("scan", root, "work", "--json")
    assert found.returncode == 0, found.stderr
    assert '"more"' in found.stdout
    assert older("put", root, "work", "older", "6").returncode == 0
    with kvwal.open(root) as store:
        assert dict(store.map("work")) == expected | {"more": 5, "older": 6}
    kvwal.restore(root / "_archive", tmp_path / "restored", node="local", take_over=True)
    with kvwal.open(tmp_path / "restored") as store:
        assert dict(store.map("work")).items() >= (expected | {"more": 5}).items()


@pytest.mark.parametrize("snapshot", [False, True], ids=["segment", "snapshot"])
def test_the_older_version_refuses_a_log_with_a_queue_and_changes_nothing(
    older: Older, tmp_path: Path, snapshot: bool
) -> None:
    with kvwal.open(tmp_path) as store:
        work = store.business("work")
        work.map()["key"] = 1
        work.queue("todo").put_many(["a", "b"])
        store.map("apart")["key"] = 2
        if snapshot:
            store.checkpoint()
            store.archive()
    before = files(tmp_path)
    for words in (
        ("get", tmp_path, "work", "key"), ("put", tmp_path, "work", "key", "3"), ("scan", tmp_path, "work"),
        ("log", "verify", tmp_path), ("archive", "run", tmp_path),
    ):  # fmt: skip
        ran = older(*words)
        assert ran.returncode != 0, words
        assert REFUSED in ran.stdout + ran.stderr, (words, ran)
        assert str(log_folder(tmp_path, PLACE)) in ran.stdout + ran.stderr
    opened = older("-c", 'import sys, kvwal\nwith kvwal.open(sys.argv[1]) as s: s.map("work")["key"] = 3', tmp_path)
    assert f"NewerVersion: {log_folder(tmp_path, PLACE)}" in opened.stderr
    assert files(tmp_path) == before
    assert older("get", tmp_path, "apart", "key").stdout == "2\n", "other maps of the root are read"
    with kvwal.open(tmp_path) as store:
        assert list(store.business("work").queue("todo").browse()) == ["a", "b"]
        assert dict(store.map("work")) == {"key": 1}


@pytest.mark.parametrize("gone", ["*.wal", "*.snapshot"], ids=["snapshot", "segments"])
def test_the_older_version_refuses_the_golden_log(older: Older, tmp_path: Path, gone: str) -> None:
    folder = log_folder(tmp_path, Place("spark", "local", "jobs", "node-1"))
    shutil.copytree(GOLDEN, folder, ignore=shutil.ignore_patterns("*.py", gone))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    ran = older("put", tmp_path, "jobs", "old", "changed", "--namespace", "spark", "--node", "node-1")
    assert ran.returncode != 0
    assert REFUSED in ran.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "LOCK"} == before


KEEPS = """
import sys, kvwal
with kvwal.open(sys.argv[1], node="other") as store:
    work = store.map("work")
    work["older"] = work["key"]
    store.checkpoint()
    store.archive()
    work["older"] = 6
"""


@pytest.mark.breaks("formats", reason="the older version writes items into files of format 1")
def test_the_older_version_restores_an_archive_with_a_queue_and_keeps_its_items(older: Older, tmp_path: Path) -> None:
    """The way back to it: the maps are there, and the items come back with the version that knows them."""
    archive, root = tmp_path / "archive", tmp_path / "root"
    with kvwal.open(tmp_path / "first", archive=archive) as store:
        work = store.business("work")
        work.map()["key"] = 1
        work.queue("todo").put_many(["a", "b", "c"])
        work.queue("todo").put("urgent", priority=-1)
        assert work.queue("todo").take_many(2) == ["urgent", "a"]
        store.archive()
    restored = older("restore", archive, root, "--node", "other")
    assert restored.returncode == 0, restored.stderr
    kept = older("-c", KEEPS, root)
    assert kept.returncode == 0, kept.stderr
    with kvwal.open(root, node="other") as store:
        work = store.business("work")
        assert dict(work.map()) == {"key": 1, "older": 6}
        assert list(work.queue("todo").browse()) == ["b", "c"]
        work.queue("todo").put("d")
        assert work.queue("todo").take_many(4) == ["b", "c", "d"]
