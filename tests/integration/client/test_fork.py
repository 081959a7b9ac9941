"""A process that forks while it is connected to a cluster: the child is refused at once, and the parent goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import kvwal
from tests.integration.concurrency.test_fork import in_a_child
from tests.integration.concurrency.test_load import Background
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running

pytestmark = needs_hazelcast
FORKS = 20


def calls_of(store: Any, jobs: Any) -> list[Callable[[], Any]]:
    return [
        lambda: jobs.put("b", 1), lambda: jobs.delete("a"), lambda: jobs.update(b=1, c=2), lambda: jobs.submit("b", 1),
        lambda: jobs.put_if_absent("b", 1), lambda: jobs.commit_if({"a": 1}, {"a": 2}), jobs.clear, lambda: jobs["a"],
        lambda: len(jobs), lambda: list(jobs.items()), lambda: jobs.history("a"), lambda: jobs.watch().poll(),
        lambda: store.map("jobs"), lambda: store.map("new"), store.maps, store.members,
    ]  # fmt: skip


def sockets_to(node: Node) -> int:
    port = int(node.address.rpartition(":")[2])
    return sum(1 for one in psutil.Process().net_connections() if one.raddr and one.raddr.port == port)


def test_a_child_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    with running(tmp_path / "node") as node, kvwal.connect(node.address, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        for call in calls_of(store, jobs):
            said = in_a_child(call)
            assert said.startswith("StoreClosed: ")
            assert "was made in another process" in said
        assert in_a_child(store.close) == "answered None"
        assert sockets_to(node)
        assert in_a_child(lambda: sockets_to(node)) == "answered 0"
        jobs["c"] = 1
        assert dict(jobs) == {"a": 1, "c": 1}


@pytest.mark.long
def test_a_child_of_a_busy_parent_may_connect_itself(tmp_path: Path) -> None:
    """With any lock of the client held by another thread at the moment of the fork."""
    others = Background()

    def own(node: Node, number: int) -> Any:
        with kvwal.connect(node.address, cluster=CLUSTER) as mine:
            mine.map("children")[number] = 1
            return mine.map("jobs")["a"]

    with running(tmp_path / "node") as node, kvwal.connect(node.address, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        jobs["a"] = 1
        writing = True

        def write() -> None:
            while writing:
                jobs.put_many({f"key-{number}": number for number in range(20)})

        others.start(write)
        try:
            for number in range(FORKS):
                assert in_a_child(lambda number=number: own(node, number)) == "answered 1"  # type: ignore[misc]
        finally:
            writing = False
            others.join()
        assert dict(store.map("children")) == dict.fromkeys(range(FORKS), 1)


def test_a_child_of_a_program_with_an_event_loop_is_refused(tmp_path: Path) -> None:
    async def connected(node: Node) -> None:
        async with kvwal.aio.connect(node.address, cluster=CLUSTER) as store:
            jobs = store.map("jobs")
            await jobs.put("a", 1)

            async def read() -> Any:
                return await store.map("jobs").get("a")

            async def write() -> Any:
                return await store.map("jobs").put("a", 2)

            async def close() -> Any:
                await store.close()

            for call in (read, write):
                said = in_a_child(lambda call=call: asyncio.run(call()))  # type: ignore[misc]
                assert said.startswith("StoreClosed: ")
            assert in_a_child(lambda: asyncio.run(close())) == "answered None"
            assert await jobs.get("a") == 1

    with running(tmp_path / "node") as node:
        asyncio.run(connected(node))
