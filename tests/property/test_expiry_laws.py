"""Several nodes write the same keys, some to expire soon, and sweep, archive, checkpoint and rewrite in any order: the merge
of all of them shows, for now and for every moment before, the latest put of each key that had not expired by then.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvwal import aio
from kvwal.codecs import registry
from kvwal.history.reads.entry_rows import entries_of
from kvwal.store.sync import ReadOnlyStore
from kvwal.structures.map.map import Map
from kvwal.structures.map.state import to_state
from kvwal_archive.layout import Place
from kvwal_archive.maintenance import compaction as rewrite
from kvwal_archive.objects import open_objects
from kvwal_archive.restore import restore_batches
from tests.support.archive.archiver import InProcess
from tests.support.disk.faults import FakeClock, make_options, open_aio

NODES = ("a", "b", "c")
KEYS = ("j", "k")
FAR_MS = 1 << 42
Step = tuple[str, str, str, int]


class Change(NamedTuple):
    """One entry of the model: where and when, and until when (0: for ever). `value` None is a delete."""

    timestamp: int
    node: str
    key: str
    value: int | None
    expires: int


STEPS = st.tuples(
    st.sampled_from(["put", "put", "touch", "delete", "pass", "sweep", "archive", "checkpoint", "rewrite"]),
    st.sampled_from(NODES),
    st.sampled_from(KEYS),
    st.sampled_from([0, 1, 20, 300]),
)


class Nodes:
    """Three nodes on one root with one archive and one clock, and the model of what they were told."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        self.folder = folder
        self.clock = clock
        self.stores: dict[str, aio.Store] = {}
        self.changes: list[Change] = []
        self.moments: list[int] = []

    async def open(self, stack: AsyncExitStack) -> None:
        for node in NODES:
            store = open_aio(self.folder / "root", clock=self.clock, node=node, archive=self.folder / "archive")
            self.stores[node] = await stack.enter_async_context(store)

    async def take(self, number: int, step: Step) -> None:
        what, node, key, milliseconds = step
        store = self.stores[node]
        if what == "put":
            ttl = milliseconds / 1000 or None
            timestamp = await store.map("b").put(key, number, ttl)
            expires = self.clock.ms + milliseconds if milliseconds else 0
            self.changes.append(Change(timestamp, node, key, number, expires))
        elif what == "touch":
            await self.touch(store.map("b"), node, key, milliseconds)
        elif what == "delete":
            self.changes.append(Change(await store.map("b").delete(key), node, key, None, 0))
        elif what == "pass":
            self.clock.ms += milliseconds
        elif what == "sweep":
            business = await store._engine_now().business("b")
            await business.maintenance.tick()
            await business.log.flush()
        elif what == "archive":
            await store.archive()
        elif what == "checkpoint":
            await store.checkpoint()
        else:
            place = Place("default", "local", "b", node)
            rewrite.rewrite(open_objects(str(self.folder / "archive")), place, now_ms=self.clock.ms, force=True)
        self.moments.append((self.clock.ms << 16) | 0xFFFF)

    async def touch(self, b: aio.Map, node: str, key: str, milliseconds: int) -> None:
        """Change the end of a key; of one that is absent on this node that does nothing. What is left is what was asked for."""
        before = self.wanted((self.clock.ms << 16) | 0xFFFF, (node,))
        assert await b.touch(key, timedelta(milliseconds=milliseconds) if milliseconds else None) is (key in before)
        if key in before:
            assert await b.ttl(key) == (milliseconds / 1000 or None)
            entry = await b.entry(key)
            assert entry is not None
            expires = self.clock.ms + milliseconds if milliseconds else 0
            self.changes.append(Change(entry.timestamp, node, key, before[key], expires))

    def wanted(self, moment: int, nodes: tuple[str, ...] = NODES) -> dict[str, int]:
        """What is there at that timestamp, over these nodes."""
        told = [change for change in self.changes if change.timestamp <= moment and change.node in nodes]
        latest = {change.key: change for change in sorted(told, key=lambda change: change[:2])}
        now = moment >> 16
        return {
            key: change.value
            for key, change in latest.items()
            if change.value is not None and not 0 < change.expires <= now
        }

    async def check(self) -> None:
        now = self.moments[-1]
        options = make_options(self.folder / "root", clock=self.clock, archive=self.folder / "archive")
        merged = Map(ReadOnlyStore(options).read_business("b"))
        assert dict(merged) == self.wanted(now)
        for node, store in self.stores.items():
            own = {key: value async for key, value in store.map("b").scan()}
            assert own == self.wanted(now, (node,))
            await store.archive()
        for moment in dict.fromkeys(self.moments):
            assert dict(merged.at(moment)) == self.wanted(moment)
        assert dict(self.restored()) == self.wanted(now)

    def restored(self) -> Iterator[tuple[Any, Any]]:
        batches = restore_batches(open_objects(str(self.folder / "archive")), "default", "local", "b").batches
        entries = [entry for batch in batches for entry in entries_of(pa.Table.from_batches([batch]))]
        for entry in to_state(entries, lambda: self.clock.ms).all_ordered():
            yield registry.decode(entry.key, entry.key_class), registry.decode(entry.value, entry.value_class)


@settings(max_examples=10, deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=16))
@example([("put", "a", "k", 20), ("touch", "a", "k", 300), ("pass", "a", "k", 20), ("sweep", "a", "k", 0),
          ("archive", "a", "k", 0), ("touch", "a", "k", 0), ("pass", "a", "k", 300), ("touch", "b", "k", 300),
          ("delete", "a", "k", 0), ("touch", "a", "k", 1)])  # fmt: skip
@example([("put", "a", "k", 300), ("put", "b", "k", 0), ("pass", "a", "k", 300), ("sweep", "a", "k", 0)])
@example([("put", "a", "k", 20), ("pass", "a", "k", 1), ("put", "b", "k", 300), ("pass", "a", "k", 20),
          ("sweep", "a", "k", 0), ("archive", "a", "k", 0), ("checkpoint", "a", "k", 0), ("rewrite", "a", "k", 0)])  # fmt: skip
def test_what_expires_on_one_node_takes_nothing_from_another(steps: list[Step]) -> None:
    async def run(folder: Path) -> None:
        async with AsyncExitStack() as stack:
            nodes = Nodes(folder, FakeClock())
            await nodes.open(stack)
            for node in NODES:
                await nodes.take(-1, ("put", node, "j", 0))
            for number, step in enumerate(steps):
                await nodes.take(number, step)
            await nodes.check()

    with tempfile.TemporaryDirectory() as folder, mock.patch("kvwal.archiver.remote.Child", InProcess):
        asyncio.run(run(Path(folder)))
