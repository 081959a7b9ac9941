"""Deletes, and puts that have expired, leave snapshots and archive when nothing older is left that they shadow."""

from __future__ import annotations

import asyncio
import io
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kvwal import aio
from kvwal.archiver.jobs import decode_job, encode
from kvwal.archiver.work import answer
from kvwal.log.files.names import log_folder
from kvwal.log.reader import SnapshotReader, entry_decoder, log_files
from kvwal.ports.disk import OS_DISK
from kvwal_archive import registry
from kvwal_archive.layout import LOGICAL_BITS, Place, Span
from kvwal_archive.maintenance.compaction import rewrite
from kvwal_archive.maintenance.tombstones import OlderRows
from kvwal_archive.merge import Row
from kvwal_archive.objects import Objects, open_objects
from kvwal_archive.parquet.chunks import chunks_of
from kvwal_archive.reader import live_objects, read_rows
from kvwal_archive.view import latest
from kvwal_archive.writer import put_segment
from tests.support.archive.archiver import InProcess
from tests.support.archive.history import LOG, from_table, place, table
from tests.support.disk.faults import FakeClock, open_aio

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


class Archiver(InProcess):
    """The archiver in this process, by the clock of the test."""

    clock = FakeClock()

    def ask(self, line: bytes) -> bytes:
        return encode(answer(decode_job(line), clock=self.clock))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """A clock for stores and their archivers."""
    clock = FakeClock()
    monkeypatch.setattr(Archiver, "clock", clock)
    monkeypatch.setattr("kvwal.archiver.remote.Child", Archiver)
    return clock


def snapshot(root: Path, node: str = "local") -> dict[bytes, bool]:
    """What the snapshot of a log holds: each key, and whether it is a delete."""
    folder = log_folder(root, Place("default", "local", "b", node))
    path = folder / log_files(OS_DISK, folder)[1][-1].name
    found = SnapshotReader(path, path.read_bytes()).whole(entry_decoder())
    return {entry.key: entry.deleted for block in found for entry in block}


async def maintenance_of(store: aio.Store) -> Any:
    return (await store._engine_now().business("b")).maintenance


def test_without_an_archive_a_snapshot_holds_no_deletes(tmp_path: Path, clock: FakeClock) -> None:
    async def main() -> None:
        async with open_aio(tmp_path, clock=clock) as store:
            b = store.map("b")
            for turn in range(4):
                await b.put_many({f"{turn}-{number}": 1 for number in range(500)})
                async with b.transaction() as t:
                    for number in range(500):
                        del t[f"{turn}-{number}"]
                await b.put("ended", 1, ttl=1)
                await b.put("ends later", 1, ttl=60)
                clock.ms += 1000
                await b.put("kept", turn)
                await store.checkpoint()
                assert snapshot(tmp_path) == {b"ends later": False, b"kept": False}
        async with open_aio(tmp_path, clock=clock) as store:
            assert [item async for item in store.map("b").scan()] == [("ends later", 1), ("kept", 3)]

    asyncio.run(main())


def test_a_snapshot_leaves_out_what_no_other_node_needs(tmp_path: Path, clock: FakeClock) -> None:
    """Node b deletes a key of its own and one of node a: once a has archived what came later, only the latter must stay."""

    async def main() -> None:
        async with AsyncExitStack() as stack:
            a, b = [
                await stack.enter_async_context(
                    open_aio(tmp_path / node, clock=clock, node=node, archive=tmp_path / "archive")
                )
                for node in ("a", "b")
            ]
            await a.map("b").put("of a", 1)
            await a.archive()
            await b.map("b").put_many({"of b": 1, "kept": 1})
            await b.map("b").put("ended", 1, ttl=1)
            for key in ("of a", "of b"):
                await b.map("b").delete(key)
            maintenance = await maintenance_of(b)
            for a_has_passed in (False, True):
                clock.ms += 2 * HOUR_MS
                clock.seconds += 700
                await b.map("b").put("kept", 2)
                await b.archive()
                await b.checkpoint()
                needed = {b"of a": True} if a_has_passed else {b"of a": True, b"of b": True, b"ended": True}
                assert snapshot(tmp_path / "b", "b") == {b"kept": False, **needed}
                await a.map("b").put("more", 1)
                await a.archive()
            assert maintenance.progress.error is None

    asyncio.run(main())


def test_a_year_of_keys_that_come_and_go_leaves_nothing_behind(tmp_path: Path, clock: FakeClock) -> None:
    """Two nodes, each with keys of its own and keys of both; the third wrote once, and is quiet since."""
    sizes: list[int] = []

    async def turn(stores: dict[str, aio.Store], number: int) -> None:
        for node in ("a", "b"):
            b = stores[node].map("b")
            await b.put_many({f"{node}-{number}-{key}": key for key in range(20)})
            await b.put_many({f"both-{number}-{key}": key for key in range(5)}, sync=True)
            for key in range(3):
                await b.put(f"{node}-{number}-short-{key}", key, ttl=60)
            clock.ms += HOUR_MS
            async with b.transaction() as t:
                for key in range(20):
                    del t[f"{node}-{number}-{key}"]
                for key in range(5):
                    del t[f"both-{number}-{key}"]
        clock.ms += 4 * WEEK_MS
        clock.seconds += 700
        for store in stores.values():
            maintenance = await maintenance_of(store)
            await maintenance._compact()
            await maintenance.log.flush()
            await store.archive()
            await store.checkpoint()

    async def main() -> None:
        async with AsyncExitStack() as stack:
            stores = {
                node: await stack.enter_async_context(
                    open_aio(tmp_path / node, clock=clock, node=node, archive=tmp_path / "archive")
                )
                for node in ("a", "b", "c")
            }
            for node, store in stores.items():
                await store.map("b").put(f"kept by {node}", 1)
                await store.archive()
            for number in range(13):
                await turn(stores, number)
                sizes.append(rows(tmp_path / "archive"))
            for node in ("a", "b"):
                assert len(snapshot(tmp_path / node, node)) < 60

    asyncio.run(main())
    assert max(sizes) < 300, "a turn writes 106 rows, and all of them 1,378"


def rows(archive: Path) -> int:
    """Rows in all live objects."""
    objects = open_objects(str(archive))
    places = registry.registered(objects, "default", "local", "b")
    return sum(info.footer.rows for where in places for info in live_objects(objects, where))


def put(objects: Objects, node: str, rows: list[tuple[str, int | None, int]]) -> None:
    """A log of one object: keys, values (None: a delete) and milliseconds."""
    found = [
        Row("str", key.encode(), b"" if value is None else b"%d" % value, "" if value is None else "int", value is None,
            milliseconds << 16, 0, node, sequence)
        for sequence, (key, value, milliseconds) in enumerate(rows, 1)
    ]  # fmt: skip
    registry.register(objects, place(node), LOG)
    put_segment(
        objects, place(node), Span(1, len(rows)), table(found), log_id=LOG, previous_crc=0, seal_crcs=[len(rows)]
    )


def left(objects: Objects, node: str) -> list[str]:
    found = [read_rows(objects, info).column("key").to_pylist() for info in live_objects(objects, place(node))]
    return [key.decode() for keys in found for key in keys]


def test_a_rewrite_drops_the_deletes_that_hold_nothing_down(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    put(
        objects,
        "node-1",
        [("a", 1, 10), ("a", None, 11), ("b", None, 12), ("c", None, 13), ("late", None, 60), ("z", 1, 99)],
    )
    put(objects, "other", [("b", 1, 5), ("c", 1, 20), ("y", 1, 50)])
    rewrite(objects, place(), now_ms=1000, history_ms=0, force=True)
    assert left(objects, "node-1") == ["b", "late", "z"]


def test_a_delete_stays_while_another_node_has_a_put_of_the_same_timestamp(tmp_path: Path) -> None:
    """Of the two the delete counts, because its node comes later; a copy of the delete itself holds up nothing."""
    objects = open_objects(str(tmp_path))
    put(objects, "node-1", [("a", 1, 10), ("a", None, 11), ("copied", None, 12), ("z", 1, 99)])
    put(objects, "at-once", [("a", 1, 11), ("copied", None, 12), ("y", 1, 99)])
    rewrite(objects, place(), now_ms=1000, history_ms=0, force=True)
    assert left(objects, "node-1") == ["a", "z"]
    told = from_table(latest(objects, *place()[:3]))
    assert [row.key for row in told if not row.deleted] == [b"y", b"z"]


def test_no_delete_goes_because_of_a_flipped_bit_in_the_rows_of_another_node(tmp_path: Path) -> None:
    """Headers of pages too, which Parquet does not check: what cannot be read holds every delete up."""
    objects = open_objects(str(tmp_path))
    put(objects, "other", [("a", 1, 9), ("y", 1, 99)])
    (info,) = live_objects(objects, place("other"))
    assert OlderRows(objects, [info], 0).holds("str", b"a", 11 << LOGICAL_BITS)
    assert not OlderRows(objects, [info], 0).holds("str", b"b", 11 << LOGICAL_BITS)
    whole = objects.read(info.key)
    keys, key_classes = chunks_of(pq.read_metadata(io.BytesIO(whole)))[:2]
    for at in (*range(*keys), *range(*key_classes)):
        objects.delete(info.key)
        objects.put_if_absent(info.key, whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        assert OlderRows(objects, [info], 0).holds("str", b"b", 11 << LOGICAL_BITS), at


def test_a_rewrite_of_a_log_that_is_behind_the_others_waits_for_none(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path))
    put(objects, "node-1", [("a", 1, 10), ("a", None, 11), ("z", None, 99)])
    rewrite(objects, place(), now_ms=1000, history_ms=0, force=True)
    assert left(objects, "node-1") == ["z"], "an object has at least the newest row"


def test_a_rewrite_by_a_clock_that_is_ahead_lets_go_of_nothing_that_lives(tmp_path: Path, clock: FakeClock) -> None:
    async def main() -> None:
        async with open_aio(tmp_path / "data", clock=clock, node="a", archive=tmp_path / "archive") as store:
            for value in (1, 2):
                await store.map("b").put_many({"short": value, "long": value})
                await store.map("b").put("short", value, ttl=60)
                await store.map("b").put("long", value, ttl=86_400)
                await store.archive()
                clock.ms += HOUR_MS
            await store.map("b").put("other", 1)
            await store.archive()

    asyncio.run(main())
    objects = open_objects(str(tmp_path / "archive"))
    rewrite(objects, Place("default", "local", "b", "a"), now_ms=clock.ms + 9 * WEEK_MS, force=True)
    infos = live_objects(objects, Place("default", "local", "b", "a"))
    keys = [key for info in infos for key in read_rows(objects, info).column("key").to_pylist()]
    assert keys == [b"long", b"other"]
