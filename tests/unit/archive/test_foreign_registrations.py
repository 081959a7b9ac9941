"""A registration that is not that of its place: another place's, another number's, or that of a log which did not write here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kvwal
from kvwal_archive import registry
from kvwal_archive.errors import ArchiveDamaged
from kvwal_archive.layout import Place, registration_key
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.reader import coverage, live_objects
from kvwal_archive.verify import verify
from kvwal_archive.view import latest
from tests.support.archive.history import PLACE, fill, put

OTHER = Place("ns", "other", "jobs", "node-1")
READS: list[Callable[[Objects], object]] = [
    lambda objects: live_objects(objects, PLACE),
    lambda objects: coverage(objects, PLACE, "log-1"),
    lambda objects: latest(objects, "ns", "local", "jobs"),
]


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "archive"))


def replace(objects: Objects, key: str, data: bytes) -> None:
    objects.delete(key)
    assert objects.put_if_absent(key, data)


def test_the_registration_of_another_cluster_is_not_believed(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10)], "log-1")
    fill(objects, OTHER, [(1, 10)], "log-2")
    replace(objects, registration_key(PLACE, 1), objects.read(registration_key(OTHER, 1)))
    for read in READS:
        with pytest.raises(ArchiveDamaged, match=r"ns/local/jobs/node-1/_log: .* of ns/other/jobs/node-1"):
            read(objects)
    with pytest.raises(ArchiveDamaged, match="of ns/other/jobs/node-1"):
        registry.register(objects, PLACE, "log-1")
    with pytest.raises(ArchiveDamaged, match="of ns/other/jobs/node-1"):
        registry.take_over(objects, PLACE, "log-3", 11)
    assert [found.kind for found in verify(objects).findings] == ["registration"]


def test_a_registration_under_another_number_is_not_believed(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10)], "log-1")
    objects.put_if_absent(registration_key(PLACE, 2), objects.read(registration_key(PLACE, 1)))
    with pytest.raises(ArchiveDamaged, match=r"node-1/_log\.2: .* is number 1 of ns/local/jobs/node-1"):
        registry.owner(objects, PLACE)


def test_objects_of_a_log_that_no_registration_knows_are_not_passed_over(objects: Objects) -> None:
    """Registrations of earlier versions do not say their place: the objects do not fit them all the same."""
    fill(objects, PLACE, [(1, 10)], "log-1")
    replace(objects, registration_key(PLACE, 1), b'{"format":1,"log_id":"log-2"}')
    for read in READS[:1] + READS[2:]:
        with pytest.raises(ArchiveDamaged, match=r"-00000000000000000010\.parquet: .* log-1, .*registration"):
            read(objects)
    assert [found.kind for found in verify(objects).findings] == ["foreign"]


def test_a_lost_registration_of_a_take_over_hides_nothing(objects: Objects) -> None:
    fill(objects, PLACE, [(1, 10)], "log-1")
    registry.take_over(objects, PLACE, "log-2", 11)
    put(objects, PLACE, 11, 20, "log-2")
    objects.delete(registration_key(PLACE, 2))
    with pytest.raises(ArchiveDamaged, match="log-2"):
        live_objects(objects, PLACE)


@pytest.mark.long
def test_a_restore_does_not_leave_out_what_a_wrong_registration_hides(tmp_path: Path) -> None:
    for cluster in ("east", "west"):
        with kvwal.open(tmp_path / cluster, cluster=cluster, archive=tmp_path / "archive") as store:
            store.map("jobs")["job-1"] = cluster
    objects = open_objects(str(tmp_path / "archive"))
    east, west = (registration_key(Place("default", name, "jobs", "local"), 1) for name in ("east", "west"))
    replace(objects, east, objects.read(west))
    with pytest.raises(kvwal.ArchiveDamaged, match="default/east/jobs/local/_log"):
        kvwal.restore(tmp_path / "archive", tmp_path / "again", cluster="east", node="node-2")
    with kvwal.open(tmp_path / "east", cluster="east", archive=tmp_path / "archive") as store:
        store.map("jobs")["job-2"] = "east"
        with pytest.raises(kvwal.ArchiveDamaged, match="default/east/jobs/local/_log"):
            store.archive()
        store.close(archive=False)
