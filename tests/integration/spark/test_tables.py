"""Spark reads what kvwal gives it: typed tables as data frames, and an archive by the lines of docs/format/archive.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

import kvwal
from kvwal.spark.tables.catalogue import TABLES
from tests.support.spark import session
from tests.support.spark_records import records

PAGE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "format" / "archive.md"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("tables")
    yield spark
    spark.stop()


def test_every_typed_table_is_a_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("spark").put_many(records())
        for name in TABLES:
            table = kvwal.spark.table(store, name)
            frame = spark.createDataFrame(table)
            assert frame.columns == table.schema.names
            assert frame.count() == table.num_rows > 0
        jobs = spark.createDataFrame(kvwal.spark.table(store, "jobs"))
    found = jobs.selectExpr("id", "unix_millis(started) AS at", "error.message AS why", "size(stages) AS n").collect()
    assert [tuple(row) for row in found] == [(3, 1_767_268_800_000, None, 0), (4, None, "no space left", 2)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The archive of two nodes: a key that both wrote, one that was deleted, and two objects of one node."""
    for node, numbers in (("n1", range(5)), ("n2", range(3, 12))):
        with kvwal.open(tmp_path / "root", node=node, archive=tmp_path / "archive") as store:
            jobs = store.map("jobs")
            jobs.put_many({f"job-{number}": {"ms": number, "by": node} for number in numbers})
            store.archive()
            jobs.delete("job-4")
            jobs["job-0"] = {"ms": 100, "by": node}
    return tmp_path / "archive"


def test_the_lines_of_the_page_read_the_latest_of_all_nodes(spark: SparkSession, archive: Path) -> None:
    (lines,) = re.findall(r"^## Read by Spark\n.*?^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"spark": spark, "archive": str(archive), "expr": expr}
    exec(lines, names)
    with kvwal.open(archive.parent / "root", read_only=True) as store:
        expected = {key: value["ms"] for key, value in store.map("jobs").items()}
    assert expected["job-0"] == 100
    assert {row.key: row.ms for row in names["jobs"].collect()} == expected


def test_without_the_option_only_the_folder_of_a_node_is_read(spark: SparkSession, archive: Path) -> None:
    assert spark.read.parquet(str(archive / "default" / "local" / "jobs" / "n1")).count() == 7
    with pytest.raises(AnalysisException, match="UNABLE_TO_INFER_SCHEMA"):
        spark.read.parquet(str(archive / "default" / "local" / "jobs"))
