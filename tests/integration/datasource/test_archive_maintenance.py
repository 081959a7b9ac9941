"""Maintenance of an archive on a real Spark: the objects, the report and the rest are those of the local maintenance."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import archive.spark
from archive.errors import ConfigError
from archive.maintenance import compaction
from archive.objects import LocalObjects, open_objects
from archive.verify import verify
from archive.view import latest
from tests.support.archive.history import PLACE, fill, from_table, object_paths, place
from tests.support.spark import session

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
NAMES = {"namespace": PLACE.namespace, "cluster": PLACE.cluster, "business": PLACE.business}
SPANS = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50)]
FOR_EVER = 1 << 41
PLACES = [PLACE, place("other")]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("maintenance")
    yield spark
    spark.stop()


@pytest.fixture
def objects(tmp_path: Path) -> LocalObjects:
    """An archive of two nodes with five objects each."""
    found = open_objects(str(tmp_path / "archive"))
    assert isinstance(found, LocalObjects)
    for node in PLACES:
        fill(found, node, SPANS)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_a_rewrite_makes_the_objects_that_a_local_one_makes(
    spark: SparkSession, objects: LocalObjects, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    local = open_objects(str(tmp_path / "copy"))
    expected = [stored for node in PLACES for stored in compaction.rewrite(local, node, now_ms=0, force=True)]
    before = from_table(latest(objects, *WHERE))
    made = archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER)
    assert sorted(made) == sorted(expected)
    assert contents(tmp_path / "archive") == contents(tmp_path / "copy")
    assert archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER) == []
    removed = archive.spark.gc(spark, objects.url, **NAMES, grace_ms=0)
    assert len(removed) == len(PLACES) * len(SPANS)
    assert {stored.key for stored in made} == {*contents(tmp_path / "archive")}
    assert from_table(latest(objects, *WHERE)) == before
    assert archive.spark.gc(spark, objects.url, **NAMES, grace_ms=0) == []


def test_two_rewrites_at_once_make_each_object_once(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    before = {*contents(tmp_path / "archive")}

    def rewrite(_: int) -> set[str]:
        made = archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER)
        return {stored.key for stored in made}

    with ThreadPoolExecutor(2) as both:
        first, second = both.map(rewrite, range(2))
    assert first | second == {*contents(tmp_path / "archive")} - before
    assert len(first | second) == len(PLACES)
    assert archive.spark.verify(spark, objects.url, **NAMES).findings == []


def test_the_report_is_that_of_the_local_check(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    def reports() -> None:
        local = [verify(objects, node) for node in PLACES]
        found = archive.spark.verify(spark, objects.url, **NAMES)
        assert found.objects_checked == sum(one.objects_checked for one in local)
        assert found.rows == sum(one.rows for one in local)
        assert found.findings == sorted((fault for one in local for fault in one.findings), key=lambda fault: fault.key)

    reports()
    paths = object_paths(tmp_path / "archive")
    data = paths[0].read_bytes()
    paths[0].write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    paths[3].unlink()
    (paths[0].parent / "readme.txt").write_text("not of the archive")
    reports()
    assert {fault.kind for fault in archive.spark.verify(spark, objects.url, **NAMES).findings} == {
        "damaged", "gap", "unknown",
    }  # fmt: skip


def test_what_is_wrong_is_an_error_of_the_archive(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    for work in (archive.spark.rewrite, archive.spark.verify, archive.spark.gc):
        with pytest.raises(ConfigError, match=r"no business 'job' in ns/local \(there are: jobs\)"):
            work(spark, objects.url, **{**NAMES, "business": "job"})
        with pytest.raises(ConfigError, match="no filesystem for nowhere:// is known"):
            work(spark, "nowhere://bucket", **NAMES)
    path = object_paths(tmp_path / "archive")[0]
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(PythonException, match=rf"ArchiveDamaged: .*{path.name}: "):
        archive.spark.rewrite(spark, objects.url, **NAMES, force=True)
