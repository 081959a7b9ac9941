"""An archive on a real Spark: `kvwal_archive.spark` and the data source `kvwal` give the rows of the local merge and history."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

import kvwal
import kvwal_archive.spark
from kvwal.codecs import registry as registry_of_codecs
from kvwal.location.cluster import ClusterMaps
from kvwal.location.opening import Names, open_reader
from kvwal.location.parse import FolderLocation
from kvwal.ports.clock import SYSTEM
from kvwal.spark.datasource.source import PUSHDOWN
from kvwal_archive import registry
from kvwal_archive.errors import ArchiveError, ArchiveGap, ConfigError
from kvwal_archive.layout import Span
from kvwal_archive.merge import Row, latest_plain
from kvwal_archive.objects import open_objects
from kvwal_archive.spark import frames, plan
from kvwal_archive.view import latest
from kvwal_archive.writer import put_segment
from tests.property.test_archive_laws import HISTORIES, live
from tests.property.test_base_laws import STEPS, Archived, take_step
from tests.property.test_scan_laws import WHERE, archives
from tests.support.archive.history import LOG, PLACE, fill, from_table, object_paths, place, rows, table
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.polling import until
from tests.support.spark import session

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-archive.md"
NAMES = {"namespace": PLACE.namespace, "cluster": PLACE.cluster, "business": PLACE.business}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("archive")
    yield spark
    spark.stop()


def shown(some: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(tuple(getattr(row, name) for name in frames.COLUMNS) for row in some)


def collected(frame: Any) -> list[tuple[Any, ...]]:
    assert tuple(frame.columns) == frames.COLUMNS
    return sorted(
        tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in frame.collect()
    )


@pytest.mark.long
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_spark_merges_as_the_plain_and_the_vectorised_form(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    url = str(tmp_path_factory.mktemp("archive"))
    objects, logged = data.draw(archives(url))
    monkeypatch.setattr(plan, "PARTITION_BYTES", 1)
    plain = latest_plain(logged)
    assert from_table(latest(objects, *WHERE)) == plain
    live = [row for row in plain if not row.deleted and not row.expires]  # what expires did so in 1970
    assert collected(kvwal_archive.spark.merge(spark, url, **NAMES)) == shown(live)
    assert collected(kvwal_archive.spark.history(spark, url, **NAMES)) == shown(logged)


def readable(row: Row) -> Row:
    """The row with a key of its class. Those of a shape are text already."""
    few = [b"", b"k", b"k\0", b"\xff"]
    if row.key not in few:
        return row
    number = few.index(row.key)
    keys = {"int": number, "str": f"key-{number}", "bytes": row.key}
    return row._replace(key=registry_of_codecs.encode_key(keys[row.key_class])[0])


@pytest.mark.long
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HISTORIES, STEPS)
def test_five_ways_give_the_same_latest_rows(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[list[Row], ...],
    steps: list[tuple[str, int, int, str]],
) -> None:
    """Of logs of several nodes with deletes, ties and expiry, with rewrites and bases: the plain merge, the vectorised one,
    Spark's, the data source, and a restored store."""
    folder = tmp_path_factory.mktemp("five")
    url = str(folder / "archive")
    archived = Archived(open_objects(url), [[readable(row) for row in log] for log in found])
    monkeypatch.setattr(plan, "PARTITION_BYTES", 1)
    for node, count, horizon, what in steps:
        archived.put(node, count)
        take_step(archived, node, horizon, what)
    now = SYSTEM.wall_ms()
    plain = live(latest_plain(archived.rows()), now)
    assert live(from_table(latest(archived.objects, *WHERE)), now) == plain
    assume(archived.rows())
    assert collected(kvwal_archive.spark.merge(spark, url, **NAMES)) == shown(plain)
    kvwal.spark.register(spark)
    ages = ("key_class", "timestamp", "node", "sequence")
    source = reader(spark, url).load().select(*ages).collect()
    assert sorted(map(tuple, source)) == sorted(tuple(getattr(row, name) for name in ages) for row in plain)
    kvwal.restore(url, folder / "root", namespace=NAMES["namespace"], cluster=NAMES["cluster"])
    with open_reader(FolderLocation(folder / "root"), Names(NAMES["namespace"], NAMES["cluster"])) as store:
        restored = [
            (entry.key_class, entry.key, entry.value_class, entry.value)
            for entry in store.read_business("jobs").entries()
        ]
    assert sorted(restored) == sorted((row.key_class, row.key, row.value_class, row.value) for row in plain)


def test_what_is_wrong_before_the_query_runs_is_an_error_of_kvwal(spark: SparkSession, tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    fill(objects, PLACE, [(1, 5), (6, 9), (10, 12)])
    for read in (kvwal_archive.spark.merge, kvwal_archive.spark.history):
        with pytest.raises(ConfigError, match=r"no map 'job' in ns/local \(there are: jobs\)\. Check"):
            read(spark, str(tmp_path), **{**NAMES, "business": "job"})
        with pytest.raises(ConfigError, match="no filesystem for nowhere:// is known"):
            read(spark, "nowhere://bucket", **NAMES)
        with pytest.raises(ArchiveError, match=r"_log is not a folder.* Choose another folder"):
            read(spark, f"{tmp_path}/{PLACE.prefix}/_log", **NAMES)
    object_paths(tmp_path)[1].unlink()
    with pytest.raises(ArchiveGap, match="sequences 6–9 are in no object"):
        kvwal_archive.spark.merge(spark, str(tmp_path), **NAMES)


def damage_footer(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])


def damage_rows(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])


def test_damage_is_named_with_its_object(spark: SparkSession, tmp_path: Path) -> None:
    fill(open_objects(str(tmp_path)), PLACE, [(1, 5), (6, 9)])
    path = object_paths(tmp_path)[0]
    frame = kvwal_archive.spark.merge(spark, str(tmp_path), **NAMES)
    damage_rows(path)
    with pytest.raises(PythonException, match=rf"ArchiveDamaged: {PLACE.prefix}/{path.name}: .*kvwal archive verify"):
        frame.collect()
    damage_footer(path)
    with pytest.raises(ArchiveError, match=rf"{path.name}: "):
        kvwal_archive.spark.merge(spark, str(tmp_path), **NAMES)


def reader(spark: SparkSession, url: object, **options: str) -> Any:
    read = spark.read.format("kvwal").option("archive", str(url)).option("namespace", PLACE.namespace)
    return read.option("business", PLACE.business).options(**options)


@pytest.fixture(params=["true", "false"])
def registered(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    spark.conf.set(PUSHDOWN, request.param)
    kvwal.spark.register(spark)
    return spark


@pytest.mark.long
def test_the_data_source_gives_the_rows_of_the_merge_and_of_the_history(
    registered: SparkSession, tmp_path: Path
) -> None:
    objects = open_objects(str(tmp_path))
    found = []
    for node in ("a", "b"):
        of_node = [row._replace(value_class="" if row.deleted else "json") for row in rows(1, 40, node=node, keys=9)]
        registry.register(objects, place(node), LOG)
        for first, last in ((1, 15), (14, 40)):
            part, seals = table(of_node[first - 1 : last]), list(range(first, last + 1))
            put_segment(
                objects, place(node), Span(first, last), part, log_id=LOG, previous_crc=first - 1, seal_crcs=seals
            )
        found += of_node
    names = ("key", "value", "timestamp", "deleted", "node", "sequence")
    live = [row for row in latest_plain(found) if not row.deleted]

    def texts(some: list[Row]) -> list[tuple[Any, ...]]:
        lines = [(row.key.decode(), row.value.decode() or None, *row.age[:1], row.deleted) for row in some]
        return sorted(((*line, row.node, row.sequence) for line, row in zip(lines, some, strict=True)), key=str)

    latest_frame = reader(registered, tmp_path).load()
    assert latest_frame.columns == [*frames.COLUMNS]
    assert sorted(map(tuple, latest_frame.select(*names).collect()), key=str) == texts(live)
    changes = reader(registered, tmp_path, view="history").load().select(*names)
    assert sorted(map(tuple, changes.collect()), key=str) == texts(found)
    wanted = latest_frame.select(*names).where("key IN ('key-001', 'key-004') AND timestamp > 67043328")
    few = [row for row in live if row.key in (b"key-001", b"key-004") and row.timestamp > 67043328]
    assert sorted(map(tuple, wanted.collect()), key=str) == texts(few)


@pytest.mark.long
def test_the_data_source_names_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    kvwal.spark.register(spark)
    fill(open_objects(str(tmp_path)), PLACE, [(1, 5), (6, 9), (10, 12)])
    wrong = {
        "format kvwal has no option 'buisness'": {"buisness": "jobs"},
        "the option 'view' is 'newest'": {"view": "newest"},
        "the option 'mode' is 'permissive'": {"mode": "permissive"},
        "format kvwal needs the option 'business'": {"business": ""},
        "needs one of the options 'archive' and 'store'": {"archive": ""},
        "no map 'job' in ns/local": {"business": "job"},
        "_log is not a folder": {"archive": f"{tmp_path}/{PLACE.prefix}/_log"},
        "no filesystem for nowhere:// is known": {"archive": "nowhere://bucket"},
    }
    for sentence, options in wrong.items():
        with pytest.raises(PySparkException, match=rf"(ConfigError|ArchiveError): .*{sentence}"):
            reader(spark, tmp_path, **options).load().collect()
    damage_rows(object_paths(tmp_path)[0])
    with pytest.raises(PySparkException, match=r"ArchiveDamaged: .*kvwal archive verify"):
        reader(spark, tmp_path).load().collect()
    object_paths(tmp_path)[1].unlink()
    with pytest.raises(PySparkException, match=r"ArchiveGap: .*sequences 6–9 are in no object"):
        reader(spark, tmp_path).load().collect()


def assert_restored_into(spark: SparkSession, address: str, folder: Path) -> None:
    """An archive of the same names goes into the running cluster: only keys that are absent, and once more without harm."""
    with kvwal.open(folder / "other", cluster=CLUSTER, archive=folder / "old") as store:
        store.map("jobs").put_many({"b": {"n": 7}, "old": {"n": 8}})
        store.map("more").put_many({number: f"value {number}" for number in range(500)})
        store.map("more").put("later", [1.5], ttl=3600)
        del store.map("more")[0]
        store.archive()
    for put in ({"jobs": 1, "more": 500}, {"jobs": 0, "more": 0}):
        assert kvwal.spark.restore(spark, folder / "old", address, cluster=CLUSTER) == put
    with kvwal.connect(address.removeprefix("kvwal://"), cluster=CLUSTER) as store:
        assert store.map("jobs")["b"] == {"n": 20}
        assert store.map("jobs")["old"] == {"n": 8}
        more = dict(store.map("more").items())
        assert more == {**{number: f"value {number}" for number in range(1, 500)}, "later": [1.5]}
        (entry,) = ClusterMaps(store).read_business("more", logged=True).entries("later")
        assert 3_000_000 < entry.expires - time.time() * 1000 <= 3_600_000


@needs_hazelcast
@pytest.mark.long
def test_a_cluster_and_a_root_are_read_with_what_is_not_archived_yet(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set(PUSHDOWN, "true")
    kvwal.spark.register(spark)
    with running(
        tmp_path / "root", config="[log]\narchive_seconds = 1\n", more=["--archive", str(tmp_path / "archive")]
    ) as node:
        address = f"kvwal://{node.address}"
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            jobs = store.map("jobs")
            jobs.put_many({"a": {"n": 1}, "b": {"n": 2}, 3: "three", "gone": {"n": 9}})
            del jobs["gone"]
            until(lambda: object_paths(tmp_path / "archive") or None)
            jobs.put_many({"b": {"n": 20}, "late": {"n": 5}})
        expected = {("3", '"three"'), ("a", '{"n":1}'), ("b", '{"n":20}'), ("late", '{"n":5}')}

        def source(where: str, **options: str) -> Any:
            return spark.read.format("kvwal").options(store=where, cluster=CLUSTER, business="jobs", **options)

        frames_of = {where: source(where).load() for where in (address, str(tmp_path / "root"))}
        found = [sorted(map(tuple, frame.drop("node", "sequence").collect())) for frame in frames_of.values()]
        assert found[0] == found[1]
        assert {row[:2] for row in found[0]} == expected
        for frame in frames_of.values():
            assert {tuple(row) for row in frame.select("key", "value").where("key IN ('b', '3')").collect()} == {
                ("3", '"three"'), ("b", '{"n":20}'),
            }  # fmt: skip
        typed = source(address, mode="drop").schema("key STRING, n BIGINT").load()
        assert dict(map(tuple, typed.collect())) == {"a": 1, "b": 20, "late": 5}
        for options, sentence in (
            ({"view": "history"}, "the changes of all keys are read from an archive only"),
            ({"archive": "x"}, "needs one of the options 'archive' and 'store'"),
            ({"business": "job"}, "job"),
        ):
            with pytest.raises(PySparkException, match=rf"ConfigError: .*{sentence}"):
                source(address).options(**options).load().collect()
        assert_restored_into(spark, address, tmp_path)
        node.stop()
    archived = source(str(tmp_path / "archive")).load()
    assert {(row["key"], row["value"]) for row in archived.collect()} == expected | {("old", '{"n":8}')}


@pytest.mark.long
def test_values_are_columns_by_the_schema_of_the_query(registered: SparkSession, tmp_path: Path) -> None:
    moment = "2026-11-24T10:00:00+00:00"
    with kvwal.open(tmp_path / "root", namespace=PLACE.namespace, node="n1", archive=tmp_path / "archive") as store:
        jobs = store.map(PLACE.business)
        jobs.put_many(
            {"a": {"n": 1, "when": moment, "tags": ["x", None], "at": {"host": "h"}}, "b": {"n": "two"}, "c": 5}
        )
        jobs["gone"] = {"n": 4}
        del jobs["gone"]
        store.archive()
    ddl = "n BIGINT, key STRING, when TIMESTAMP, tags ARRAY<STRING>, at STRUCT<host: STRING>, deleted BOOLEAN"
    fits = (1, "a", datetime.fromisoformat(moment), ["x", None], SparkRow(host="h"), False)
    null = [(None, key, None, None, None, False) for key in ("b", "c")]

    def found(**options: str) -> list[tuple[Any, ...]]:
        frame = reader(registered, tmp_path / "archive", **options).schema(ddl).load()
        assert frame.schema["when"].dataType.simpleString() == "timestamp"
        return sorted(
            ((*row[:2], row[2] and row[2].astimezone(UTC), *row[3:]) for row in frame.collect()), key=lambda row: row[1]
        )

    assert found(mode="drop") == [fits]
    assert found(mode="null") == [fits, *null]
    assert [row[:2] for row in found(mode="null", view="history") if row[-1]] == [(None, "gone")]
    with pytest.raises(
        PySparkException,
        match=r"CodecError: map 'jobs', key 'b': the value .*Expected `int \| null`, got `str` - at `\$\.n`",
    ):
        found()
    with pytest.raises(PySparkException, match=r"ConfigError: the column 'n' cannot be binary"):
        reader(registered, tmp_path / "archive").schema("n BINARY").load().collect()


@pytest.mark.long
def test_the_lines_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", node="n1", archive=tmp_path / "archive") as store:
        store.map("jobs").put_many({f"job-{number}": {"ms": number * 10, "state": "ok"} for number in range(8)})
        store.map("jobs").delete("job-7")
        todo = store.business("work").queue("todo")
        todo.put_many(["part-1", "part-2"], priority=-1)
        todo.put("part-3")
        assert todo.take() == "part-1"
        store.archive()
    names: dict[str, Any] = {"spark": spark, "archive": str(tmp_path / "archive"), "store": str(tmp_path / "root")}
    names |= {"kvwal": kvwal, "root": tmp_path / "restored"}
    spark.conf.unset(PUSHDOWN)
    for lines in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        assert lines.count("\n") < 10
        exec(lines, names)
    assert spark.conf.get(PUSHDOWN) == "true"
    assert [tuple(row) for row in names["slow"].collect()] == [("job-6", 60)]
    assert [tuple(row) for row in names["typed"].collect()] == [("job-6", 60, "ok")]
    assert [tuple(row) for row in names["sums"].collect()] == [(7, 210)]
    assert dict(map(tuple, names["changes"].collect())) == {f"job-{n}": 2 if n == 7 else 1 for n in range(8)}
    assert (names["made"], names["faults"], names["removed"]) == ([], [], [])
    assert names["newest"].positions["n1"].sequence == 9
    assert names["report"].entries == {"jobs": 8, "work": 3}
    assert [tuple(row) for row in names["urgent"].collect()] == [(-1, '"part-2"')]
    assert [(row.structure, row.priority) for row in names["taken"].collect()] == [("queue/todo", -1)]
    assert [(row.structure, row.priority) for row in names["items"].orderBy("priority").collect()] == [
        ("queue/todo", -1), ("queue/todo", 0),
    ]  # fmt: skip
    assert names["live"].count() == names["latest"].count() == 7
    assert names["every"].where("key_class = 'str'").count() == 9
