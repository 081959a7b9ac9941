"""A reader without the lock refuses what recovery refuses, and says where a tail is torn."""

from __future__ import annotations

from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ConfigError, CorruptLog
from kvwal.history.reads.tail_reader import latest_entries, read_local
from kvwal.log.files.names import log_folder
from kvwal.scrub.inspect import examine
from kvwal.store.reading.figures import read_only_stats
from kvwal_archive.layout import Place
from tests.support.disk.faults import make_options
from tests.support.log.logs import PLACE, Writer, keys, recovered
from tests.support.log.store import fill_segments


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of three sealed segments."""
    writer = Writer(log_folder(tmp_path, PLACE))
    for _ in range(3):
        writer.group(2, 2)
        writer.appender.rotate()
    writer.close()
    return tmp_path


def segments(root: Path) -> list[Path]:
    return sorted(log_folder(root, PLACE).glob("*.wal"))


def refused(root: Path) -> None:
    disk = make_options(root).disk
    for read in (latest_entries, read_local):
        with pytest.raises(CorruptLog):
            read(disk, root, PLACE)
    with pytest.raises(CorruptLog):
        recovered(log_folder(root, PLACE))


def test_a_sound_log_is_read(root: Path) -> None:
    assert [entry.key for entry in read_local(make_options(root).disk, root, PLACE).tail.entries] == keys(12)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_segment(root: Path, number: int) -> None:
    segments(root)[number].unlink()
    refused(root)


def test_a_segment_of_another_time(root: Path, tmp_path: Path) -> None:
    other = Writer(tmp_path / "other")
    other.group(2, 1, 1)
    other.close()
    segments(root)[0].write_bytes((tmp_path / "other" / segments(root)[0].name).read_bytes())
    refused(root)


def test_a_segment_under_the_name_of_another(root: Path) -> None:
    segments(root)[0].unlink()
    segments(root)[0].rename(segments(root)[0].with_name(f"{1:020}.wal"))
    refused(root)


def test_a_torn_tail_is_said(tmp_path: Path) -> None:
    writer = Writer(log_folder(tmp_path, PLACE))
    writer.group(2)
    writer.group(1)
    writer.crash()
    options = make_options(tmp_path, namespace=PLACE.namespace, cluster=PLACE.cluster)
    assert read_only_stats(options)["businesses"]["b"]["n"]["torn"] is None
    (path,) = segments(tmp_path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"value-0003", b"value-0002"))
    assert path.name in read_only_stats(options)["businesses"]["b"]["n"]["torn"]
    assert len(read_local(options.disk, tmp_path, PLACE).tail.entries) == 2


@pytest.mark.parametrize("checkpointed", [0, 2, 3])
def test_a_log_that_was_moved_is_refused_as_recovery_refuses_it(tmp_path: Path, checkpointed: int) -> None:
    fill_segments(tmp_path, segments=3, archived=0, checkpointed=checkpointed)
    there, here = (Place("default", "local", business, "local") for business in ("b", "moved"))
    log_folder(tmp_path, there).parent.rename(log_folder(tmp_path, here).parent)
    disk, said = make_options(tmp_path).disk, "it was written as default/local/b/local, and does not belong here"
    for read in (latest_entries, read_local):
        with pytest.raises(ConfigError, match=said):
            read(disk, tmp_path, here)
    with pytest.raises(ConfigError, match=said), kvwal.open(tmp_path, archive=None) as store:
        store.map("moved")
    assert all(said in file.problem for file in examine(disk, tmp_path, here))
