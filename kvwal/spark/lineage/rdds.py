"""The files that RDDs read and write: `textFile`, `saveAsTextFile` and their like, which no SQL plan tells of.

Spark names an RDD of files by its path. It does not say where an RDD is written to.
"""

from __future__ import annotations

import re

from kvwal.spark.events.jobs import RddInfo, StageInfo
from kvwal.spark.records import Access, Job, Stage, cut

MAX_ACCESSES = 100
_SOURCES = frozenset((
    "textFile", "wholeTextFiles", "binaryFiles", "binaryRecords", "objectFile", "sequenceFile",
    "hadoopFile", "hadoopRDD", "newAPIHadoopFile", "newAPIHadoopRDD",
))  # fmt: skip
_SCOPE = re.compile(r'\{"id":"[^"]*","name":"(?P<operation>[^"]*)"')


def add_accesses(job: Job, stage: Stage, info: StageInfo) -> None:
    """Add what the RDDs of a stage that has ended read and wrote to the accesses of its job.

    Rows and bytes are those of the stage. They are left out (-1) if several RDDs read files, or if one is cached: then the
    stage's input is of all of them.
    """
    calls = _calls(info.rdds)
    cached = any(rdd.storage_level.is_kept for rdd in info.rdds)
    counts = (stage.input_rows, stage.input_bytes) if len(calls) == 1 and not cached else (-1, -1)
    for rdds in calls.values():
        place = next(filter(None, map(_place, rdds)), "")
        _add(job.reads, _operation(rdds[0]), place, counts)
    if job.sql is None and (stage.output_rows or stage.output_bytes):
        last = max(info.rdds, key=lambda rdd: rdd.rdd_id, default=None)
        operation = _operation(last) if last is not None else ""
        target = operation if operation.startswith("save") else "files"
        _add(job.writes, target, "", (stage.output_rows, stage.output_bytes))


def _calls(rdds: list[RddInfo]) -> dict[str, list[RddInfo]]:
    """The RDDs of files, by the call that made them, in the order in which the program made them."""
    calls: dict[str, list[RddInfo]] = {}
    for rdd in sorted(rdds, key=lambda rdd: rdd.rdd_id):
        if rdd.scope and _operation(rdd) in _SOURCES:
            calls.setdefault(rdd.scope, []).append(rdd)
    return calls


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


def _operation(rdd: RddInfo) -> str:
    """The name of the program's operation, as `textFile`; empty if it is not known."""
    scope = _SCOPE.match(rdd.scope or "")
    return scope["operation"] if scope else ""
