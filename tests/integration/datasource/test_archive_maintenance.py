"""Maintenance of an archive on a real Spark: the objects, the bases, the report and the rest are those of the local one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import kvwal
import kvwal.spark
import kvwal_archive.spark
from kvwal_archive.bases.build import BasePlan, put_parts
from kvwal_archive.bases.local import make_base
from kvwal_archive.bases.record import Base, Part
from kvwal_archive.bases.select import LogRead, newest_base
from kvwal_archive.errors import ConfigError
from kvwal_archive.layout import base_folder
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import LocalObjects, Objects, open_objects
from kvwal_archive.reader import read_rows
from kvwal_archive.spark import bases, plan
from kvwal_archive.spark.scan import latest_rows
from kvwal_archive.verify import verify
from kvwal_archive.view import latest, parts
from tests.support.archive import s3
from tests.support.archive.history import PLACE, fill, from_table, object_paths, place
from tests.support.spark import session

WHERE = (PLACE.namespace, PLACE.cluster, PLACE.business)
NAMES = {"namespace": PLACE.namespace, "cluster": PLACE.cluster, "business": PLACE.business}
SPANS = [(1, 10), (11, 20), (21, 30), (31, 40), (41, 50)]
FOR_EVER = 1 << 41
PLACES = [PLACE, place("other")]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (s3.server().environment() if s3.weed() else {}).items():
            patch.setenv(name, value)  # the workers inherit it
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


@pytest.mark.long
def test_a_rewrite_makes_the_objects_that_a_local_one_makes(
    spark: SparkSession, objects: LocalObjects, tmp_path: Path
) -> None:
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    local = open_objects(str(tmp_path / "copy"))
    expected = [stored for node in PLACES for stored in compaction.rewrite(local, node, now_ms=0, force=True)]
    before = from_table(latest(objects, *WHERE))
    made = kvwal_archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER)
    assert sorted(made) == sorted(expected)
    assert contents(tmp_path / "archive") == contents(tmp_path / "copy")
    assert kvwal_archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER) == []
    removed = kvwal_archive.spark.gc(spark, objects.url, **NAMES, grace_ms=0)
    assert len(removed) == len(PLACES) * len(SPANS)
    assert {stored.key for stored in made} == {*contents(tmp_path / "archive")}
    assert from_table(latest(objects, *WHERE)) == before
    assert kvwal_archive.spark.gc(spark, objects.url, **NAMES, grace_ms=0) == []


@pytest.mark.long
def test_two_rewrites_at_once_make_each_object_once(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    before = {*contents(tmp_path / "archive")}

    def rewrite(_: int) -> set[str]:
        made = kvwal_archive.spark.rewrite(spark, objects.url, **NAMES, force=True, history_ms=FOR_EVER)
        return {stored.key for stored in made}

    with ThreadPoolExecutor(2) as both:
        first, second = both.map(rewrite, range(2))
    assert first | second == {*contents(tmp_path / "archive")} - before
    assert len(first | second) == len(PLACES)
    assert kvwal_archive.spark.verify(spark, objects.url, **NAMES).findings == []


@pytest.mark.long
@pytest.mark.breaks("files", reason="one object is there that nothing reads, for the report")
def test_the_report_is_that_of_the_local_check(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    def reports() -> None:
        local = [verify(objects, node) for node in PLACES]
        found = kvwal_archive.spark.verify(spark, objects.url, **NAMES)
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
    assert {fault.kind for fault in kvwal_archive.spark.verify(spark, objects.url, **NAMES).findings} == {
        "damaged", "gap", "unknown",
    }  # fmt: skip


def test_what_is_wrong_is_an_error_of_the_archive(spark: SparkSession, objects: LocalObjects, tmp_path: Path) -> None:
    for work in (
        kvwal_archive.spark.rewrite,
        kvwal_archive.spark.base,
        kvwal_archive.spark.verify,
        kvwal_archive.spark.gc,
    ):
        with pytest.raises(ConfigError, match=r"no map 'job' in ns/local \(there are: jobs\)"):
            work(spark, objects.url, **{**NAMES, "business": "job"})
        with pytest.raises(ConfigError, match="no filesystem for nowhere:// is known"):
            work(spark, "nowhere://bucket", **NAMES)
    path = object_paths(tmp_path / "archive")[0]
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(PythonException, match=rf"ArchiveDamaged: .*{path.name}: "):
        kvwal_archive.spark.rewrite(spark, objects.url, **NAMES, force=True)


def chosen(objects: Objects) -> Base | None:
    logs = {part.place.node: LogRead(part.infos) for part in parts(objects, *WHERE)}
    return newest_base(objects, WHERE, logs)


def rows_of(objects: Objects, base: Base) -> list[dict[str, object]]:
    """The rows of a base, in the order of their identity."""
    found = [info for node in base.positions for info in base.objects_of(node)]
    rows = [{**row, "node": info.footer.node} for info in found for row in read_rows(objects, info).to_pylist()]
    return sorted(rows, key=lambda row: (row["key_class"], row["key"]))


@pytest.mark.long
def test_a_base_has_the_rows_of_a_local_one_and_reads_begin_with_it(
    spark: SparkSession, objects: LocalObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    copy = open_objects(str(tmp_path / "copy"))
    local = make_base(copy, *WHERE)
    merged = from_table(latest(objects, *WHERE))
    frame = sorted(kvwal_archive.spark.merge(spark, objects.url, **NAMES).collect())
    monkeypatch.setattr(plan, "PARTITION_BYTES", 1)
    made = kvwal_archive.spark.base(spark, objects.url, **NAMES)
    assert chosen(objects) == made == kvwal_archive.spark.base(spark, objects.url, **NAMES)
    assert rows_of(objects, made) == rows_of(copy, local)
    for path in object_paths(tmp_path / "archive" / PLACE.prefix):  # no row of them is read
        data = path.read_bytes()
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert from_table(latest(objects, *WHERE)) == merged
    assert sorted(kvwal_archive.spark.merge(spark, objects.url, **NAMES).collect()) == frame
    assert {fault.kind for fault in kvwal_archive.spark.verify(spark, objects.url, **NAMES).findings} == {"damaged"}
    fill(objects, PLACES[1], [(51, 60)])
    newer = kvwal_archive.spark.base(spark, objects.url, **NAMES)
    assert newer.positions["other"].sequence == 60
    assert set(kvwal_archive.spark.gc(spark, objects.url, **NAMES, grace_ms=0)) == {
        made.key, *(made.part_key(part) for part in made.parts),
    }  # fmt: skip
    assert chosen(objects) == newer


@pytest.mark.long
def test_a_base_whose_worker_or_driver_is_killed_is_made_by_the_next_run(
    spark: SparkSession, objects: LocalObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged = from_table(latest(objects, *WHERE))

    def dying(url: str, made: BasePlan, piece: tuple[int, plan.Partition]) -> list[Part]:
        opened = open_objects(url)
        next(put_parts(opened, made, piece[0], latest_rows(opened, piece[1])))
        os._exit(9)

    with monkeypatch.context() as patch:
        patch.setattr(bases, "_put", dying)
        with pytest.raises(Py4JJavaError, match="Python worker exited unexpectedly"):
            kvwal_archive.spark.base(spark, objects.url, **NAMES)
    folder = base_folder(*WHERE)
    assert len(objects.list(folder)) == 1
    with monkeypatch.context() as patch:
        patch.setattr(bases, "commit_base", _killed)
        with pytest.raises(Killed):
            kvwal_archive.spark.base(spark, objects.url, **NAMES)
    assert len(objects.list(folder)) == len(PLACES)
    assert chosen(objects) is None
    assert from_table(latest(objects, *WHERE)) == merged
    made = kvwal_archive.spark.base(spark, objects.url, **NAMES)
    assert len(objects.list(folder)) == len(PLACES) + 1
    assert chosen(objects) == made
    assert from_table(latest(objects, *WHERE)) == merged


@pytest.mark.long
@pytest.mark.skipif(s3.weed() is None, reason="SeaweedFS is not installed here")
def test_two_rewrites_and_two_bases_at_once_in_a_bucket(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.bucket(s3.server())
    for name in os.environ:
        if name.startswith("AWS_"):  # the workers have the variables of the moment at which the session began
            monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
    objects = open_objects(url)
    for node in PLACES:
        fill(objects, node, SPANS)
    merged = from_table(latest(objects, *WHERE))

    def twice(work: Callable[[], object]) -> list[object]:
        with ThreadPoolExecutor(2) as both:
            return list(both.map(lambda _: work(), range(2)))

    def rewrite() -> set[str]:
        return {s.key for s in kvwal_archive.spark.rewrite(spark, url, **NAMES, force=True, history_ms=FOR_EVER)}

    twice(rewrite)
    wide = [item.key for item in objects.list("ns/") if "00001-00000000000000000050" in item.key]
    assert len(wide) == len(PLACES)
    assert kvwal_archive.spark.verify(spark, url, **NAMES).findings == []
    assert len(kvwal_archive.spark.gc(spark, url, **NAMES, grace_ms=0)) == len(PLACES) * len(SPANS)
    assert from_table(latest(objects, *WHERE)) == merged
    made = twice(lambda: kvwal_archive.spark.base(spark, url, **NAMES))
    assert made[0] == made[1] == chosen(objects)
    assert len(objects.list(base_folder(*WHERE))) == len(PLACES) + 1
    assert from_table(latest(objects, *WHERE)) == merged
    assert kvwal_archive.spark.verify(spark, url, **NAMES).findings == []


@pytest.mark.long
def test_a_restore_by_spark_is_the_local_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a base and rows after it, killed and run again, and as of an earlier moment."""
    url = tmp_path / "archive"
    with kvwal.open(tmp_path / "root", archive=url) as store:
        jobs = store.map("jobs")
        jobs.put_many({f"k{number}": number for number in range(200)})
        del jobs["k0"]
        store.archive()
        kvwal_archive.spark.base(spark, str(url), namespace="default", cluster="local", business="jobs")
        moment = jobs.put("k1", "changed")
        jobs.put("k1", "changed again")
        store.archive()
    monkeypatch.setattr(plan, "PARTITION_BYTES", 1)
    target = tmp_path / "by spark"
    with monkeypatch.context() as patch:
        patch.setattr("kvwal.history.restore.restore.give_name", _killed)
        with pytest.raises(Killed):
            kvwal.spark.restore(spark, url, target)
    for at in (None, moment):
        folders = [target, tmp_path / "local"] if at is None else [tmp_path / "spark then", tmp_path / "local then"]
        reports = [kvwal.spark.restore(spark, url, folders[0], at=at), kvwal.restore(url, folders[1], at=at)]
        assert isinstance(reports[0], kvwal.RestoreReport)
        assert reports[0].positions == reports[1].positions
        assert reports[0].entries == reports[1].entries
        entries = []
        for folder in folders:
            with kvwal.open(folder, node="restored", archive=None, read_only=True) as store:
                entries.append(dict(store.map("jobs").items()))
                assert store.map("jobs").get("k0") is None
        assert entries[0] == entries[1]
        assert entries[0]["k1"] == ("changed again" if at is None else "changed")


class Killed(BaseException):
    """The driver is gone."""


def _killed(*_: object) -> Base:
    raise Killed
