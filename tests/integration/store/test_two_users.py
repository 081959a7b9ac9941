"""Root works on the store of another user, and another user on a store of root."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwal.log.files.names import log_folder
from kvwal.spark.eventlog.logs import LocalEventLog
from kvwal.spark.recording.spool import Spool, add_roll
from kvwal_archive.layout import Place
from kvwal_archive.objects.owner import give_file
from tests.support.disk.users import NOBODY, home_of_another_user, kvwal_as, python_as

ROOT = 0
CLOSED = Place("default", "local", "closed", "local")
OPEN = """
import kvwal, sys
with kvwal.open(sys.argv[1], archive=None) as store:
    store.map("open")["b"] = 2
    try:
        store.map("closed")
    except kvwal.ConfigError as error:
        print(error)
    try:
        store.checkpoint()
    except kvwal.ConfigError:
        print("snapshot of open:", store.stats()["businesses"]["open"]["snapshot_sequence"])
with kvwal.open(sys.argv[1], read_only=True) as store:
    print(dict(store.map("open")), store.businesses(), store.sql("SELECT count(*) AS n FROM open").to_pylist())
    for refused in (lambda: store.map("closed"), lambda: store.sql("SELECT * FROM closed")):
        try:
            refused()
        except kvwal.ConfigError as error:
            print(error)
    print("unreadable:", list(store.stats()["unreadable"]))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with home_of_another_user() as folder:
        yield folder


def done(user: int, *words: str | Path) -> str:
    """The answer of a command that succeeds."""
    ran = kvwal_as(user, *words)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(user: int, *words: str | Path) -> str:
    """The sentence of a command that is refused because of the caller."""
    ran = kvwal_as(user, *words)
    assert ran.returncode == 2, (ran.stdout, ran.stderr)
    assert "Traceback" not in ran.stderr
    return ran.stderr


def foreign(home: Path) -> list[str]:
    """What is in the home and does not belong to its user, or is open to all users."""
    return [
        f"{path} {path.lstat().st_uid}:{path.lstat().st_gid} {path.lstat().st_mode:o}"
        for path in home.rglob("*")
        if (path.lstat().st_uid, path.lstat().st_gid) != (NOBODY, NOBODY) or path.lstat().st_mode & 0o002
    ]


def closed_log(home: Path) -> Path:
    """A store of the second user with a log that root has made, as versions did that gave nothing to the owner."""
    root = home / "root"
    done(NOBODY, "put", root, "open", "a", "1")
    done(NOBODY, "put", root, "closed", "a", "1")
    subprocess.run(["chown", "-R", "0:0", log_folder(root, CLOSED).parent], check=True)
    return root


@pytest.mark.long
def test_what_root_does_leaves_a_store_to_its_owner(home: Path) -> None:
    root = home / "root"
    done(NOBODY, "put", root, "jobs", "a", "1")
    done(ROOT, "put", root, "jobs", "b", "2")
    done(ROOT, "put", root, "others", "c", "3")
    done(ROOT, "checkpoint", root)
    done(ROOT, "archive", "run", root)
    done(ROOT, "put", root, "jobs", "d", "4")
    done(ROOT, "backup", root, home / "copy")
    done(ROOT, "restore", root / "_archive", home / "again", "--node", "again")
    done(ROOT, "export", root, "jobs", home / "jobs.jsonl")
    assert foreign(home) == []
    done(NOBODY, "put", root, "jobs", "e", "5")
    done(NOBODY, "put", home / "copy", "others", "e", "5")
    done(NOBODY, "checkpoint", root)
    done(NOBODY, "archive", "run", root)
    assert done(NOBODY, "get", root, "jobs", "d").strip() == "4"
    done(NOBODY, "doctor", root)


@pytest.mark.long
def test_a_large_transaction_of_root_leaves_its_file_to_the_owner_of_the_store(home: Path) -> None:
    root = home / "root"
    large = """
import kvwal, sys
with kvwal.open(sys.argv[1], archive=None) as store:
    jobs = store.map("jobs")
    jobs.put_many((number, "same") for number in range(100_000))
    print(len(jobs))
    store.checkpoint()
"""
    done(NOBODY, "put", root, "jobs", "a", "1")
    for user in (ROOT, NOBODY):
        ran = python_as(user, large, root)
        assert (ran.returncode, ran.stdout) == (0, "100001\n"), ran.stderr
        assert foreign(home) == []


def test_a_store_that_root_begins_in_a_home_belongs_to_its_user(home: Path) -> None:
    home.chmod(0o700)
    done(ROOT, "put", home / "new" / "root", "jobs", "a", "1")
    assert foreign(home) == []
    made = {path.lstat().st_mode & 0o7777 for path in home.rglob("*")}
    assert made == {0o700, 0o600}  # the home's own: its group has nothing of it
    done(NOBODY, "put", home / "new" / "root", "jobs", "b", "2")


def test_one_log_that_may_not_be_read_does_not_close_the_others(home: Path) -> None:
    root = closed_log(home)
    folder = log_folder(root, CLOSED).parent
    ran = python_as(NOBODY, OPEN, root)
    assert ran.returncode == 0, ran.stderr
    opened, snapshot, answers, mapped, queried, unreadable = ran.stdout.splitlines()
    assert f"{folder / 'local'}: not allowed to write here" in opened
    assert "kvwal doctor" in opened
    assert snapshot == "snapshot of open: 2"
    assert answers == "{'a': 1, 'b': 2} ['closed', 'open'] [{'n': 2}]"
    assert "not allowed to look here (Permission denied" in mapped
    assert str(folder) in queried
    assert unreadable == "unreadable: ['closed']"


@pytest.mark.long
def test_commands_serve_the_logs_that_may_be_read(home: Path) -> None:
    root = closed_log(home)
    done(NOBODY, "put", root, "open", "b", "2")
    assert done(NOBODY, "get", root, "open", "b").strip() == "2"
    assert "b" in done(NOBODY, "scan", root, "open")
    assert "2" in done(NOBODY, "query", root, "SELECT count(*) FROM open")
    assert json.loads(done(NOBODY, "stats", root, "--json"))["unreadable"] == {"closed": "its folder may not be read"}
    done(NOBODY, "put", root, "third", "c", "3")
    for words in (("put", root, "closed", "b", "2"), ("get", root, "closed", "a"), ("scan", root, "closed")):
        assert "Permission denied" in refused(NOBODY, *words)
    for words in (("checkpoint", root), ("archive", "run", root)):
        assert str(log_folder(root, CLOSED).parent) in refused(NOBODY, *words)
    snapshots = [path.parent.parent.name for path in root.rglob("*.snapshot")]
    assert sorted(snapshots) == ["open", "third"]
    archived = {path.parent.parent.name for path in (root / "_archive").rglob("*.parquet")}
    assert archived == {"open", "third"}
    refused(NOBODY, "log", "verify", root)
    refused(NOBODY, "backup", root, home / "copy")
    assert not (home / "copy").exists()


def test_doctor_names_the_owner_the_mode_and_the_remedy(home: Path) -> None:
    root = closed_log(home)
    os.chown(next(log_folder(root, Place("default", "local", "open", "local")).glob("*.wal")), ROOT, ROOT)
    (root / "_archive").mkdir(mode=0o700)
    for user in (ROOT, NOBODY):
        ran = kvwal_as(user, "doctor", root, "--json")
        assert ran.returncode == 1, ran.stderr
        problems = [one for one in map(json.loads, ran.stdout.splitlines()) if one["level"] == "problem"]
        told = {one["about"]: one["found"] for one in problems if "chown" in one["what to do"]}
        closed = told[str(log_folder(root, CLOSED).parent)]
        assert closed.startswith("it belongs to root (mode 750), and the folder that it is in to nobody")
        assert told[str(root / "_archive")].startswith("it belongs to root (mode 700)")
        assert (
            "00000000000000000001.wal of another user than the folder: of root (mode 640)"
            in told["default/local/open/local"]
        )
    for one in problems:
        if one["what to do"].startswith("sudo "):
            subprocess.run(shlex.split(one["what to do"])[1:], check=True)
    assert foreign(home) == []
    done(NOBODY, "doctor", root)
    done(NOBODY, "put", root, "closed", "b", "2")


def test_a_console_of_another_user_says_what_it_may_not_read(home: Path) -> None:
    """The store, and the file of its token."""
    root, token = home / "root", home / "token"
    done(ROOT, "put", root, "jobs", "a", "1")
    token.write_text("t" * 32)
    token.chmod(0o600)
    subprocess.run(["chown", "-R", "0:0", root, token], check=True)
    said = refused(NOBODY, "console", root, "--token-file", token)
    assert f"the token file {token} cannot be read (Permission denied). Mend its owner and mode" in said
    root.chmod(0o700)
    said = refused(NOBODY, "console", root)
    assert "not allowed to read or write" in said
    assert "Run it as the user of the store, or mend owner and mode." in said


def test_a_user_without_rights_is_told_so_and_changes_nothing(home: Path) -> None:
    root = home / "root"
    done(ROOT, "put", root, "jobs", "a", "1")
    subprocess.run(["chown", "-R", "0:0", root], check=True)
    for mode in (0o750, 0o755):
        root.chmod(mode)
        before = sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*"))
        for words in (("put", root, "jobs", "b", "2"), ("put", root, "new", "b", "2")):
            assert "Permission denied" in refused(NOBODY, *words)
        assert sorted((path, path.lstat().st_mtime_ns) for path in root.rglob("*")) == before


def test_a_link_in_the_place_of_a_lock_leads_root_nowhere(home: Path) -> None:
    root = home / "root"
    done(NOBODY, "put", root, "jobs", "a", "1")
    lock = log_folder(root, Place("default", "local", "jobs", "local")) / "LOCK"
    for kind in ("symbolic", "hard"):
        target = home.with_name(f"{home.name}-{kind}")
        target.write_text("of root")
        try:
            lock.unlink()
            lock.symlink_to(target) if kind == "symbolic" else lock.hardlink_to(target)
            kvwal_as(ROOT, "put", root, "jobs", "b", "2")
            assert (target.read_text(), target.stat().st_uid) == ("of root", ROOT)
        finally:
            target.unlink()


def test_a_spool_of_root_can_be_read_by_the_owner_of_the_store(home: Path) -> None:
    root = home / "root"
    spool = Spool(root, "default", "local", "app-1")
    spool.lock().release()
    spool.name_addresses(["host:5701"])
    spool.name_holder("reader")
    log = LocalEventLog(spool.folder / "eventlog_v2_app-1-1")
    log.path.mkdir(mode=0o770)  # Spark's listener, in the JVM of a driver that root runs
    os.close(os.open(log.path / "events_1_app-1-1", os.O_CREAT | os.O_WRONLY, 0o660))
    add_roll(log, 2, [{"Event": "kvwal.Detached"}])
    read = "import sys, pathlib; print(sum(len(p.read_bytes()) > 0 for p in pathlib.Path(sys.argv[1]).rglob('*') if p.is_file()))"
    ran = python_as(NOBODY, read, root)
    assert (ran.stdout.strip(), ran.stderr) == ("4", "")  # note, addresses, holders and the roll of kvwal


def test_nothing_of_root_is_given_in_a_folder_of_root(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("a test of what root makes is run by root")
    path = tmp_path / "file"
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        give_file(descriptor, tmp_path, 0o666)
        assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (ROOT, 0o600)
    finally:
        os.close(descriptor)
