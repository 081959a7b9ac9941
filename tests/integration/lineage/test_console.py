"""kvwal console with real clients of OpenLineage: their runs appear beside Spark's, and what is not valid is refused whole."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, JobEvent, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpCompression, HttpConfig, HttpTransport
from openlineage.client.uuid import generate_new_uuid

import kvwal
from kvwal.spark import index
from kvwal.spark.records import Access, Application, Sql, to_value
from tests.support.cli import kvwal as command
from tests.support.lineage.console import RunningConsole, console
from tests.support.lineage.events import RUN, event

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "openlineage" / "spark-4.3.jsonl"
TOKEN = "t" * 32


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "console.log"


@pytest.fixture
def running(tmp_path: Path, log: Path) -> Iterator[RunningConsole]:
    with console(tmp_path / "data", "--allow-writes", "--node", "console", log=log) as running:
        yield running


def client(running: RunningConsole, **config: Any) -> OpenLineageClient:
    return OpenLineageClient(transport=HttpTransport(HttpConfig(url=running.url, retry={"total": 0}, **config)))


def lineage(root: Path, dataset: str, *options: str) -> dict[str, Any]:
    ran = command("lineage", root, dataset, "--json", *options)
    assert ran.code == 0, ran.err
    told: dict[str, Any] = json.loads(ran.out)
    return told


def stored(root: Path) -> list[str]:
    """The keys of what was imported."""
    with kvwal.open(root, read_only=True) as store:
        return sorted(store.map("openlineage")) if "openlineage" in store.businesses() else []


def record_spark(root: Path) -> None:
    """Record an application that reads what Airflow writes, as a recorder does, in a node of its own."""
    records = {
        "app-1/app": to_value(Application(id="app-1", name="report", status="SUCCEEDED")),
        "app-1/sql/0000000001": to_value(
            Sql(id=1, root=1, description="sums", status="SUCCEEDED", ended=1_767_225_600_000,
                reads=[Access("parquet", "s3a://lake/raw/orders/day=1")], writes=[Access("parquet", "s3a://lake/mart/sales")])
        ),
    }  # fmt: skip
    with kvwal.open(root, node="recorder", archive=None) as store:
        records |= index.index_entries(records) | index.mark_of(store.map("spark"), "recorder")
        store.map("spark").put_many(records)


@pytest.mark.parametrize("compression", [None, HttpCompression.GZIP])
@pytest.mark.variants(1)
def test_the_runs_of_openlineages_client_appear_beside_those_of_spark(
    tmp_path: Path, running: RunningConsole, compression: HttpCompression | None
) -> None:
    root = tmp_path / "data"
    record_spark(root)
    fields = {
        "id": column_lineage_dataset.Fields(
            [column_lineage_dataset.InputField("postgres://db:5432", "shop.orders", "no")]
        )
    }
    columns = column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)
    emit = client(running, compression=compression).emit
    run, job = Run(str(generate_new_uuid())), Job("airflow", "load.orders")
    for state in (RunState.START, RunState.COMPLETE):
        emit(RunEvent(
            eventType=state, eventTime=datetime.now(UTC).isoformat(), run=run, job=job, producer="https://airflow.example",
            inputs=[InputDataset("postgres://db:5432", "shop.orders")] if state is RunState.START else [],
            outputs=[OutputDataset("s3://lake", "raw/orders", facets={"columnLineage": columns})],
        ))  # fmt: skip
    emit(JobEvent(eventTime=datetime.now(UTC).isoformat(), job=Job("dbt", "model"), producer="https://dbt.example",
                  inputs=[InputDataset("s3://lake", "mart/sales")], outputs=[OutputDataset("file", "/report")]))  # fmt: skip
    told = lineage(root, "s3://lake/mart/sales")
    assert [(each["dataset"], each["depth"]) for each in told["up"]] == [
        ("s3://lake/raw/orders", 1), ("postgres://db:5432/shop.orders", 2)
    ]  # fmt: skip
    assert [each["dataset"] for each in told["down"]] == ["file:///report"]
    assert {(use["source"], use["job"], use["status"]) for use in told["jobs"]} == {
        ("spark", "report: sums", "SUCCEEDED"),
        ("openlineage", "airflow/load.orders", "SUCCEEDED"),
        ("openlineage", "dbt/model", ""),
    }  # fmt: skip
    assert lineage(root, "s3a://lake/raw/orders/")["columns"] == {"id": ["postgres://db:5432/shop.orders.no"]}
    assert running.stop() == 0


def test_what_sparks_own_listener_sent_is_taken(tmp_path: Path, running: RunningConsole) -> None:
    """The events are those of openlineage-spark 1.53.0 on Spark 4.3, as it sent them to a console."""
    events = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    answer = running.post(events, "/api/v1/lineage/batch")
    assert answer.status == 200
    assert answer.body["summary"]["successful"] == len(events)
    told = lineage(tmp_path / "data", "/data/twice", "--up")
    assert [each["dataset"] for each in told["up"]] == ["file:///data/numbers"]
    assert told["columns"] == {"twice": ["file:///data/numbers.id"]}
    assert running.post(events).body == {"stored": 0, "known": len(events)}


REFUSED: list[tuple[Any, int, str, str]] = [
    (event() | {"run": {"runId": "7"}}, 422, "$.run.runId", "it is no UUID"),
    ([event(), event() | {"job": {}}], 422, "$[1].job", "the field 'namespace' is missing"),
    (b"{", 422, "$", "it is no JSON (Input data was truncated)"),
    (7, 422, "$", "an event is an object, and this is a number"),
]


@pytest.mark.parametrize(("body", "status", "path", "reason"), REFUSED)
def test_an_event_that_is_not_valid_is_refused_and_nothing_is_stored(
    tmp_path: Path, running: RunningConsole, body: Any, status: int, path: str, reason: str
) -> None:
    answer = running.post(body)
    assert (answer.status, answer.body["path"], answer.body["reason"]) == (status, path, reason)
    assert stored(tmp_path / "data") == []


def test_bodies_that_are_too_long_or_of_another_kind_are_refused(tmp_path: Path, running: RunningConsole) -> None:
    long = event(
        run={"runId": RUN, "facets": {"x": {"_producer": "u:x", "_schemaURL": "u:x", "text": "x" * (17 << 20)}}}
    )
    assert running.post(long).status == 413
    assert running.post(gzip.compress(json.dumps(long).encode()), Content_Encoding="gzip").status == 413
    assert running.post(b"{}", Content_Encoding="gzip").status == 400
    assert running.post(b"{}", Content_Encoding="br").status == 415
    assert running.post(event(), Content_Type="text/plain").status == 415
    assert running.post(event(), "/api/v1/lineage/batch").status == 422
    assert stored(tmp_path / "data") == []


def test_an_event_of_ten_megabytes_is_kept_whole(tmp_path: Path, running: RunningConsole) -> None:
    plan = {"_producer": "u:x", "_schemaURL": "u:x", "plan": "Project [id] " * 800_000}
    large = event(run={"runId": RUN, "facets": {"spark.logicalPlan": plan}}, outputs=["/out"])
    assert running.post(large) == (201, {"stored": 1, "known": 0})
    assert json.loads(command("export", "openlineage", tmp_path / "data").out) == large


def test_many_clients_at_once_lose_no_event(tmp_path: Path, running: RunningConsole) -> None:
    from concurrent.futures import ThreadPoolExecutor

    states = ["START", *["RUNNING"] * 30, "COMPLETE"]
    events = [
        event(state, f"2026-01-01T00:00:{number:02}Z", inputs=[f"/in/{number}"]) for number, state in enumerate(states)
    ]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(running.post, events))
    assert {answer.status for answer in answers} == {201}
    with kvwal.open(tmp_path / "data", read_only=True) as store:
        told = store.map("openlineage")[f"run/{RUN}/console"]
    assert len(told["reads"]) == 32
    assert told["state"] == "COMPLETE"


def test_a_console_only_reads_unless_it_is_told_to_write(tmp_path: Path, log: Path) -> None:
    with kvwal.open(tmp_path / "data", archive=None) as store:
        store.map("jobs")["a"] = 1
    with console(tmp_path / "data", log=log) as running:
        assert running.get("/healthz") == (200, {"alive": True})
        answer = running.post(event())
        assert answer.status == 403
        assert "--allow-writes" in answer.body["error"]
        assert running.get("/api/v1/lineage").status == 405
        assert running.get("/nothing").status == 404
    assert stored(tmp_path / "data") == []


def test_with_a_token_only_who_shows_it_may_write(tmp_path: Path, log: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with console(tmp_path / "data", "--allow-writes", "--token-file", str(tmp_path / "token"), log=log) as running:
        assert running.get("/healthz").status == 200
        assert running.post(event()).status == 401
        assert running.post(event(), Authorization="Bearer wrong").status == 401
        emit = client(running, auth=ApiKeyTokenProvider({"apiKey": TOKEN})).emit
        job, run = Job("n", "j"), Run(RUN)
        emit(RunEvent(eventTime="2026-01-01T00:00:00Z", producer="u:x", run=run, job=job, eventType=RunState.START))
        assert running.post(event(), Authorization=f"Bearer {TOKEN}").status == 201
    assert len(stored(tmp_path / "data")) == 3
    assert TOKEN not in log.read_text()


def test_without_a_token_a_page_of_the_web_is_refused(running: RunningConsole) -> None:
    assert running.post(event(), Host="rebound.example").status == 401
    assert running.post(event(), Host="localhost:1").status == 201


def test_without_a_token_no_other_machine_is_served(tmp_path: Path) -> None:
    ran = command("console", tmp_path, "--http", "0.0.0.0:18080", "--allow-writes")
    assert ran.code == 2
    assert "can be reached from other machines, and the console has no token" in ran.err


def test_a_client_that_stands_still_does_not_hold_up_the_end(running: RunningConsole) -> None:
    host, _, port = running.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /api/v1/lineage HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        slow.sendall(b"Content-Length: 9\r\n\r\n{")
        assert running.post(event()).status == 201
        assert running.stop() == 0
