"""The sink `kvwal` on a real Spark, into a folder: what a read shows comes back, and each row is there once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark import TaskContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import kvwal
from kvwal.spark.state.records import PREFIX
from tests.support.polling import until
from tests.support.spark import session

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-write.md"
LARGE = 60_000
"""Rows of about 250 bytes: some transactions."""


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    spark = session("sink", **{"spark.master": "local[2,2]"})
    kvwal.spark.register(spark)
    yield spark
    spark.stop()


def write(frame: DataFrame, root: Path, business: str = "jobs", **options: str) -> None:
    frame.write.format("kvwal").options(**{"store": str(root), "business": business, **options}).mode("append").save()


def read(spark: SparkSession, root: Path, business: str = "jobs") -> DataFrame:
    return spark.read.format("kvwal").options(store=str(root), business=business).load()


def stored(root: Path, business: str = "jobs") -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Keys and values of a business as their bytes."""
    with kvwal.open(root, read_only=True) as store:
        return {
            (entry.key_class, entry.key): (entry.value_class, entry.value)
            for entry in store.map(business).entries()
            if not entry.key.startswith(PREFIX.encode())
        }


def staged(root: Path) -> list[Path]:
    return [path for path in (root / "_staging").rglob("*") if path.is_file()]


def changes(root: Path, business: str = "jobs") -> dict[Any, int]:
    """How often each key was changed."""
    with kvwal.open(root, read_only=True) as store:
        jobs = store.map(business)
        return {key: len(jobs.history(key)) for key in jobs if not key.startswith(PREFIX)}


def fails_when(fails: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """A function for `mapInArrow`: all rows as they are, and then an error if this holds for the task."""

    def run(rows: Any) -> Any:
        yield from rows
        if fails(TaskContext.get()):
            raise ValueError("on purpose")

    return run


@pytest.mark.long
def test_what_a_read_shows_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    items = {
        "a": {"n": 1, "s": "é", "of": [1.5, None, True]}, "b": "text", "c": 5, "d": 2.0, "e": None, "f": False, 7: [1],
        1.5: "float", True: "bool", b"\xff": "bytes", b"text": "bytes", None: "none", 1 << 70: {},
        datetime(2026, 1, 31, tzinfo=UTC): 1, date(2026, 1, 31): 2, Decimal("2.50"): 3, UUID(int=7): 4,
        ("a", 7, (date(2026, 1, 31), b"\xff")): 5,
    }  # fmt: skip
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs").put_many(items)
    write(read(spark, tmp_path), tmp_path, "copy")
    assert stored(tmp_path, "copy") == stored(tmp_path)
    typed = spark.read.format("kvwal").options(store=str(tmp_path), business="jobs", mode="drop")
    write(typed.schema("key STRING, n BIGINT, s STRING, of ARRAY<DOUBLE>").load(), tmp_path, "typed", mode="drop")
    assert ("json", b'{"n":1,"s":"\xc3\xa9"}') not in stored(tmp_path, "typed").values()


def test_fields_become_values_and_a_column_deletes(spark: SparkSession, tmp_path: Path) -> None:
    first = spark.range(100).selectExpr(
        "concat('job-', id) AS key", "id AS n", "timestamp '2026-11-24T10:00:00Z' AS at"
    )
    write(first, tmp_path)
    second = first.where("n < 50").selectExpr("key", "n + 1 AS n", "n % 2 = 0 AS gone")
    write(second, tmp_path, deleted="gone")
    with kvwal.open(tmp_path, read_only=True) as store:
        jobs = store.map("jobs")
        assert jobs["job-99"] == {"n": 99, "at": "2026-11-24T10:00:00Z"}
        assert jobs["job-1"] == {"n": 2}
        assert len(jobs) == 75
        assert "job-2" not in jobs
        assert len({jobs.history(f"job-{number}")[0].timestamp for number in range(50)}) == 1  # one transaction
    assert staged(tmp_path) == []


@pytest.mark.long
def test_a_task_that_fails_and_runs_again_writes_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 400, 1, 2).selectExpr("concat('job-', id) AS key", "repeat('x', 100) AS v")
    write(frame.mapInArrow(fails_when(lambda task: task.attemptNumber() == 0), frame.schema), tmp_path)
    assert changes(tmp_path) == {f"job-{number}": 1 for number in range(400)}
    assert staged(tmp_path) == []


@pytest.mark.long
def test_a_write_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 4000, 1, 2).selectExpr("concat('job-', id) AS key", "repeat('x', 100) AS v")

    def fails(task: Any) -> bool:
        """The other task has ended by then: what a task leaves that outlives its job goes when it is old."""
        return bool(task.partitionId() == 1 and until(lambda: staged(tmp_path) or None))

    with pytest.raises(PySparkException, match="on purpose"):
        write(frame.mapInArrow(fails_when(fails), frame.schema), tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs")["a"] = 1
        with pytest.raises(PySparkException, match=r"StoreLocked: .*jobs.*Stop that process"):
            write(frame, tmp_path)
    assert (len(stored(tmp_path)), staged(tmp_path)) == (1, [])


@pytest.mark.long
def test_a_large_write_is_one_transaction_and_the_marks_of_others_are_not_shown(
    spark: SparkSession, tmp_path: Path
) -> None:
    frame = spark.range(0, LARGE, 1, 3).selectExpr("concat('job-', id) AS key", "repeat('x', 180) AS v")
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("jobs").put_many({"a": 1, f"{PREFIX}unfinished": ["1795558549423-00000000000000aa"]})
    assert [row["key"] for row in read(spark, tmp_path).collect()] == ["a"]
    write(frame, tmp_path)
    with kvwal.open(tmp_path, read_only=True) as store:
        jobs = store.map("jobs")
        assert len(jobs) == LARGE + 1
        assert len({entry.timestamp for entry in jobs.entries("job-")}) == 1
    assert staged(tmp_path) == []


def test_a_staging_place_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 4000, 1, 2).selectExpr("concat('job-', id) AS key", "repeat('x', 100) AS v")
    write(frame, tmp_path / "root", staging=str(tmp_path / "shared"))
    assert len(stored(tmp_path / "root")) == 4000
    assert not (tmp_path / "root" / "_staging").exists()
    assert [path for path in (tmp_path / "shared").rglob("*") if path.is_file()] == []


@pytest.mark.long
def test_what_is_wrong_is_named(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([("a", 1), (None, 2)], "key STRING, n INT")
    wrong: dict[str, dict[str, str]] = {
        "a write of format kvwal has no option 'view'": {"view": "latest"},
        "is an archive, and an archive can only be read here": {"store": "s3://bucket/prefix"},
        "names the column 'gone'": {"deleted": "gone"},
        "map 'jobs', key None: the row cannot be written: its key is null": {},
    }
    for sentence, options in wrong.items():
        with pytest.raises(PySparkException, match=rf"(ConfigError|CodecError): .*{sentence}"):
            write(frame, tmp_path, **options)
    overwriting = frame.write.format("kvwal").options(store=str(tmp_path), business="jobs").mode("overwrite")
    with pytest.raises(PySparkException, match=r"ConfigError: .*never replaces a whole business"):
        overwriting.save()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    write(frame, tmp_path, mode="drop")
    assert stored(tmp_path) == {("str", b"a"): ("json", b'{"n":1}')}


class Stream:
    """A stream of files into a store. Each file is an epoch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.root = folder / "root"
        self.input = folder / "in"
        self.input.mkdir()
        self.files = 0

    def put(self, *numbers: int) -> None:
        self.files += 1
        partial = self.folder / "file.json"
        partial.write_text("".join(f'{{"key": "job-{number}", "n": {self.files}}}\n' for number in numbers))
        partial.rename(self.input / f"{self.files}.json")

    def start(self, checkpoint: str = "checkpoint", **trigger: Any) -> Any:
        frame = self.spark.readStream.schema("key STRING, n INT").option("maxFilesPerTrigger", 1).json(str(self.input))
        sink = frame.writeStream.format("kvwal").options(store=str(self.root), business="jobs")
        return sink.option("checkpointLocation", str(self.folder / checkpoint)).trigger(**trigger).start()

    def run(self, checkpoint: str = "checkpoint") -> None:
        self.start(checkpoint, availableNow=True).awaitTermination()


@pytest.mark.long
def test_a_replayed_epoch_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.put(1, 2)
    stream.put(2, 3)
    stream.run()
    assert changes(stream.root) == {"job-1": 1, "job-2": 2, "job-3": 1}
    last = max((tmp_path / "checkpoint" / "commits").iterdir(), key=lambda path: path.name)
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
    stream.put(4)
    stream.run()
    assert changes(stream.root) == {"job-1": 1, "job-2": 2, "job-3": 1, "job-4": 1}


@pytest.mark.long
def test_two_queries_with_one_id_are_told_and_nothing_is_mixed(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.put(1)
    stream.run()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    for number in (2, 3):
        stream.put(number)
        stream.run()
    with pytest.raises(StreamingQueryException, match=r"FencedWriter: .*epoch 2 was written already.* at epoch 1"):
        stream.run("copy")
    assert changes(stream.root) == {"job-1": 1, "job-2": 1, "job-3": 1}


@pytest.mark.long
def test_the_lines_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    spark.range(8).selectExpr("concat('job-', id) AS key", "id AS ms", "'ok' AS state").write.json(str(landing))
    names: dict[str, Any] = {
        "spark": spark, "store": str(tmp_path / "root"), "checkpoint": str(tmp_path / "checkpoint"),
        "landing": str(landing), "jobs": spark.read.schema("key STRING, ms BIGINT, state STRING").json(str(landing)),
    }  # fmt: skip
    for lines in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        assert lines.count("\n") < 10
        exec(lines, names)
    with kvwal.open(tmp_path / "root", read_only=True) as store:
        jobs = store.map("jobs")
        assert jobs["job-7"] == {"ms": 7, "state": "ok"}
        assert "job-1" not in jobs
        assert store.map("copy").items() == jobs.items()
        assert len([key for key in store.map("arrived") if not key.startswith(PREFIX)]) == 8
