"""Edges: what a record of Spark read and wrote, as the index has it."""

from __future__ import annotations

from typing import Any

import kvwal
from kvwal.spark import index
from kvwal.spark.lineage.edges import AFTER_EDGES, EDGES, application_of_edges, edge_entries
from kvwal.spark.records import Access, Application, Batch, BatchSource, Job, Sql, to_value
from kvwal.spark.retention import delete_applications
from kvwal.spark.tables.catalogue import TABLES

IN, OUT = Access("csv", "file:/in"), Access("parquet", "s3a://lake/out")


def edges(**records: Any) -> dict[str, Any]:
    return edge_entries({key.replace("__", "/"): to_value(record) for key, record in records.items()})


def test_an_execution_that_has_ended_has_edges() -> None:
    sql = Sql(id=3, root=2, description="load\nmore", status="SUCCEEDED", ended=7, reads=[IN], writes=[OUT])
    assert edges(a__sql__0000000003=sql) == {
        "=lineage=a=sql-0000000003": {
            "kind": "lineage", "process": "sql 2", "sql": 3, "status": "SUCCEEDED", "at": 7, "title": "load",
            "reads": [["file", "/in", ""]], "writes": [["s3://lake", "out", ""]],
        }
    }  # fmt: skip


def test_an_execution_that_runs_or_names_no_data_set_has_none() -> None:
    assert edges(a__sql__0000000003=Sql(id=3, reads=[IN])) == {}
    assert edges(a__sql__0000000003=Sql(id=3, status="FAILED", reads=[Access("LocalTableScan", "x")])) == {}


def test_all_batches_of_a_stream_share_a_record() -> None:
    batches = {
        f"a/sql/{number:010d}": to_value(
            Sql(id=number, root=number, stream="q/1", batch=number, status="SUCCEEDED", ended=number, writes=[OUT],
                reads=[Access("json", f"file:/in/part-{number}.json")])
        ) for number in range(50)
    }  # fmt: skip
    (key,) = edge_entries(batches)
    assert key.startswith("=lineage=a=stream-q%2F1-")


def test_a_batch_tells_the_topics_that_it_reads() -> None:
    batch = Batch(query="q", name="orders", batch=4, sources=[BatchSource("KafkaV2[Subscribe[orders]]")])
    (found,) = edges(**{"a/1/stream/q/000000000004": batch}).items()
    assert found[0].startswith("=lineage=a/1=stream-q-")
    assert (found[1]["process"], found[1]["reads"]) == ("stream q", [["kafka", "orders", ""]])


def test_a_job_has_the_files_of_its_rdds() -> None:
    job = Job(id=4, name="count at a.py:1", status="SUCCEEDED", reads=[Access("textFile", "/in")])
    assert edges(a__job__0000000004=job)["=lineage=a=job-0000000004"]["title"] == "count at a.py:1"


def test_no_table_takes_an_edge_for_one_of_its_records() -> None:
    for app in ("app", "sql", "job", "env", "stage/1"):
        for key in (f"{EDGES}{app}=sql-0000000001", f"{EDGES}{app}=stream-q-0123456789abcdef"):
            assert not [
                table for table in TABLES.values() if table.name != "spark_lineage" and table.keys.search(key.encode())
            ]
            assert EDGES <= key < AFTER_EDGES
            assert application_of_edges(key.encode()) == app
            assert not index.is_application_key(key)


def test_an_index_without_edges_is_completed(tmp_path: Any) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        records = store.map("spark")
        records.put_many({
            "a/app": to_value(Application(id="a", status="SUCCEEDED")),
            "a/sql/0000000001": to_value(Sql(id=1, root=1, status="SUCCEEDED", reads=[IN])),
            "=app/=local": {"kind": "index", "version": 1},
        })  # fmt: skip
        index.complete_index(records, "local")
        assert records["=lineage=a=sql-0000000001"]["reads"] == [["file", "/in", ""]]
        assert index.is_whole(records["=app/=local"])


def test_edges_go_with_their_application(tmp_path: Any) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        records = store.map("spark")
        for app in ("a", "ab"):
            values = {
                f"{app}/app": to_value(Application(id=app, status="SUCCEEDED", ended=1)),
                f"{app}/sql/0000000001": to_value(Sql(id=1, root=1, status="SUCCEEDED", reads=[IN])),
            }
            records.put_many(values | index.index_entries(values))
        delete_applications(records, ["a"], before=10)
        assert [key for key in records if key.startswith(EDGES)] == ["=lineage=ab=sql-0000000001"]
