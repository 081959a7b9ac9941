"""A fresh root from the archive alone: under another node's name, as of a moment, or as the log that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ArchiveError, ConfigError, KvwalError, StorageFull
from kvwal_archive.layout import Place
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import register
from tests.support.archive.archiver import business, coverage_of
from tests.support.disk.faults import FakeDisk


def test_a_take_over_goes_on_with_the_log_and_fences_the_old_one(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with kvwal.open(tmp_path / "old", archive=archive) as old:
        old.map("b")["a"] = 1
        old.archive()
        old.map("b")["late"] = True
        kvwal.restore(archive, tmp_path / "new", take_over=True)
        with kvwal.open(tmp_path / "new", archive=archive) as new:
            new.map("b")["a"] = 2
            new.archive()
            assert business(new)["last_sequence"] == 2
            assert [entry.value for entry in new.map("b").history("a")] == [b"\x81\x02", b"\x81\x01"]
        with pytest.raises(ConfigError, match="took over"):
            old.archive()
        old.close(archive=False)
    kvwal.restore(archive, tmp_path / "check")
    with kvwal.open(tmp_path / "check") as store:
        assert dict(store.map("b")) == {"a": 2}


def test_a_take_over_brings_the_businesses_of_its_node_only(tmp_path: Path) -> None:
    """`both` is of two nodes; `empty` was registered, and its node was lost before anything of it was archived."""
    archive = tmp_path / "archive"
    for node, names in (("n1", ["mine", "both"]), ("n2", ["both", "other"])):
        with kvwal.open(tmp_path / node, node=node, archive=archive) as store:
            for name in names:
                store.map(name)["of"] = node
    register(open_objects(str(archive)), Place("default", "local", "empty", "n1"), "f" * 32)
    report = kvwal.restore(archive, tmp_path / "new", node="n1", take_over=True)
    assert report.entries == {"both": 1, "empty": 0, "mine": 1}
    with kvwal.open(tmp_path / "new", archive=archive) as store:
        assert (store.node, store.businesses()) == ("n1", ["both", "empty", "mine"])
        assert [dict(store.map(name)) for name in ("both", "mine", "empty")] == [{"of": "n1"}, {"of": "n1"}, {}]
        store.map("empty")["first"] = 1
        store.archive()
    assert coverage_of(archive, Place("default", "local", "empty", "n1")).last == 1


def test_a_restore_refuses_what_it_would_overwrite_and_names_that_are_taken(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root") as store:
        store.map("b")["a"] = 1
        store.archive()
    archive = tmp_path / "root" / "_archive"
    with pytest.raises(ConfigError, match="already"):
        kvwal.restore(archive, tmp_path / "root", node="other")
    (tmp_path / "mine" / "default" / "local" / "notes").mkdir(parents=True)
    with pytest.raises(ConfigError, match="already"):
        kvwal.restore(archive, tmp_path / "mine")
    with pytest.raises(ConfigError, match="take_over"):
        kvwal.restore(archive, tmp_path / "second", node="local")
    with pytest.raises(ArchiveError, match="nothing of default/elsewhere"):
        kvwal.restore(archive, tmp_path / "second", cluster="elsewhere")


def test_a_restore_as_of_a_moment(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root") as store:
        b = store.map("b")
        b["a"] = 1
        moment = b.put("b", 1)
        del b["a"]
        b["b"] = 2
        store.archive()
    kvwal.restore(tmp_path / "root" / "_archive", tmp_path / "then", at=moment)
    with kvwal.open(tmp_path / "then") as store:
        assert dict(store.map("b")) == {"a": 1, "b": 1}


def test_a_restore_that_was_killed_is_run_again(tmp_path: Path) -> None:
    """What it left is under a name that no reader looks at, and is not in the way of the next try."""
    with kvwal.open(tmp_path / "root") as store:
        store.map("b")["a"] = 1
        store.archive()
    left = tmp_path / "second" / "_restoring" / "b" / "restored"
    left.mkdir(parents=True)
    (left / f"{1:020}.wal").write_bytes(b"half a segment")
    kvwal.restore(tmp_path / "root" / "_archive", tmp_path / "second")
    assert not (tmp_path / "second" / "_restoring").exists()
    with kvwal.open(tmp_path / "second") as store:
        assert dict(store.map("b")) == {"a": 1}


@pytest.mark.parametrize("take_over", [False, True])
def test_a_restore_of_large_values_can_be_opened(tmp_path: Path, take_over: bool) -> None:
    """No block of what is written may be above the format's limit, however large the values are."""
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        for first in range(0, 1800, 450):
            store.map("b").put_many({first + number: bytes(10_000) for number in range(450)})
    kvwal.restore(tmp_path / "archive", tmp_path / "restored", take_over=take_over)
    with kvwal.open(tmp_path / "restored", archive=None) as store:
        assert len(store.map("b")) == 1800


@pytest.mark.parametrize("take_over", [False, True])
@pytest.mark.parametrize(
    ("refused", "error"), [("write_at", ConfigError), ("datasync", ConfigError), ("full", StorageFull)]
)
def test_a_root_that_cannot_be_written_is_named_and_the_restore_run_again(
    tmp_path: Path, refused: str, error: type[KvwalError], take_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("b")["a"] = 1
    disk = FakeDisk()
    disk.full = refused == "full"
    disk.refuse = {refused}
    monkeypatch.setattr("kvwal.history.restore.restore.OS_DISK", disk)
    with pytest.raises(error, match=r"nothing was restored.*restore again"):
        kvwal.restore(tmp_path / "archive", tmp_path / "new", take_over=take_over)
    disk.full, disk.refuse = False, set()
    kvwal.restore(tmp_path / "archive", tmp_path / "new", take_over=take_over)
    with kvwal.open(tmp_path / "new", archive=None) as store:
        assert dict(store.map("b")) == {"a": 1}


def test_what_a_killed_restore_left_is_not_taken_over(tmp_path: Path) -> None:
    """It may have been one of another moment, with businesses that this one does not have."""
    with kvwal.open(tmp_path / "root", archive=tmp_path / "archive") as store:
        store.map("b")["a"] = 1
    with kvwal.open(tmp_path / "other", archive=None, node="restored") as store:
        store.map("of-the-killed-one")["a"] = 2
    (tmp_path / "new").mkdir()
    (tmp_path / "other" / "default" / "local").rename(tmp_path / "new" / "_restoring")
    kvwal.restore(tmp_path / "archive", tmp_path / "new")
    assert sorted(path.name for path in (tmp_path / "new" / "default" / "local").iterdir()) == ["b"]
