"""Mistyped folders of foreign logs: each sentence says where the log is, or whose it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kvwal.errors import ConfigError, NewerVersion
from kvwal.importers.flume.folders import log_paths
from kvwal.importers.flume.records import check_meta
from kvwal.importers.recognize import FLUME, NIFI, PRODUCTS, SEATUNNEL, Product, check_folder
from kvwal.ports.disk import OS_DISK
from tests.support.java.golden_logs import Found, nifi
from tests.support.java.logs import GOLDEN

REGION = next((GOLDEN / "seatunnel" / "cluster" / "jobs").iterdir())


@pytest.mark.parametrize(
    ("folder", "product"),
    [
        (GOLDEN / "seatunnel" / "cluster", SEATUNNEL),
        (GOLDEN / "seatunnel" / "cluster" / "jobs", SEATUNNEL),
        (GOLDEN / "flume", FLUME),
        (GOLDEN / "nifi-sequential", NIFI),
        (GOLDEN / "nifi-minimal", NIFI),
    ],
)
def test_a_folder_is_that_of_one_product(folder: Path, product: Product) -> None:
    check_folder(OS_DISK, folder, product)
    for other in PRODUCTS:
        if other is not product:
            with pytest.raises(ConfigError, match=f"has a log of {product.name}, and none of {other.name}"):
                check_folder(OS_DISK, folder, other)


@pytest.mark.parametrize(
    ("folder", "product", "says"),
    [
        (GOLDEN / "seatunnel", SEATUNNEL, "cluster"),
        (GOLDEN, NIFI, "nifi-minimal, "),
        (GOLDEN, FLUME, "flume"),
        (GOLDEN.parent, FLUME, "flume"),
        (REGION, SEATUNNEL, "is a part of SeaTunnel's log in"),
        (GOLDEN / "nifi-sequential" / "journals", NIFI, "is a part of NiFi's log in"),
        (GOLDEN / "nifi-minimal" / "partition-0", NIFI, "is a part of NiFi's log in"),
        (GOLDEN / "README.md", NIFI, "is a file"),
        (GOLDEN / "nothing", FLUME, "there is no such folder"),
        (GOLDEN / "java", FLUME, "has no log of Flume"),
    ],
)
def test_a_folder_above_or_below_is_named(folder: Path, product: Product, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        check_folder(OS_DISK, folder, product)
    assert raised.value.hint


def test_one_of_several_data_folders_is_refused() -> None:
    with pytest.raises(ConfigError, match="is one of the 2 folders with logs"):
        log_paths(OS_DISK, GOLDEN / "flume" / "data1")


def test_folders_of_two_channels_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copytree(GOLDEN / "flume" / "data1", tmp_path / name)
    with pytest.raises(ConfigError, match="have one number, so they are of two channels"):
        log_paths(OS_DISK, tmp_path)


def test_a_log_without_its_meta_file_is_read_unless_it_is_of_the_old_format(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "flume", tmp_path / "channel")
    log = log_paths(OS_DISK, tmp_path / "channel")[0].path
    Path(f"{log}.meta").rename(f"{log}.meta.old")
    check_meta(OS_DISK, log)
    Path(f"{log}.meta.old").unlink()
    check_meta(OS_DISK, log)
    log.write_bytes(b"\0\0\0\x02" + log.read_bytes())
    with pytest.raises(ConfigError, match="of a Flume before"):
        check_meta(OS_DISK, log)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "flume", tmp_path / "channel")
    log = log_paths(OS_DISK, tmp_path / "channel")[0].path
    meta = Path(f"{log}.meta")
    meta.write_bytes(meta.read_bytes().replace(b"\x0d\x03\x00\x00\x00", b"\x0d\x04\x00\x00\x00", 1))
    with pytest.raises(NewerVersion, match="log format 4"):
        check_meta(OS_DISK, log)
    shutil.copytree(GOLDEN / "nifi-sequential", tmp_path / "repository")
    snapshot = tmp_path / "repository" / "checkpoint"
    name = b"HashMapSnapshot"
    snapshot.write_bytes(snapshot.read_bytes().replace(name + b"\0\0\0\x01", name + b"\0\0\0\x02", 1))
    found = Found()
    assert nifi(tmp_path / "repository", found)
    assert [name for name, _, _ in found.damaged_places] == ["checkpoint"], "one file among others is a damaged one"
    shutil.rmtree(tmp_path / "repository" / "journals")
    (tmp_path / "repository" / "journals").mkdir()
    with pytest.raises(NewerVersion, match="version 2 of a newer NiFi"):
        nifi(tmp_path / "repository", Found())


def test_a_foreign_serializer_is_named(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "nifi-sequential", tmp_path / "repository")
    snapshot = tmp_path / "repository" / "checkpoint"
    (journal,) = (tmp_path / "repository" / "journals").iterdir()
    for path in (snapshot, journal):
        path.write_bytes(path.read_bytes().replace(b"repository.SchemaRepository", b"repository.NobodyRepository", 1))
    with pytest.raises(ConfigError, match=r"written by the serializer org.*Nobody"):
        nifi(tmp_path / "repository", Found())
