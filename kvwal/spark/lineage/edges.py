"""Edges of the lineage: small records in the index of Spark's records, so that the graph reads no plan.

    =lineage=<app>=sql-<id>                   Edges of an SQL execution
    =lineage=<app>=job-<id>                   Edges of a job: of its RDDs
    =lineage=<app>=stream-<query>-<digest>    Edges of a streaming query: one record for each set of reads and writes

They are written with the record that they are made from, once it has ended, in one transaction. A streaming query runs an
execution for each batch, and all of them read and write the same: so its key has a digest of the data sets, and no batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from kvwal.spark.lineage.names import DatasetName, names_of, names_of_stream
from kvwal.spark.record_keys import job_part, query_part, sql_part
from kvwal.spark.records import Access, Batch, Job, Sql

EDGES = "=lineage="
"""Where the keys of edges begin."""
AFTER_EDGES = "=lineage>"
"""The first key after those of the edges."""
_KINDS = {"sql": Sql, "job": Job, "batch": Batch}


class Edges(msgspec.Struct, kw_only=True, tag_field="kind", tag="lineage", omit_defaults=True, gc=False):
    """The data sets that a part of a process read and wrote.

    `process` is what ran, in its application: `sql 3` (the root of an SQL execution), `job 4`, `stream <id>`. `sql` is the
    number of the execution. `status` and `at` (Unix milliseconds) are those of its end.
    """

    process: str
    reads: list[DatasetName] = []
    writes: list[DatasetName] = []
    sql: int = -1
    status: str = ""
    at: int = 0
    title: str = ""


def edge_entries(records: Mapping[str, Any]) -> dict[str, Any]:
    """The edges of these records of one or more applications, as they are stored: objects by key."""
    entries: dict[str, Any] = {}
    for key, value in records.items():
        if value["kind"] not in _KINDS or not _has_ended(value) or not _has_accesses(value):
            continue
        app = key.rsplit("/", 3 if value["kind"] == "batch" else 2)[0]
        found = edges_of(msgspec.convert(value, _KINDS[value["kind"]]))
        if found is not None:
            entries[_key(app, value, found)] = msgspec.to_builtins(found)
    return entries


def _has_ended(value: Mapping[str, Any]) -> bool:
    return bool(value["kind"] == "batch" or value["status"] != "RUNNING")


def _has_accesses(value: Mapping[str, Any]) -> bool:
    return bool(value["sources"] or value["sink"] if value["kind"] == "batch" else value["reads"] or value["writes"])


def edges_of(record: Sql | Job | Batch) -> Edges | None:
    """The edges of a record; None if it names no data set."""
    found = _of_batch(record) if isinstance(record, Batch) else _of_run(record)
    return found if found.reads or found.writes else None


def _of_batch(batch: Batch) -> Edges:
    reads = [name for source in batch.sources for name in names_of_stream(source.what)]
    return Edges(
        process=f"stream {batch.query}", reads=_each_once(reads), writes=names_of_stream(batch.sink), title=batch.name
    )


def _of_run(record: Sql | Job) -> Edges:
    stream = bool(record.stream)
    reads, writes = (_names(accesses, of_stream=stream) for accesses in (record.reads, record.writes))
    number = record.id if isinstance(record, Sql) else record.sql
    if stream:
        process = f"stream {record.stream}"
    elif isinstance(record, Sql):
        process = f"sql {record.root}"
    else:
        process = f"job {record.id}" if number is None else f"sql {number}"
    title = record.description.partition("\n")[0] or (record.name if isinstance(record, Job) else "")
    at = record.ended or record.started
    return Edges(
        process=process, reads=reads, writes=writes, sql=-1 if number is None else number, status=record.status, at=at,
        title=title[:200],
    )  # fmt: skip


def _names(accesses: list[Access], *, of_stream: bool) -> list[DatasetName]:
    return _each_once(name for access in accesses for name in names_of(access, of_stream=of_stream))


def _each_once(names: Iterator[DatasetName] | list[DatasetName]) -> list[DatasetName]:
    """Each data set once, under the name that knows its table. One that lies in the folder of another one is a part of it."""
    best: dict[tuple[str, str], DatasetName] = {}
    for name in names:
        if name.key not in best or name.table:
            best[name.key] = name
    return [name for name in best.values() if len(best) == 1 or not _is_part(name, best)]


def _is_part(dataset: DatasetName, others: Mapping[tuple[str, str], DatasetName]) -> bool:
    namespace, name = dataset.key
    while "/" in name[1:]:
        name = name.rpartition("/")[0]
        if (namespace, name) in others:
            return True
    return False


def _key(app: str, value: Mapping[str, Any], edges: Edges) -> str:
    kind = value["kind"]
    query = value["query"] if kind == "batch" else value["stream"]
    if query:
        names = msgspec.json.encode([sorted(edges.reads), sorted(edges.writes)])
        return f"{EDGES}{app}=stream-{query_part(query)}-{blake2b(names, digest_size=8).hexdigest()}"
    part = sql_part(value["id"]) if kind == "sql" else job_part(value["id"])
    return f"{EDGES}{app}={kind}-{part}"


def application_of_edges(key: bytes) -> str:
    """The prefix of the application whose edges have this key."""
    return key[len(EDGES) : key.index(b"=", len(EDGES))].decode()
