"""A log that is refused stays as it was: no file of it is cut, sealed, renamed or removed before all checks are over."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvwal.errors import ClockSkew, ConfigError, CorruptLog, KvwalError, NewerVersion
from kvwal.log.files.format import SnapshotHeader, pack_header
from kvwal.log.files.names import LOCK, log_folder
from kvwal.log.files.retired import retire
from kvwal.log.reader import SegmentReader, SnapshotReader
from kvwal.ports.disk import OS_DISK
from kvwal_archive.layout import Place
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import START_MS, FakeClock, open_store

PLACE = Place("default", "local", "b", "local")
HOUR_MS = 3_600_000
Files = dict[str, bytes]


def contents(root: Path) -> Files:
    """Every file below a root but the lock files, which say who looked last; folders, too."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"a folder"
        for path in root.rglob("*")
        if path.name != LOCK
    }


def killed(root: Path) -> Path:
    """A log with all that recovery repairs: a damaged snapshot over segments, a torn tail without a seal, unfinished files."""
    live, clock = root.with_name("live"), FakeClock()
    with open_store(
        live, clock=clock, archive=root.with_name("archive"), start_archiver=lambda: InProcess("")
    ) as store:
        b = store.map("b")
        for n in range(3):
            b[f"k{n}"] = "x" * 100
            store.checkpoint()
        b["last"] = "y" * 100
        shutil.copytree(live, root)
        store.close(archive=False)
    folder = log_folder(root, PLACE)
    (snapshot,) = folder.glob("*.snapshot")
    data = bytearray(snapshot.read_bytes())
    data[-20] ^= 1
    snapshot.write_bytes(data)
    last = max(folder.glob("*.wal"))
    data = bytearray(last.read_bytes())
    end = data.rindex(b"y" * 100)
    data[end] ^= 1
    last.write_bytes(data)
    (folder / "zeros-1.partial").write_bytes(bytes(1000))
    (folder / f"{snapshot.name}.0a1b.partial").write_bytes(b"unfinished")
    return folder


def refused(root: Path, error: type[KvwalError], match: str, *, ms: int = START_MS, **given: Any) -> None:
    """Opening `b` is refused, and the root is as it was."""
    before = contents(root)
    with open_store(root, clock=FakeClock(ms), **given) as store, pytest.raises(error, match=match):
        store.map("b")
    assert contents(root) == before


def test_recovery_repairs_the_log_that_the_others_are_refused(tmp_path: Path) -> None:
    """What the tests below would see of a repair that came too early."""
    folder = killed(tmp_path / "root")
    before = contents(tmp_path / "root")
    with open_store(tmp_path / "root", clock=FakeClock()) as store:
        assert dict(store.map("b")) == {f"k{n}": "x" * 100 for n in range(3)}
        assert {path.suffix for path in folder.iterdir()} == {"", ".wal", ".torn"}
        assert len(before.keys() - contents(tmp_path / "root").keys()) == 3


def test_a_clock_that_is_behind_the_log(tmp_path: Path) -> None:
    killed(tmp_path / "root")
    refused(tmp_path / "root", ClockSkew, "ahead of this clock", ms=START_MS - HOUR_MS)


@pytest.mark.parametrize(
    ("old", "new", "given"),
    [
        ("default", "other", {"namespace": "other"}),
        ("default/local", "default/other", {"cluster": "other"}),
        ("default/local/b/local", "default/local/b/other", {"node": "other"}),
        ("default/local/b", "default/local/c", {}),
    ],
)
def test_a_log_of_another_place(old: str, new: str, given: dict[str, str], tmp_path: Path) -> None:
    root = tmp_path / "root"
    killed(root)
    (root / old).rename(root / new)
    before = contents(root)
    with open_store(root, clock=FakeClock(), **given) as store, pytest.raises(ConfigError, match="was written as"):
        store.map("c" if new.endswith("c") else "b")
    assert contents(root) == before


def damage_in_the_middle(folder: Path) -> None:
    path = min(folder.glob("*.wal"))
    data = bytearray(path.read_bytes())
    data[data.index(b"x" * 50)] ^= 1
    path.write_bytes(data)


def a_newer_format(folder: Path) -> None:
    path = max(folder.glob("*.wal"))
    header = SegmentReader(path, path.read_bytes()).header
    path.write_bytes(b"".join(pack_header(msgspec.structs.replace(header, format=9))) + bytes(1000))


def another_log_id(folder: Path) -> None:
    """The last segment comes from another log of the same names: its chain is another one."""
    path = max(folder.glob("*.wal"))
    header = SegmentReader(path, path.read_bytes()).header
    other = msgspec.structs.replace(header, log_id="f" * 32, previous_crc=header.previous_crc ^ 1)
    path.write_bytes(b"".join(pack_header(other)) + bytes(1000))


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (damage_in_the_middle, CorruptLog, "does not verify"),
        (a_newer_format, NewerVersion, "format 9"),
        (another_log_id, CorruptLog, "chain of seals"),
    ],
)
def test_a_log_that_cannot_be_read(
    change: Callable[[Path], None], error: type[KvwalError], match: str, tmp_path: Path
) -> None:
    change(killed(tmp_path / "root"))
    refused(tmp_path / "root", error, match)


def test_a_retired_log_and_a_clock_that_is_behind_its_end(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = log_folder(root, PLACE)
    with open_store(root, clock=FakeClock(), start_archiver=lambda: InProcess("")) as store:
        store.map("b")["a"] = 1
        store.checkpoint()
    (snapshot,) = folder.glob("*.snapshot")
    end = SnapshotReader(snapshot, snapshot.read_bytes()).header
    assert isinstance(end, SnapshotHeader)
    retire(OS_DISK, FakeClock(), root, PLACE, end, lambda: None)
    folder.mkdir(parents=True)
    refused(root, ClockSkew, "ahead of this clock", ms=START_MS - HOUR_MS)
    with open_store(root, clock=FakeClock()) as store:
        assert store.map("b").put("c", 1) > end.last_timestamp
        assert not list(root.rglob("_retired/*/*"))
