"""The streaming read of a cluster, on real logs of three members and a real archive, without Spark and without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from kvwal.errors import ArchiveGap, ClusterUnreachable, ConfigError
from kvwal.spark.datasource.cluster_batches import ClusterBatches
from kvwal.spark.datasource.cluster_stream import BATCH_BYTES, ClusterChangesReader
from kvwal.spark.datasource.source import SCHEMA, KvwalSource
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.cluster.members import NAMES, Members, run
from tests.support.ports import free_port

T = TypeVar("T")
Row = tuple[str, int, str]


def reader(members: Members | None = None, **options: str) -> ClusterChangesReader:
    """A new reader, as after a restart; it asks these members in place of a cluster."""
    source = KvwalSource({"store": "kvwal://host:5701", "business": "jobs", **options})
    source.schema()
    made = source.streamReader(SCHEMA)
    assert isinstance(made, ClusterChangesReader)
    if members is not None:
        made._batches = ClusterBatches(members.changes(), "default/local/jobs")
    return made


def rows(stream: ClusterChangesReader, start: Any, end: Any) -> list[Row]:
    """Node, sequence and key of the rows of a batch, decoded by a reader of its own as on a worker."""
    found: list[Row] = []
    for partition in stream.partitions(json.loads(json.dumps(start)), json.loads(json.dumps(end))):
        for batch in reader().read(partition):
            columns = batch.select(["node", "sequence", "key"]).to_pydict()
            found += zip(*columns.values(), strict=True)
    return found


def on_thread(call: Callable[[], T]) -> Any:
    return asyncio.to_thread(call)


async def put(members: Members, *names: str) -> None:
    """Put a key at each of these members, one after the other."""
    for name in names:
        members.clock.ms += 1
        await members.stores[name].map("jobs").put(f"{name} {members.clock.ms}", members.clock.ms)


def test_a_planned_batch_is_read_from_memory_and_after_a_restart_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node goes between the plan and the tasks. Its rows are there; after a restart they are missed until it is back."""

    async def work(members: Members) -> None:
        await put(members, *NAMES, *NAMES)

        def plan() -> tuple[ClusterChangesReader, Any, Any]:
            stream = reader(members)
            start = stream.initialOffset()
            return stream, start, stream.latestOffset(start, stream.getDefaultReadLimit())

        stream, start, end = await on_thread(plan)
        members.living.remove("node-3")
        planned = await on_thread(partial(rows, stream, start, end))
        assert [row[:2] for row in planned] == [(name, n) for n in (1, 2) for name in NAMES]
        await put(members, "node-1")
        again = reader(members)
        with pytest.raises(ArchiveGap, match=r"jobs: node-3 is away, .*up to sequence 2 are not in the archive"):
            await on_thread(partial(rows, again, start, end))
        members.living.append("node-3")
        await put(members, "node-3")
        assert await on_thread(partial(rows, again, start, end)) == planned
        stream.commit(end)
        assert not stream._held
        following = await on_thread(partial(stream.latestOffset, end, ReadAllAvailable()))
        assert {row[:2] for row in await on_thread(partial(rows, stream, end, following))} == {
            ("node-1", 3),
            ("node-3", 3),
        }
        assert await on_thread(partial(stream.latestOffset, following, ReadAllAvailable())) == following

    run(partial(Members, tmp_path, monkeypatch), work)


def test_limits_available_now_and_a_start_at_a_time_or_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(members: Members) -> None:
        members.clock.ms += 1
        first = await members.stores["node-1"].map("jobs").put("first", 1)
        await put(members, *NAMES)

        def batches(**options: str) -> list[list[Row]]:
            stream = reader(members, **options)
            at = stream.initialOffset()
            stream.prepareForTriggerAvailableNow()
            found: list[list[Row]] = []
            while (end := stream.latestOffset(at, stream.getDefaultReadLimit())) != at:
                found.append(rows(stream, at, end))
                stream.commit(end)
                at = end
            return found

        assert [len(batch) for batch in await on_thread(batches)] == [4]
        limited = await on_thread(partial(batches, maxRowsPerTrigger="3", after=str(first)))
        assert [[row[:2] for row in batch] for batch in limited] == [[("node-1", 2), ("node-2", 1), ("node-3", 1)]]
        position = '{"node-1":2,"node-2":0,"node-3":0}'
        assert len(await on_thread(partial(batches, maxBytesPerTrigger="1", after=position))) == 2
        stream = reader(members, after='{"node-1":9}')
        with pytest.raises(ConfigError, match="the position is sequence 9, and the log ends with 2"):
            await on_thread(stream.initialOffset)

    run(partial(Members, tmp_path, monkeypatch), work)


def test_compacted_history_is_a_beginning_and_later_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the last rows that compaction has looked at are gone, because they are old deletes."""

    async def work(members: Members) -> None:
        jobs, place = members.stores["node-2"].map("jobs"), Place("default", "local", "jobs", "node-2")

        async def compact() -> None:
            for _ in range(3):
                members.clock.ms += 1
                await jobs.put("a", members.clock.ms)
            members.clock.ms += 1
            await jobs.delete("a")
            await members.stores["node-2"].archive()
            await members.stores["node-2"].checkpoint()
            await members.stores["node-2"].archive()
            now = members.clock.ms + 1000
            compaction.rewrite(open_objects(str(members.archive)), place, now_ms=now, history_ms=0, force=True)

        await compact()
        await put(members, "node-1", "node-2")
        stream = reader(members)
        start = await on_thread(stream.initialOffset)
        assert start["node-2"]["thinned"] == 4
        end = await on_thread(partial(stream.latestOffset, start, ReadAllAvailable()))
        found = await on_thread(partial(rows, stream, start, end))
        assert {row[:2] for row in found} - {("node-2", 4)} == {("node-1", 1), ("node-2", 5)}
        await compact()
        with pytest.raises(ArchiveGap, match=r"of sequences .* the archive has kept"):
            await on_thread(partial(reader(members).latestOffset, end, ReadAllAvailable()))

    run(partial(Members, tmp_path, monkeypatch), work)


def test_the_limits_are_told_to_spark() -> None:
    assert reader().getDefaultReadLimit() == ReadMaxBytes(BATCH_BYTES)
    assert reader(maxRowsPerTrigger="5").getDefaultReadLimit() == ReadMaxRows(5)
    assert reader(maxBytesPerTrigger="7").getDefaultReadLimit() == ReadMaxBytes(7)


def test_a_cluster_that_is_away_is_named() -> None:
    with pytest.raises(ClusterUnreachable, match="answers"):
        reader(store=f"kvwal://127.0.0.1:{free_port()}").initialOffset()
