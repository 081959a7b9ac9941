"""A question about some applications reads the records of these applications only: of a folder, a cluster and an archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import kvwal
from kvwal.client.memory import ClusterMemory
from kvwal.log import reader
from kvwal.spark import records as rec
from kvwal.spark.record_keys import job_key, stage_key
from kvwal_archive.parquet.columns import Columns
from tests.support.cli import kvwal as run
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running

pytestmark = needs_hazelcast

APPLICATIONS, JOBS = 40, 150
ENTRIES = APPLICATIONS * (2 * JOBS + 1)


class Question(NamedTuple):
    """A question, the number of records it is about, and that of the places to look at: applications in a table, or keys."""

    sql: str
    records: int
    places: int = 1


QUESTIONS = {
    "one": Question("FROM spark_jobs SELECT count(*), sum(duration_ms) WHERE app = 'app-07'", JOBS),
    "two": Question(
        "FROM spark_jobs SELECT app, count(*) WHERE app IN ('app-07', 'app-33') GROUP BY ALL ORDER BY ALL", 2 * JOBS, 2
    ),
    "joined": Question(
        "FROM spark_apps JOIN spark_jobs j USING (app) SELECT count(*), max(j.id) WHERE app = 'app-20'", JOBS + 1, 2
    ),
    "one job": Question("FROM spark_jobs SELECT duration_ms WHERE app = 'app-07' AND id = 11", 1),
    "by key": Question("FROM spark_jobs SELECT duration_ms WHERE key = 'app-07/job/0000000011'", 1),
    "two stages": Question("FROM spark_stages SELECT name WHERE app = 'app-09' AND id IN (3, 4) ORDER BY name", 2, 2),
    "never": Question("FROM spark_jobs SELECT count(*) WHERE app = 'never'", 0),
}
MOST = {
    "folder": lambda question: ENTRIES / 2 * question.places,
    "two nodes": lambda question: ENTRIES * 0.9 * question.places,
    "archive": lambda question: ENTRIES / 4 * question.places,
    "cluster": lambda question: question.records,
}
"""Entries that may be read: blocks of a thousand of a log, row groups of an archive, and no other record of a cluster.
One block of each part of a snapshot says whether the map was destroyed."""


def application(number: int) -> dict[str, Any]:
    app = f"app-{number:02}"
    records: dict[str, rec.Record] = {f"{app}/app": rec.Application(id=app)}
    for job in range(JOBS):
        records[job_key(app, job)] = rec.Job(id=job, duration_ms=1_000 * number + job, description="d" * 300)
        records[stage_key(app, job, 0)] = rec.Stage(id=job, name=f"stage {job} of {app}")
    return {key: rec.to_value(record) for key, record in records.items()}


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The places of the same records: a folder of one node, one of two, an archive with four objects of a node, a cluster."""
    root, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    for first in range(0, APPLICATIONS, 10):
        with kvwal.open(root, node="node-1", cluster=CLUSTER) as store:
            for number in range(first, first + 10):
                store.map("spark").put_many(application(number))
            store.archive()
            if number == APPLICATIONS - 1:
                store.checkpoint()
        with kvwal.open(two, node=f"n{first % 20}", cluster=CLUSTER) as store:
            for number in range(first, first + 10):
                store.map("spark").put_many(application(number))
            if number >= APPLICATIONS // 2:
                store.checkpoint()
    with running(root) as node:
        yield {
            "folder": str(root),
            "two nodes": str(two),
            "archive": str(root / "_archive"),
            "cluster": f"kvwal://{node.address}",
        }


class Counted:
    """The number of entries that were read while it counts."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        patch.setattr(reader, "_PART_BYTES", 4 << 10)
        self._count(patch, reader.SnapshotReader, "decoded", len)
        self._count(patch, Columns, "batches", None)
        self._count(patch, ClusterMemory, "_fetch", len)

    def _count(self, patch: pytest.MonkeyPatch, kind: Any, name: str, size: Callable[[Any], int] | None) -> None:
        method = getattr(kind, name)

        def counted(*arguments: Any) -> Any:
            answer = method(*arguments)
            if size is None:
                return self._rows(answer)
            self.entries += size(answer)
            return answer

        patch.setattr(kind, name, counted)

    def _rows(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self.entries += batch.num_rows
            yield batch


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("kind", ["folder", "two nodes", "archive", "cluster"])
def test_only_the_records_of_these_applications_are_read(
    locations: dict[str, str], kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = QUESTIONS[name]
    with kvwal.open(locations["folder"], cluster=CLUSTER, read_only=True) as store:
        whole = store.sql(
            question.sql.replace("WHERE app", "WHERE lower(app)").replace("WHERE key", "WHERE lower(key)")
        )
    expected = [",".join(map(str, row.values())) for row in whole.to_pylist()]
    counted = Counted(monkeypatch)
    ran = run("query", locations[kind], question.sql, "--cluster", CLUSTER, "--format", "csv")
    assert ran.out.splitlines()[1:] == expected
    assert counted.entries <= MOST[kind](question)
