"""Provenance by tasks, over a cluster, of nodes that are merged, and in the files of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import kvwal
from kvwal import aio
from kvwal.client.aio import ClusterStore as AsyncClusterStore
from kvwal.client.store import ClusterStore
from kvwal.cluster.recovery_buffer import RecoveryBuffer
from kvwal.entry import Entry
from kvwal.key_class import EVENTS
from kvwal.log.files.format import WITH_QUEUES
from kvwal.log.files.names import log_folder
from kvwal.log.reader import log_files, read_header
from kvwal.ports.clock import SYSTEM
from kvwal.ports.disk import OS_DISK
from kvwal.store.root_nodes.merge import MergePorts, merge_nodes
from kvwal_archive.layout import Place


def test_tasks_have_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.open(tmp_path, archive=None) as store:
            provenance, work = store.provenance("work"), store.business("work")
            assert (await provenance.set_options(on=True, keep_seconds=60)).on
            await work.queue("in").put("a")
            async with work.transaction(component="step") as t:
                t.queue("out").put(await t.queue("in").take())
                t.map()["last"] = "a"
                t.record("fetch", "last", url="https://example.org")
            route, create, fetch = [
                (await provenance.events(type=name, limit=1))[0] for name in ("route", "create", "fetch")
            ]
            assert (route.component, create.key, fetch.details) == ("step", "last", {"url": "https://example.org"})
            assert await provenance.find(route.id) == route
            assert len(await provenance.lineage(route.key, of="queue/out")) == 2
            await provenance.replay(route)
            assert await work.queue("in").take(0) == "a"
            await provenance.send("last", "somewhere")
            await provenance.receive("last", "somewhere")
            assert (await provenance.options()).keep_seconds == 60

    asyncio.run(main())


@pytest.mark.parametrize("store", [ClusterStore, AsyncClusterStore])
def test_a_cluster_has_none_and_says_so(store: type[ClusterStore | AsyncClusterStore]) -> None:
    with pytest.raises(kvwal.ConfigError, match="work: a cluster has no provenance: its changes leave no events"):
        store.provenance(store.__new__(store), "work")  # type: ignore[arg-type]


def test_the_memory_of_a_cluster_gets_no_event_from_a_log_that_has_some() -> None:
    state = RecoveryBuffer(lambda: 0)
    state.apply(
        [Entry(b"k", "str", b"v", "str", False, 1 << 16), Entry(b"event", EVENTS, b"", "msgpack", False, 1 << 16)]
    )
    assert [entry.key for entry in state.map.all_ordered()] == [b"k"]


def test_a_node_that_has_it_is_not_merged(tmp_path: Path) -> None:
    for node in ("one", "two"):
        with kvwal.open(tmp_path, node=node, archive=None) as store:
            store.provenance("work")
            store.map("work")[node] = 1
            store.checkpoint()
    target = Place("default", "local", "work", "one")
    result = merge_nodes(MergePorts(OS_DISK, SYSTEM), tmp_path, target, ["two"], lambda done, total, what: None)
    assert result.nodes == []
    assert "it has provenance, whose events are in files that are not merged" in str(result.left["two"])
    with kvwal.open(tmp_path, read_only=True) as store:
        assert {event.key for event in store.provenance("work").events()} == {"one", "two"}


def test_its_log_has_the_format_that_older_programs_refuse(tmp_path: Path) -> None:
    with kvwal.open(tmp_path, archive=None) as store:
        store.map("work")["before"] = 1
        store.provenance("work")
        store.map("work")["after"] = 2
    folder = log_folder(tmp_path, Place("default", "local", "work", "local"))
    segments, _ = log_files(OS_DISK, folder)
    assert read_header(OS_DISK, folder / segments[-1].name).format == WITH_QUEUES
