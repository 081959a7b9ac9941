"""One name for a data set, however it is spelled: by OpenLineage's naming rules."""

from __future__ import annotations

import pytest

from kvwal.spark.lineage.names import canonical, name_of_path, names_of, names_of_stream, text_of
from kvwal.spark.records import Access

PATHS = {
    "/a/b": ("file", "/a/b"),
    "/a/b/": ("file", "/a/b"),
    "file:/a/b": ("file", "/a/b"),
    "file:///a/b": ("file", "/a/b"),
    "FILE:///a//b": ("file", "/a/b"),
    "file://localhost/a": ("file", "/a"),
    "file://nas/a": ("file://nas", "/a"),
    "s3://lake/mart/sales": ("s3://lake", "mart/sales"),
    "s3a://lake/mart/sales/": ("s3://lake", "mart/sales"),
    "s3n://lake/mart/sales": ("s3://lake", "mart/sales"),
    "s3a://lake": ("s3://lake", "/"),
    "gs://bucket/x": ("gs://bucket", "x"),
    "abfs://c@a.dfs.core.windows.net/x": ("abfss://c@a.dfs.core.windows.net", "x"),
    "wasb://c@a.blob/x": ("wasbs://c@a.blob", "x"),
    "hdfs://nn:8020/data/x": ("hdfs://nn:8020", "/data/x"),
    "hdfs:/data/x": ("hdfs", "/data/x"),
    "hdfs:///data/x": ("hdfs", "/data/x"),
    "dbfs:/data/x": ("dbfs", "/data/x"),
    "s3a://lake/t/day=2026-01-01/hour=7": ("s3://lake", "t"),
    "/t/day=2026-01-01/": ("file", "/t"),
    "/data/[1] *": ("file", "/data/[1] *"),
    "/data/with blank, comma/x": ("file", "/data/with blank, comma/x"),
    "file:/": ("file", "/"),
}


@pytest.mark.parametrize(("path", "name"), PATHS.items())
def test_a_path_has_one_name_in_all_its_spellings(path: str, name: tuple[str, str]) -> None:
    found = name_of_path(path)
    assert found is not None
    assert found.key == name


@pytest.mark.parametrize("path", PATHS)
def test_the_text_of_a_name_is_a_path_to_it(path: str) -> None:
    found = name_of_path(path)
    assert found is not None
    assert name_of_path(found.text) == found


@pytest.mark.parametrize("text", ["", "data/x", "MicroBatchScan[a#1] class X", "orders"])
def test_a_text_that_is_no_path_names_no_data_set(text: str) -> None:
    assert name_of_path(text) is None


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (("s3a://lake", "/mart/sales/"), ("s3://lake", "mart/sales")),
        (("s3://lake/", "mart/sales"), ("s3://lake", "mart/sales")),
        (("file", "/a/"), ("file", "/a")),
        (("file://", "/a"), ("file", "/a")),
        (("hdfs://nn:8020", "data/x"), ("hdfs://nn:8020", "/data/x")),
        (("postgres://db:5432", "shop.public.orders"), ("postgres://db:5432", "shop.public.orders")),
        (("kafka://b:9092", "topic/"), ("kafka://b:9092", "topic/")),
        (("bigquery", "p.d.t"), ("bigquery", "p.d.t")),
        (("food_delivery", "public.menus"), ("food_delivery", "public.menus")),
    ],
)
def test_a_name_that_a_producer_told_is_spelled_as_ours(told: tuple[str, str], name: tuple[str, str]) -> None:
    assert canonical(*told) == name


ACCESSES: list[tuple[Access, list[str]]] = [
    (Access("parquet", "file:/w/t", table="spark_catalog.default.t"), ["file:///w/t"]),
    (Access("hive", table="spark_catalog.default.hv"), ["spark_catalog/default.hv"]),
    (Access("iceberg", table="local.db.t"), ["local/db.t"]),
    (Access("iceberg", table="db.t"), ["iceberg/db.t"]),
    (Access("delta", table="d.t"), ["spark_catalog/d.t"]),
    (Access("jdbc", "APP.RETURNS"), ["jdbc/APP.RETURNS"]),
    (Access("jdbc", table="shop.APP.ORDERS"), ["jdbc/shop.APP.ORDERS"]),
    (Access("csv", "file:/a, s3a://b/c, ..."), ["file:///a", "s3://b/c"]),
    (Access("csv", "file:/a, file:/very … cut … long/x, file:/b"), ["file:///a", "file:///b"]),
    (Access("parquet", "file:/t/d=1, file:/t/d=2", table="spark_catalog.default.t"), ["file:///t"]),
    (Access("textFile", "/a/*.txt,/b,/c/2026-*/x[12]"), ["file:///a", "file:///b", "file:///c"]),
    (Access("table", table="noop-table"), []),
    (Access("InMemoryTableScan", "InMemoryTableScan [id]"), []),
    (Access("LocalTableScan", "LocalTableScan [id#1]"), []),
    (Access("MergeIntoCommand", "Execute MergeIntoCommand"), []),
    (Access("saveAsTextFile"), []),
]


@pytest.mark.parametrize(("access", "texts"), ACCESSES)
def test_an_access_names_its_data_sets(access: Access, texts: list[str]) -> None:
    assert [name.text for name in names_of(access)] == texts


def test_a_path_keeps_the_table_that_is_known_beside_it() -> None:
    (name,) = names_of(Access("orc", "file:/w/t", table="spark_catalog.default.t"))
    assert name.table == "spark_catalog/default.t"


def test_a_batch_of_a_stream_reads_the_folder_of_its_files() -> None:
    access = Access("json", "file:/in/part-0001.json, file:/in/b.json")
    assert [name.text for name in names_of(access)] == ["file:///in/part-0001.json", "file:///in/b.json"]
    assert [name.text for name in names_of(access, of_stream=True)] == ["file:///in"]


@pytest.mark.parametrize(
    ("description", "texts"),
    [
        ("KafkaV2[Subscribe[orders, returns]]", ["kafka/orders", "kafka/returns"]),
        ("FileStreamSource[file:/in]", ["file:///in"]),
        ("FileSink[s3a://lake/out]", ["s3://lake/out"]),
        ("RateStreamV2[rowsPerSecond=1]", []),
        ("org.apache.spark.sql.execution.streaming.ConsoleTable$@1a", []),
    ],
)
def test_a_source_of_a_stream_names_its_topics_or_its_path(description: str, texts: list[str]) -> None:
    assert [name.text for name in names_of_stream(description)] == texts


def test_a_name_in_one_text_keeps_its_namespace() -> None:
    assert text_of("postgres://db:5432", "shop.public.orders") == "postgres://db:5432/shop.public.orders"
    assert text_of("hdfs://nn", "/x") == "hdfs://nn/x"
