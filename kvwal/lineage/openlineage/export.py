"""Spark's records as OpenLineage's events.

Each application is a run. Each of its SQL executions, streaming queries and jobs that reads or writes data sets is a run as well,
and the application's is its parent.

A run that has ended has two events, START and its end; one that goes on has START. What has no time in the records is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from kvwal.lineage.openlineage.events import unpacked
from kvwal.lineage.openlineage.facets import PRODUCER, facet, run_id
from kvwal.lineage.openlineage.schema import SCHEMA_URL
from kvwal.location.readers import LocationReader
from kvwal.spark import queries
from kvwal.spark.lineage.edges import edges_of
from kvwal.spark.lineage.names import DatasetName, names_of
from kvwal.spark.queries import RecordedApplication
from kvwal.spark.record_reader import RecordReader, under
from kvwal.spark.records import Access, Application, Batch, Error, Job, Sql, Stream

_ENDS = {"SUCCEEDED": "COMPLETE", "FAILED": "FAIL", "KILLED": "ABORT"}
_KINDS = {"sql": "SQL_JOB", "job": "RDD_JOB", "stream": "STREAMING_QUERY"}


class Process(msgspec.Struct):
    """A run of an application: what its records tell together."""

    started: int = 0
    ended: int = 0
    status: str = "RUNNING"
    title: str = ""
    error: Error | None = None
    reads: dict[DatasetName, Access | None] = {}
    writes: dict[DatasetName, Access | None] = {}


def events_of_spark(records: RecordReader, job_namespace: str) -> Iterator[dict[str, Any]]:
    """The events of all recorded applications, oldest first. `job_namespace` is the namespace of their jobs."""
    for recorded in queries.applications(records):
        yield from _Application(recorded, job_namespace).events(records)


def events_of_others(store: LocationReader, business: str) -> Iterator[dict[str, Any]]:
    """The events that were imported, as they are stored."""
    for entry in store.read_business(business).entries("event/"):
        yield unpacked(entry.value if entry.value_class == "bytes" else msgspec.json.decode(entry.value))


class _Application:
    """The events of one application."""

    def __init__(self, recorded: RecordedApplication, namespace: str) -> None:
        self._prefix, self._app = recorded
        self._namespace = namespace
        self._run = run_id(namespace, self._prefix)
        engine = facet("processing_engine", name="spark", version=self._app.spark_version or "unknown")
        parent = {"run": {"runId": self._run}, "job": {"namespace": namespace, "name": self._name}}
        self._of_app, self._of_part = engine, engine | facet("parent", **parent)

    @property
    def _name(self) -> str:
        return self._app.name or self._prefix

    def events(self, records: RecordReader) -> Iterator[dict[str, Any]]:
        app: Application = self._app
        whole = Process(app.started, app.ended, app.status, error=app.error)
        yield from self._run_events(self._run, self._name, whole, self._of_app, "APPLICATION")
        for name, process in _processes(records, self._prefix).items():
            if process.reads or process.writes:
                job = f"{self._name}.{process.title or name}"
                kind = _KINDS[name.partition(" ")[0]]
                yield from self._run_events(
                    run_id(self._namespace, self._prefix, name), job, process, self._of_part, kind
                )

    def _run_events(
        self, run: str, job: str, process: Process, facets: dict[str, Any], kind: str
    ) -> Iterator[dict[str, Any]]:
        streaming = "STREAMING" if kind == "STREAMING_QUERY" else "BATCH"
        of_job = facet("jobType", processingType=streaming, integration="SPARK", jobType=kind)
        whole = {
            "run": {"runId": run, "facets": facets},
            "job": {"namespace": self._namespace, "name": job, "facets": of_job},
            "inputs": [_dataset(name, access, "input") for name, access in process.reads.items()],
            "outputs": [_dataset(name, access, "output") for name, access in process.writes.items()],
            "producer": PRODUCER,
            "schemaURL": f"{SCHEMA_URL}#/$defs/RunEvent",
        }
        if process.started:
            yield {"eventType": "START", "eventTime": _time(process.started), **whole}
        if process.ended and (end := _ENDS.get(process.status)) is not None:
            if process.error is not None:
                told = facet(
                    "errorMessage", message=process.error.message, programmingLanguage="JAVA",
                    **({"stackTrace": process.error.stack} if process.error.stack else {}),
                )  # fmt: skip
                whole = {**whole, "run": {"runId": run, "facets": facets | told}}
            yield {"eventType": end, "eventTime": _time(process.ended), **whole}


def _processes(records: RecordReader, prefix: str) -> dict[str, Process]:
    """The runs of an application, by the names that edges have for them."""
    found: dict[str, Process] = {}
    for folder in ("sql", "job", "stream"):
        for stored in under(records, f"{prefix}/{folder}/"):
            record = stored.record()
            if isinstance(record, Stream):
                _add_times(found.setdefault(f"stream {record.id}", Process(title=record.name)), record)
                continue
            if not isinstance(record, Sql | Job | Batch) or (edges := edges_of(record)) is None:
                continue
            process = found.setdefault(edges.process, Process(title=edges.title))
            if isinstance(record, Batch):
                accesses: Iterable[tuple[dict[DatasetName, Access | None], list[Access]]] = ()
            else:
                accesses = ((process.reads, record.reads), (process.writes, record.writes))
                if not record.stream:
                    _add_times(process, record)
            for known, names in ((process.reads, edges.reads), (process.writes, edges.writes)):
                known.update(dict.fromkeys((name for name in names if name not in known), None))
            for known, of_record in accesses:
                _add_counts(known, of_record)
    for process in found.values():
        process.reads, process.writes = _without_tables(process.reads), _without_tables(process.writes)
    return found


def _add_times(process: Process, record: Sql | Job | Stream) -> None:
    started = _milliseconds(record.started)
    process.started = min(filter(None, (process.started, started)), default=0)
    process.ended = max(process.ended, record.ended)
    if not isinstance(record, Sql) or record.root == record.id or process.status == "RUNNING":
        process.status, process.error = record.status, record.error or process.error


def _add_counts(known: dict[DatasetName, Access | None], accesses: list[Access]) -> None:
    """Note the access that counts the rows of a data set, if one access has it alone."""
    for access in accesses:
        names = names_of(access)
        if len(names) == 1 and names[0] in known and max(access.rows, access.bytes, access.files) >= 0:
            known[names[0]] = access


def _without_tables(names: dict[DatasetName, Access | None]) -> dict[DatasetName, Access | None]:
    """The data sets without the names in a catalog of those that are there by their path."""
    tables = {name.table for name in names}
    return {name: access for name, access in names.items() if name.text not in tables}


def _dataset(name: DatasetName, access: Access | None, way: str) -> dict[str, Any]:
    dataset: dict[str, Any] = {"namespace": name.namespace, "name": name.name}
    if name.table:
        catalog, _, table = name.table.partition("/")
        dataset["facets"] = facet("symlinks", identifiers=[{"namespace": catalog, "name": table, "type": "TABLE"}])
    if access is not None:
        counts = {"rowCount": access.rows, "size": access.bytes, "fileCount": access.files}
        known = {field: count for field, count in counts.items() if count >= 0}
        dataset[f"{way}Facets"] = facet(f"{way}Statistics", **known)
    return dataset


def _milliseconds(moment: int | str) -> int:
    """A moment of a record: streams have Spark's text, which is UTC."""
    if isinstance(moment, int):
        return moment
    try:
        return round(datetime.fromisoformat(moment).timestamp() * 1_000)
    except ValueError:
        return 0


def _time(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
