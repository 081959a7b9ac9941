"""Queues of an archive and of a folder on a real Spark: each item a row with its structure, priority, position and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import kvwal
import kvwal_archive.spark
from kvwal.spark.datasource.source import PUSHDOWN
from kvwal_archive.errors import InvalidName
from kvwal_archive.spark import plan
from kvwal_archive.spark.frames import COLUMNS, PLACES
from tests.support.archive.history import object_paths
from tests.support.datasource.streams import Stream

NAMES = {"namespace": "default", "cluster": "local", "business": "work"}
ITEMS = 400


class Filled(NamedTuple):
    """A store with queues, and its archive. `items` are those that are left, `taken` those that were taken."""

    root: Path
    archive: Path
    items: list[tuple[str, int, int, Any]]
    taken: list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("queues")
    items, taken = [], []
    with kvwal.open(folder / "root", node="n1", archive=folder / "archive") as store:
        work = store.business("work")
        work.map().put_many({f"key-{number}": {"n": number} for number in range(50)})
        work.map("state")["last"] = 7
        for name in ("", "todo", "todo2"):
            queue = work.queue(name)
            for priority in (0, -16, 15, -1):
                queue.put_many([{"n": number, "of": name} for number in range(ITEMS)], priority=priority)
            store.archive()
            structure = f"queue/{name}" if name else "queue"
            before = list(queue.items())
            queue.take_many(ITEMS // 2)
            left = list(queue.items())
            taken += [(structure, item.priority, item.position) for item in before[: ITEMS // 2]]
            items += [(structure, item.priority, item.position, item.value) for item in left]
        store.archive()
    return Filled(folder / "root", folder / "archive", sorted(items, key=str), taken)


def items_of(frame: DataFrame) -> list[tuple[str, int, int, Any]]:
    rows = frame.select(*PLACES, "value").collect()
    return sorted(((*row[:3], json.loads(row[3])) for row in map(tuple, rows)), key=str)


def source(spark: SparkSession, **options: object) -> DataFrame:
    return spark.read.format("kvwal").options(**{"business": "work", **{k: str(v) for k, v in options.items()}}).load()


@pytest.fixture(params=["true", "false"])
def registered(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    spark.conf.set(PUSHDOWN, request.param)
    kvwal.spark.register(spark)
    return spark


@pytest.mark.long
@pytest.mark.parametrize("location", ["archive", "store"])
def test_a_query_on_the_place_has_the_same_rows_with_and_without_pushdown(
    registered: SparkSession, filled: Filled, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "PARTITION_BYTES", 1)
    where = {location: filled.archive if location == "archive" else filled.root}
    together = source(registered, **where, structure="queue/*").cache()
    assert items_of(together) == filled.items
    for structure in ("queue", "queue/todo", "queue/todo2"):
        frame = source(registered, **where, structure=structure)
        own = [item for item in filled.items if item[0] == structure]
        assert items_of(frame) == own
        middle = sorted(position for _, _, position, _ in own)[len(own) // 2]
        for condition, holds in (
            ("priority = -16", lambda item, _: item[1] == -16),
            ("priority < 0 AND position > {}", lambda item, at: item[1] < 0 and item[2] > at),
            ("position = {}", lambda item, at: item[2] == at),
            ("priority IN (15, -1) AND position <= {}", lambda item, at: item[1] in (15, -1) and item[2] <= at),
            ("priority > 15 OR position < 0", lambda *_: False),
        ):
            found = source(registered, **where, structure=structure).where(condition.format(middle))
            assert items_of(found) == [item for item in own if holds(item, middle)], condition
    some = source(registered, **where, structure="queue/*").where("structure = 'queue/todo' AND priority = 15")
    assert items_of(some) == [item for item in filled.items if item[:2] == ("queue/todo", 15)]
    assert source(registered, **where).count() == 50
    named = source(registered, **where, structure="map/state")
    assert [(row.key, row.value) for row in named.collect()] == [("last", "7")]


@pytest.mark.long
def test_values_of_items_are_columns(registered: SparkSession, filled: Filled) -> None:
    reader = registered.read.format("kvwal").options(archive=str(filled.archive), business="work", structure="queue/*")
    frame = reader.schema("structure STRING, priority INT, n BIGINT").load().where("priority = 0")
    found = sorted(map(tuple, frame.collect()))
    assert found == sorted((item[0], item[1], item[3]["n"]) for item in filled.items if item[1] == 0)
    with pytest.raises(PySparkException, match=r"the column 'priority' of format kvwal is int, not bigint"):
        reader.schema("priority BIGINT").load().collect()


def test_the_history_and_a_stream_have_the_takes(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    changes = source(spark, archive=filled.archive, structure="queue/*", view="history")
    gone = changes.where("deleted").select(*PLACES, "value").collect()
    assert sorted(tuple(row)[:3] for row in gone) == sorted(filled.taken)
    assert all(row.value is None for row in gone)
    stream = Stream(spark, tmp_path, archive=str(filled.archive), business="work", structure="queue/todo")
    stream.run()
    puts = {(row.structure, row.priority, row.position) for row in stream.rows if not row.deleted}
    takes = {(row.structure, row.priority, row.position) for row in stream.rows if row.deleted}
    assert takes == {place for place in filled.taken if place[0] == "queue/todo"}
    assert puts - takes == {item[:3] for item in filled.items if item[0] == "queue/todo"}


def test_the_frames_of_the_archive_have_the_places(spark: SparkSession, filled: Filled) -> None:
    latest = kvwal_archive.spark.merge(spark, str(filled.archive), **NAMES, structure="queue/*")
    assert tuple(latest.columns) == (*PLACES, *COLUMNS)
    assert [latest.schema[name].dataType.simpleString() for name in PLACES] == ["string", "int", "bigint"]
    assert items_of(latest.withColumn("value", latest.value.cast("string"))) == filled.items
    own = kvwal_archive.spark.merge(spark, str(filled.archive), **NAMES, structure="queue")
    assert {row.structure for row in own.select("structure").distinct().collect()} == {"queue"}
    every = kvwal_archive.spark.history(spark, str(filled.archive), **NAMES, structure="queue/todo").where("deleted")
    assert sorted(map(tuple, every.select(*PLACES).collect())) == sorted(
        place for place in filled.taken if place[0] == "queue/todo"
    )
    named = kvwal_archive.spark.merge(spark, str(filled.archive), **NAMES, structure="map/state")
    assert [(bytes(row.key), row.key_class) for row in named.collect()] == [(b"last", "map/state:str")]
    assert tuple(named.columns) == COLUMNS
    with pytest.raises(InvalidName, match="structure name 'a:b'"):
        kvwal_archive.spark.merge(spark, str(filled.archive), **NAMES, structure="queue/a:b")


@pytest.mark.long
def test_what_is_wrong_is_named(spark: SparkSession, filled: Filled, tmp_path: Path) -> None:
    for options, sentence in (
        ({"structure": "todo"}, r"the option 'structure' is 'todo'"),
        (
            {"structure": "queue", "archive": "", "store": "kvwal://localhost:5701"},
            "is a cluster, of which Spark reads the maps of businesses only",
        ),
        ({"structure": "queue", "archive": "", "store": filled.root, "view": "history"}, "from an archive only"),
    ):
        with pytest.raises(PySparkException, match=rf"ConfigError: .*{sentence}"):
            source(spark, **{"archive": filled.archive, **options}).collect()
    with kvwal.open(tmp_path / "root", node="n1", archive=tmp_path / "archive") as store:
        store.queue("work").put_many(range(100))
        store.archive()
    [path] = object_paths(tmp_path / "archive")
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)
    with pytest.raises(PySparkException, match=rf"ArchiveDamaged: .*{path.name}: .*kvwal archive verify"):
        source(spark, archive=tmp_path / "archive", structure="queue").collect()
    with pytest.raises(PySparkException, match=rf"ArchiveDamaged: .*{path.name}"):
        kvwal_archive.spark.merge(spark, str(tmp_path / "archive"), **NAMES, structure="queue").collect()
