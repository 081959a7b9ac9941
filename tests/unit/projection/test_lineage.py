"""The tables and files that an application read and wrote, from the events of a real one (tests/golden/lineage/make.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvwal.spark import records as rec
from kvwal.spark.eventlog.lines import Lines
from kvwal.spark.events.parser import parse_line
from kvwal.spark.events.sql import PlanMetric, PlanNode, SqlEnd, SqlStart
from kvwal.spark.projection.projection import Projection

LOG = Path(__file__).resolve().parents[2] / "golden" / "lineage" / "local-1.zstd"
SALES = ("parquet", "file:/data/warehouse/sales", "spark_catalog.default.sales", 100)
NUMBERS = ("parquet", "file:/data/numbers", "", 100)
Places = list[tuple[str, str, str, int]]
EXPECTED: dict[str, tuple[Places, Places]] = {
    "files": ([], [NUMBERS]),
    "saveAsTable": ([NUMBERS], [SALES]),
    "create as select": ([SALES], [("orc", "file:/data/warehouse/copies", "spark_catalog.default.copies", 60)]),
    "insert": ([SALES], [("orc", "file:/data/warehouse/copies", "spark_catalog.default.copies", 100)]),
    "empty table": ([], []),
    "insert overwrite": ([SALES], [("parquet", "file:/data/warehouse/parts", "spark_catalog.default.parts", 100)]),
    "insertInto": ([SALES], [("orc", "file:/data/warehouse/copies", "spark_catalog.default.copies", 100)]),
    "join": (
        [
            SALES,
            ("orc", "file:/data/warehouse/copies", "spark_catalog.default.copies", 260),
            ("parquet", "file:/data/warehouse/parts", "spark_catalog.default.parts", 100),
        ],
        [],
    ),
    "hive insert": ([SALES], [("hive", "file:/data/warehouse/hv", "spark_catalog.default.hv", 100)]),
    "hive read": ([("hive", "", "spark_catalog.default.hv", 100)], []),
    "hive create as select": ([SALES], [("hive", "file:/data/warehouse/hc", "spark_catalog.default.hc", 100)]),
    "cache filled": ([SALES], []),
    "cache read": ([(*SALES[:3], -1)], []),
    "cache read twice": ([(*SALES[:3], -1)], []),
    "catalog insert": ([SALES], [("jdbc", "", "APP.ORDERS", -1)]),
    "catalog read": ([("jdbc", "", "shop.APP.ORDERS", 1)], []),
    "catalog create as select": ([SALES], [("jdbc", "", "APP.COPIES", -1)]),
    "jdbc write": ([SALES], [("jdbc", "APP.RETURNS", "", -1)]),
    "jdbc read": ([("jdbc", "APP.RETURNS", "", 100)], []),
    "no sink": ([SALES], [("table", "", "noop-table", 100)]),
    "connector": ([NUMBERS], [("json", "file:/data/json", "", 100)]),
}
RDDS: dict[str, tuple[Places, Places]] = {
    "text written": ([], [("saveAsTextFile", "", "", 50)]),
    "text read": ([("textFile", "/data/text", "", 50)], []),
    "texts read": ([("textFile", "/data/text", "", -1), ("textFile", "/data/text/part-00000", "", -1)], []),
    "pickles written": ([], [("saveAsObjectFile", "", "", 1)]),
    "pickles read": ([("objectFile", "/data/pickles", "", 1)], []),
}


@pytest.fixture(scope="module")
def told() -> list[Any]:
    """The records of the application."""
    projection = Projection("app", lambda key: None)
    lines = Lines(LOG)
    while (batch := lines.more()) is not None:
        for line in batch:
            event = parse_line(line)
            if event is not None:
                projection.apply(event, 1)
    lines.close()
    return [rec.from_value(value) for value in projection.take().values()]


def places(accesses: list[rec.Access]) -> Places:
    return [(access.what, access.where, access.table, access.rows) for access in accesses]


def sql_of(told: list[Any], description: str) -> list[rec.Sql]:
    return [record for record in told if isinstance(record, rec.Sql) and record.description == description]


@pytest.mark.parametrize("description", EXPECTED)
def test_an_execution_names_the_tables_and_paths_that_it_reads_and_writes(told: list[Any], description: str) -> None:
    reads, writes = EXPECTED[description]
    parts = sql_of(told, description)
    assert parts
    assert sorted(places([read for part in parts for read in part.reads])) == sorted(reads)
    # A command and its part that writes name the same table, and only the part counts rows.
    written = [write for part in parts for write in part.writes]
    assert {write.table for write in written} == {table for _, _, table, _ in writes}
    assert set(places(written)) >= set(writes)
    assert not [write for write in written if "Command" in write.what or "AsSelect" in write.what]


@pytest.mark.parametrize("description", RDDS)
def test_a_job_names_the_files_of_its_rdds(told: list[Any], description: str) -> None:
    jobs = [record for record in told if isinstance(record, rec.Job) and record.description == description]
    accesses = [access for job in jobs for access in (*job.reads, *job.writes)]
    reads, writes = RDDS[description]
    assert places(accesses) == [*reads, *writes]


def test_the_jobs_of_sql_have_no_accesses_of_their_own(told: list[Any]) -> None:
    assert not [job for job in told if isinstance(job, rec.Job) and job.sql is not None and (job.reads or job.writes)]


def test_what_a_stop_cancelled_within_a_batch_was_killed(told: list[Any]) -> None:
    streams = [record for record in told if isinstance(record, rec.Stream)]
    assert {stream.name: stream.status for stream in streams} == {"stopped": "SUCCEEDED", "stopped inside": "SUCCEEDED"}
    assert all(stream.started > 1_700_000_000_000 for stream in streams)
    for name in ("stopped", "stopped inside"):
        assert {sql.status for sql in sql_of(told, name)} == {"KILLED"}
        jobs = [record for record in told if isinstance(record, rec.Job) and record.description == name]
        assert [job.status for job in jobs] == ["KILLED"]
        assert all(job.error and "was stopped" in job.error.message for job in jobs)
    (app,) = [record for record in told if isinstance(record, rec.Application)]
    assert (app.sql_failed, app.jobs_failed, app.stages_failed) == (0, 0, 0)


def executed(node: PlanNode, plan: str = "") -> rec.Sql:
    """The record of an execution of one node."""
    projection = Projection("app", lambda key: None)
    projection.apply(SqlStart(1, physical_plan_description=plan, spark_plan_info=node), 1)
    projection.apply(SqlEnd(1, time=2, error_message=""), 1)
    sql = rec.from_value(projection.take()["app/sql/0000000001"])
    assert isinstance(sql, rec.Sql)
    return sql


# As Delta and Iceberg write their nodes; without their jars no application of this repository makes them.
ICEBERG = ("iceberg", "", "local.db.t")
WRITE = "IcebergWrite(table=local.db.t, format=PARQUET)"
DELTA = "DeltaTableV2(org.apache.spark.sql.SparkSession@5a,file:/w/t"


@pytest.mark.parametrize(
    "text", ["IcebergScan(table=local.db.t, branch=null)", "local.db.t (branch=null) [filters=, groupedBy=]"]
)
def test_a_scan_of_iceberg_names_its_table(text: str) -> None:
    (read,) = executed(PlanNode("BatchScan local.db.t", f"BatchScan local.db.t[id#1L] {text}")).reads
    assert (read.what, read.where, read.table) == ICEBERG


@pytest.mark.parametrize("index", ["PreparedDeltaFileIndex", "TahoeLogFileIndex"])
def test_a_scan_of_delta_names_its_table_and_its_path(index: str) -> None:
    node = PlanNode("Scan parquet spark_catalog.default.t", metadata={"Location": f"{index}(1 paths)[s3://b/t]"})
    (read,) = executed(node).reads
    assert (read.what, read.where, read.table) == ("delta", "s3://b/t", "spark_catalog.default.t")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"AppendData org.apache.spark.sql.Lambda$1/0x1@2, {WRITE}", ICEBERG),
        (f"AppendData local.db.t {WRITE}", ICEBERG),
        (f"ReplaceData {WRITE}", ICEBERG),
        ("AtomicCreateTableAsSelect org.apache.iceberg.spark.SparkCatalog@1a, db.t, Project", ("iceberg", "", "db.t")),
        ("ReplaceTableAsSelect org.apache.spark.sql.delta.catalog.DeltaCatalog@1a, d.t, Project", ("delta", "", "d.t")),
        (
            f"AppendDataExecV1 {DELTA},Some(CatalogTable(\nTable: t)),Some(a.b.t),Map()), Project",
            ("delta", "file:/w/t", "a.b.t"),
        ),
        (f"AppendDataExecV1 {DELTA},None,None,Map()), Project", ("delta", "file:/w/t", "")),
    ],
)
def test_a_write_to_iceberg_or_delta_names_its_table(text: str, place: tuple[str, str, str]) -> None:
    (write,) = executed(PlanNode(text.partition(" ")[0], text)).writes
    assert (write.what, write.where, write.table) == place


def test_a_write_to_delta_by_path_is_in_the_text_of_the_plan_only() -> None:
    arguments = "org.apache.spark.sql.delta.sources.DeltaDataSource@1a, [path=/data/t, mode=x], Append"
    plan = f"(2) SaveIntoDataSourceCommand\nArguments: {arguments}\n"
    (write,) = executed(PlanNode("Execute SaveIntoDataSourceCommand"), plan).writes
    assert (write.what, write.where) == ("delta", "/data/t")


def test_what_a_node_does_not_tell_stays_as_spark_writes_it() -> None:
    sql = executed(PlanNode("MicroBatchScan", "MicroBatchScan[a#1] class X"))
    assert [(read.what, read.where) for read in sql.reads] == [("MicroBatchScan", "MicroBatchScan[a#1] class X")]
    (write,) = executed(PlanNode("Execute MergeIntoCommand", "Execute MergeIntoCommand")).writes
    assert write.what == "MergeIntoCommand"


def test_the_same_node_twice_counts_once() -> None:
    scan = PlanNode(
        "Scan parquet a.b.c",
        metadata={"Location": "Index(1 paths)[file:/t]"},
        metrics=[PlanMetric("number of output rows", 7, "sum")],
    )
    cached = PlanNode("InMemoryTableScan", children=[scan], metrics=[PlanMetric("number of output rows", 8, "sum")])
    again = PlanNode("InMemoryTableScan", children=[scan], metrics=[PlanMetric("number of output rows", 9, "sum")])
    sql = executed(PlanNode("Join", children=[cached, again]))
    assert [read.table for read in sql.reads] == ["a.b.c"]
    assert [metric.id for metric in sql.metrics] == [8, 7, 9]


def test_a_cache_whose_plan_spark_does_not_show_is_a_read() -> None:
    assert [read.what for read in executed(PlanNode("InMemoryTableScan", "InMemoryTableScan [id]")).reads] == [
        "InMemoryTableScan"
    ]


def test_an_access_of_an_earlier_version_has_no_table() -> None:
    old = rec.from_value(
        {"kind": "sql", "reads": [{"what": "parquet", "where": "file:/t", "node": "1 Scan", "rows": 5}]}
    )
    assert isinstance(old, rec.Sql)
    assert (old.reads[0].table, old.reads[0].rows) == ("", 5)
