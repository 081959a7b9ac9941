"""Large values on a real Spark: an archive, a folder and a stream show the value itself, and not where its bytes stand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import kvwal
import kvwal.spark
import kvwal_archive.spark
from tests.support.datasource.streams import Stream
from tests.support.spark import session

NAMES = {"namespace": "default", "cluster": "local", "business": "jobs"}
TEXT = {"text": "x" * 5000, "number": 1}
LARGE = bytes(range(256)) * 20


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("test_values_on_spark")
    kvwal.spark.register(spark)
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("values") / "root"
    with kvwal.open(root, archive=root.parent / "archive", settings=kvwal.Settings(inline_bytes=1000)) as store:
        store.map("jobs").put_many({"text": TEXT, "bytes": LARGE, "small": 7})
        store.queue("jobs").put(TEXT)
        store.archive()
    return root


@pytest.mark.long
def test_frames_of_the_archive_have_the_bytes(spark: SparkSession, root: Path) -> None:
    for read in (kvwal_archive.spark.merge, kvwal_archive.spark.history):
        frame = read(spark, str(root.parent / "archive"), **NAMES)
        rows = {
            bytes(row.key): (bytes(row.value), row.value_class) for row in frame.where("key_class = 'str'").collect()
        }
        assert rows[b"bytes"] == (LARGE, "bytes")
        assert (json.loads(rows[b"text"][0]), rows[b"text"][1]) == (TEXT, "json")


@pytest.mark.long
@pytest.mark.parametrize("location", ["archive", "store"])
def test_the_source_has_the_values(spark: SparkSession, root: Path, location: str) -> None:
    where = root if location == "store" else root.parent / "archive"
    options = {"business": "jobs", location: str(where)}
    rows = {row.key: row.value for row in spark.read.format("kvwal").options(**options).load().collect()}
    assert json.loads(rows["text"]) == TEXT
    (item,) = spark.read.format("kvwal").options(**options, structure="queue").load().collect()
    assert json.loads(item.value) == TEXT


@pytest.mark.long
def test_a_stream_has_the_values(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    for location in ({"archive": str(root.parent / "archive")}, {"store": str(root)}):
        stream = Stream(spark, tmp_path / next(iter(location)), **location)
        stream.run()
        assert {row.key: json.loads(row.value) for row in stream.rows if row.key == "text"} == {"text": TEXT}
