"""`spark.readStream.format("kvwal")`: each change once, over restarts, limits, archiving, checkpoints and compaction."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow

import kvwal
import kvwal.spark
from kvwal.ports.clock import SYSTEM
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.datasource.streams import Stream, finish, patiently
from tests.support.log.store import open_with_archiver

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-streams.md"
ROWS = "key STRING, state STRING, deleted BOOLEAN, timestamp BIGINT, node STRING, sequence BIGINT"


def rewrite(archive: Path, **given: Any) -> None:
    place = Place("default", "local", "jobs", "local")
    compaction.rewrite(open_objects(str(archive)), place, now_ms=SYSTEM.wall_ms() + 1000, force=True, **given)


@pytest.mark.long
def test_each_change_comes_once_also_when_its_files_change(spark: SparkSession, tmp_path: Path) -> None:
    root, archive = tmp_path / "root", tmp_path / "archive"
    stream = Stream(spark, tmp_path / "checkpoint", store=str(root), archive=str(archive), maxRowsPerTrigger="4")
    with open_with_archiver(root, archive) as store:
        jobs = store.map("jobs")
        for number in range(5):
            jobs[f"job-{number}"] = {"state": "NEW", "number": number}
        stream.run()
        assert stream.sequences == [1, 2, 3, 4, 5]
        assert [len(rows) for rows in stream.batches.values()] == [4, 1]
        store.archive()
        store.checkpoint()  # the segments go
        store.archive()
        jobs.put_many({"job-0": {"state": "DONE"}, "job-1": {"state": "DONE"}})
        del jobs["job-2"]
        stream.fails_at = 2
        with pytest.raises(StreamingQueryException, match="the sink failed"):
            stream.run()
        store.archive()
        rewrite(archive)
        store.checkpoint()
        stream.fails_at = None
        stream.run()
        assert stream.sequences == list(range(1, 9))
        store.archive()
        jobs["job-9"] = {"state": "NEW"}
        stream.run()
        assert stream.sequences == list(range(1, 10))
        rows = [row for _, batch in sorted(stream.batches.items()) for row in batch]
        assert [(row.key, row.deleted) for row in rows[-4:]] == [
            ("job-0", False), ("job-1", False), ("job-2", True), ("job-9", False),
        ]  # fmt: skip
        assert rows[-1].timestamp == jobs.history("job-9")[0].timestamp
    stream.run()
    assert stream.sequences == list(range(1, 10))


@pytest.mark.long
def test_a_stream_of_several_nodes_of_an_archive_begins_where_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """With typed columns, from the archive alone; `after` is a time, a timestamp or a position of a watch."""
    archive = tmp_path / "archive"
    stamps = []
    for node in ("n1", "n2", "n1"):
        with kvwal.open(tmp_path / "root", node=node, archive=archive) as store:
            stamps.append(store.map("jobs").put(node, {"state": "NEW", "n": len(stamps)}))
            store.map("jobs").put_many({"x": {"state": node}, "y": {"state": node}})
    everything = Stream(spark, tmp_path / "all", archive=str(archive))
    everything.run()
    wanted = [("n1", sequence) for sequence in range(1, 7)] + [("n2", sequence) for sequence in range(1, 4)]
    assert [(row.node, row.sequence) for row in everything.batches[0]] == wanted
    typed = (
        spark.readStream.format("kvwal")
        .schema(ROWS)
        .options(archive=str(archive), business="jobs", after=str(stamps[1]))
        .load()
    )
    assert changes(typed, tmp_path / "typed") == [
        ("x", "n2", 2), ("y", "n2", 3), ("n1", "n1", 4), ("x", "n1", 5), ("y", "n1", 6),
    ]  # fmt: skip
    position = Stream(spark, tmp_path / "position", archive=str(archive), after='{"n1":5,"n2":3}')
    position.run()
    assert position.sequences == [6]


def changes(frame: DataFrame, checkpoint: Path) -> list[tuple[str, str, int]]:
    """Key, node and sequence of the rows that a stream has now, in the order of time; the state is the node's name or NEW."""
    found: list[SparkRow] = []
    into = frame.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
    finish(into.option("checkpointLocation", str(checkpoint)))
    assert all(row.state in ("NEW", row.node) for row in found)
    ordered = sorted(found, key=lambda row: (row.timestamp, row.node, row.sequence))
    return [(row.key, row.node, row.sequence) for row in ordered]


@pytest.mark.long
def test_compacted_history_is_a_beginning_and_later_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    """Up to what compaction had removed when the stream began, the latest of each key comes; later every change must."""
    root, archive = tmp_path / "root", tmp_path / "archive"
    stream = Stream(spark, tmp_path / "checkpoint", archive=str(archive))
    with open_with_archiver(root, archive) as store:
        jobs = store.map("jobs")
        for number in range(3):
            jobs["a"] = number
        jobs["b"] = 0
        store.archive()
        rewrite(archive, history_ms=0)
        stream.run()
        assert stream.sequences == [3, 4]
        for number in range(3):
            jobs["a"] = number
        store.archive()
        rewrite(archive, history_ms=0)
        with pytest.raises(StreamingQueryException, match=r"ArchiveGap: .*of sequences 5–7 the archive has kept 1"):
            stream.run()


@pytest.mark.long
def test_the_lines_of_the_page_run(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, Any] = {
        "spark": spark, "root": str(tmp_path / "root"), "archive": str(tmp_path / "archive"),
        "checkpoint": str(tmp_path / "checkpoint"),
    }  # fmt: skip
    with kvwal.open(names["root"], archive=names["archive"]) as store:
        store.map("jobs").put_many({"a": 1, "b": 2})
        for lines in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)[:1]:
            assert lines.count("\n") < 10
            patiently(partial(exec, lines, names))
    assert [(row.key, row.value) for row in names["seen"].collect()] == [("a", "1"), ("b", "2")]
