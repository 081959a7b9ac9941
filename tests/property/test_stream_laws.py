"""The streaming read without Spark: the batches of a checkpoint are the same each time they are planned, and together they have
every change once, with any limits, on a store whose files change between the batches.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

import kvwal
from kvwal.ports.clock import SYSTEM
from kvwal.spark.datasource.source import SCHEMA, KvwalSource
from kvwal.spark.datasource.stream_reader import ChangesReader
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction
from kvwal_archive.objects import open_objects
from tests.support.archive.archiver import InProcess

Row = tuple[str, int, str, int]
NODES = ("n1", "n2")


class StreamModel(RuleBasedStateMachine):
    """Two nodes under one root, the changes that were made, and a stream with its checkpoint: offsets as JSON, and their rows."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kvwal-stream-"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("kvwal.archiver.remote.Child", InProcess)
        self.root, self.archive = self.folder / "root", self.folder / "archive"
        self.made: set[Row] = set()
        self.stores: dict[str, Any] = {}
        self.sequences = dict.fromkeys(NODES, 0)
        self.batches: list[tuple[str, str, set[Row]]] = []

    @initialize(rows=st.sampled_from(["", "1", "3"]), size=st.sampled_from(["", "20"]))
    def begin(self, rows: str, size: str) -> None:
        self.options = {"store": str(self.root), "archive": str(self.archive), "business": "b"}
        self.options |= {"maxRowsPerTrigger": rows, "maxBytesPerTrigger": size}
        for node in NODES:
            self.open(node)
            self.put(node, 1)
        self.start_again()
        self.offset = json.dumps(self.reader.initialOffset())

    def open(self, node: str) -> None:
        self.stores[node] = kvwal.open(
            self.root, node=node, archive=self.archive, settings=kvwal.Settings(segment_bytes=64 << 10)
        )

    def teardown(self) -> None:
        if hasattr(self, "offset"):
            self.batch(all_of_it=True)
            rows = [row for _, _, batch in self.batches for row in batch]
            assert len(rows) == len(set(rows)), "a change came twice"
            assert set(rows) == self.made
            self.plan_again()
        for store in self.stores.values():
            store.close(archive=False)
        self.patch.undo()
        shutil.rmtree(self.folder)

    @rule(node=st.sampled_from(NODES), count=st.integers(1, 4), large=st.booleans())
    def put(self, node: str, count: int, large: bool = False) -> None:
        jobs = self.stores[node].map("b")
        timestamp = jobs.put_many({f"key-{number}": "x" * (9_000 if large else 1) for number in range(count)})
        for number in range(count):
            self.sequences[node] += 1
            self.made.add((node, self.sequences[node], f"key-{number}", timestamp))

    @rule(node=st.sampled_from(NODES))
    def to_the_archive(self, node: str) -> None:
        self.stores[node].archive()

    @rule(node=st.sampled_from(NODES))
    def an_object_is_read_in_parts(self, node: str) -> None:
        self.put(node, 4)
        self.stores[node].archive()
        self.batch(all_of_it=False)
        self.batch(all_of_it=False)

    @rule(node=st.sampled_from(NODES))
    def checkpoint(self, node: str) -> None:
        self.stores[node].checkpoint()

    @rule(node=st.sampled_from(NODES))
    def rewritten(self, node: str) -> None:
        place = Place("default", "local", "b", node)
        compaction.rewrite(open_objects(str(self.archive)), place, now_ms=SYSTEM.wall_ms(), force=True)

    @rule(node=st.sampled_from(NODES))
    def reopen(self, node: str) -> None:
        self.stores[node].close(archive=False)
        self.open(node)

    @rule()
    def start_again(self) -> None:
        source = KvwalSource(self.options)
        source.schema()
        self.reader = source.streamReader(SCHEMA)
        assert isinstance(self.reader, ChangesReader)

    @rule(all_of_it=st.booleans())
    def batch(self, all_of_it: bool) -> None:
        limit: ReadLimit = ReadAllAvailable() if all_of_it else self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(self.offset), limit))
        if end == self.offset:
            return
        rows = self.rows(self.offset, end)
        if not all_of_it and self.options["maxRowsPerTrigger"]:
            assert len(rows) <= max(len(NODES), int(self.options["maxRowsPerTrigger"]))
        self.batches.append((self.offset, end, rows))
        self.offset = end

    @rule()
    def plan_again(self) -> None:
        """As after a restart whose last batch was not committed."""
        for start, end, rows in self.batches[-2:]:
            assert self.rows(start, end) == rows

    def rows(self, start: str, end: str) -> set[Row]:
        found: list[Row] = []
        for partition in self.reader.partitions(json.loads(start), json.loads(end)):
            for batch in KvwalSource(self.options).streamReader(SCHEMA).read(partition):
                columns = batch.select(["node", "sequence", "key", "timestamp"]).to_pydict()
                found += zip(*columns.values(), strict=True)
        assert len(found) == len(set(found)), "a change came twice in one batch"
        return set(found)


TestStreamModel = StreamModel.TestCase
TestStreamModel.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
