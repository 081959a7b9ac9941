"""The files that RDDs read and write: `textFile`, `saveAsTextFile` and their like, which no SQL plan tells of.

Spark names an RDD of files by its path. It does not say where an RDD is written to.
"""

from __future__ import annotations

import msgspec

from kvwal.spark.events.jobs import RddInfo, Scope, StageInfo
from kvwal.spark.records import Access, Job, Stage, cut

MAX_ACCESSES = 100
_SOURCES = frozenset((
    "textFile", "wholeTextFiles", "binaryFiles", "binaryRecords", "objectFile", "sequenceFile",
    "hadoopFile", "hadoopRDD", "newAPIHadoopFile", "newAPIHadoopRDD",
))  # fmt: skip
_scope = msgspec.json.Decoder(Scope).decode


def add_accesses(job: Job, stage: Stage, info: StageInfo) -> None:
    """Add what the RDDs of a stage that has ended read and wrote to the accesses of its job.

    Rows and bytes are those of the stage. They are left out (-1) if several RDDs read files, or if one is cached: then the
    stage's input is of all of them.
    """
    scopes = {rdd.rdd_id: _scope_of(rdd) for rdd in info.rdds}
    places: dict[tuple[str, str], str] = {}
    for rdd in sorted(info.rdds, key=lambda rdd: rdd.rdd_id):
        scope = scopes[rdd.rdd_id]
        if scope.name in _SOURCES:
            places[scope.id, scope.name] = places.get((scope.id, scope.name)) or _place(rdd)
    counted = len(places) == 1 and not any(
        rdd.storage_level.use_memory or rdd.storage_level.use_disk for rdd in info.rdds
    )
    for (_, source), place in places.items():
        _add(job.reads, source, place, (stage.input_rows, stage.input_bytes) if counted else (-1, -1))
    if job.sql is None and (stage.output_rows or stage.output_bytes):
        last = max(scopes, default=-1)
        operation = scopes[last].name if last in scopes else ""
        target = operation if operation.startswith("save") else "files"
        _add(job.writes, target, "", (stage.output_rows, stage.output_bytes))


def _add(accesses: list[Access], what: str, where: str, counts: tuple[int, int]) -> None:
    """Add an access, or its counts to the same one of an earlier stage."""
    rows, size = counts
    for access in accesses:
        if (access.what, access.where) == (what, where):
            access.rows = rows if access.rows < 0 else access.rows + max(0, rows)
            access.bytes = size if access.bytes < 0 else access.bytes + max(0, size)
            return
    if len(accesses) < MAX_ACCESSES:
        accesses.append(Access(what, where, rows=rows, bytes=size))


def _place(rdd: RddInfo) -> str:
    """The path of an RDD of files; empty for one that Spark calls by its class."""
    name = rdd.name or ""
    return "" if name.endswith("RDD") and "/" not in name else cut(name)


def _scope_of(rdd: RddInfo) -> Scope:
    try:
        return _scope(rdd.scope) if rdd.scope else Scope()
    except msgspec.DecodeError:
        return Scope()
