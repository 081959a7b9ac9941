"""A location as it is typed: which kind it names, and the sentence for what it cannot be."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import kvwal
from kvwal.client.address import check_nodes
from kvwal.location.parse import ArchiveLocation, ClusterLocation, FolderLocation, Location, parse_location
from kvwal.ports.disk import OS_DISK


@pytest.mark.parametrize(
    ("typed", "location"),
    [
        ("data", FolderLocation(Path("data"))),
        ("./kvwal:/odd", FolderLocation(Path("./kvwal:/odd"))),
        (Path("s3:/bucket"), FolderLocation(Path("s3:/bucket"))),
        ("kvwal://host", ClusterLocation("host")),
        ("kvwal://host:5701/", ClusterLocation("host:5701")),
        ("KVWAL://a:1,b:2", ClusterLocation("a:1,b:2")),
        ("s3://bucket/prefix", ArchiveLocation("s3://bucket/prefix")),
        ("file:///srv/archive", ArchiveLocation("file:///srv/archive")),
        ("memory://archive", ArchiveLocation("memory://archive")),
    ],
)
def test_a_location_names_a_kind(
    typed: str | Path, location: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_location(OS_DISK, typed) == location


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("kvwal:/host:5701", "begins like the address of a cluster, with one slash. Write kvwal://host:5701."),
        ("kvwal://", "kvwal:// is the address of a cluster, and '' is no address of a node. Write kvwal://host:port"),
        ("kvwal://host:port", "'host:port' is no address of a node"),
        ("kvwal://host:70000", "'host:70000' is no address of a node"),
        ("kvwal://a:1,,b:2", "'' is no address of a node"),
        ("kvwal://ho st:5701", "'ho st:5701' is no address of a node"),
        ("kvwal://..:5701", "'..:5701' is no address of a node"),
        (f"kvwal://{'x' * 64}.de:5701", "x.de:5701' is no address of a node"),
        ("kvwal://host:5701/jobs", "ends with its ports. Name the others with --cluster and --namespace."),
        ("s3:/bucket", "begins like a URL, with one slash"),
        ("nfs4://host/x", "no filesystem for nfs4:// is known. .*A location is a folder, a cluster"),
    ],
)
def test_what_is_no_location_is_said_with_the_kind_that_was_meant(typed: str, sentence: str) -> None:
    with pytest.raises(kvwal.ConfigError, match=sentence):
        parse_location(OS_DISK, typed)


@pytest.mark.parametrize("addresses", ["kvwal://a:1,b", "a:1,b", "a:1, b", ["a:1", "kvwal://b"]])
def test_a_connection_takes_a_location_as_well_as_addresses(addresses: str | list[str]) -> None:
    assert check_nodes(addresses) == [("a", 1), ("b", 5701)]


@pytest.mark.parametrize("typed", ["/var/lib/kvwal", "s3://bucket/archive", f"./{'x' * 64}"])
def test_a_folder_or_an_archive_is_no_address_and_what_opens_it_is_said(typed: str) -> None:
    with pytest.raises(
        kvwal.ConfigError, match=r"is no address of a node. Write it as host:port. A folder .*kvwal.open"
    ):
        kvwal.connect(typed)


def test_a_secret_in_an_address_is_refused_and_not_repeated() -> None:
    for read in (partial(parse_location, OS_DISK), check_nodes):
        with pytest.raises(kvwal.ConfigError, match="KVWAL_TOKEN_FILE") as refused:
            read("kvwal://user:hunter2@host:5701")
        assert "hunter2" not in str(refused.value)


@pytest.mark.breaks("files", reason="a lock file makes a folder that has objects the folder of a store")
def test_a_folder_is_an_archive_if_it_has_objects_and_no_log(tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    with kvwal.open(root, archive=archive) as store:
        store.map("jobs")["a"] = 1
    assert parse_location(OS_DISK, str(archive)) == ArchiveLocation(str(archive))
    assert parse_location(OS_DISK, str(root)) == FolderLocation(root)
    (archive / "default" / "local" / "jobs" / "local" / "LOCK").touch()
    assert parse_location(OS_DISK, str(archive)) == FolderLocation(archive)
