"""What a client of the cluster was told of a write is so: success is there, and any error but `CommitUnknown` is not."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.errors import CommitUnknown, KvwalError
from tests.support.cluster.consistency import REFUSED, UNKNOWN, checked
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast, running

pytestmark = [needs_hazelcast, pytest.mark.long]
TASKS = 30
SECONDS = 3
"""For so long a client goes on trying: less than a node needs to start."""


class Tasks:
    """Tasks of an event loop, each of which writes keys of its own until it is told something else than success."""

    def __init__(self, address: str) -> None:
        self.told: dict[str, str] = {}
        self._address = address
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        connect = kvwal.aio.connect(self._address, cluster=CLUSTER, timeout=SECONDS)
        async with connect as store, asyncio.TaskGroup() as group:
            for number in range(TASKS):
                group.create_task(self._write(store.map("tasks"), number))

    async def _write(self, jobs: Any, number: int) -> None:
        for change in range(1_000_000):
            key = f"{number}-{change}"
            try:
                await (jobs.put(key, change) if change % 2 else jobs.put_if_absent(key, change))
            except CommitUnknown:
                self.told[key] = UNKNOWN
            except KvwalError:
                self.told[key] = REFUSED
                return
            else:
                self.told[key] = "done"

    def end(self) -> None:
        """Return when each of them was refused."""
        self._thread.join()

    def wrong(self, found: dict[str, int]) -> list[str]:
        """What was told, and is not so."""
        return [
            f"{key}: {told}"
            for key, told in self.told.items()
            if told != UNKNOWN and (key in found) != (told == "done")
        ]


def test_what_is_told_of_a_write_is_so_when_the_only_node_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node:
        connect = kvwal.connect(node.address, cluster=CLUSTER, timeout=SECONDS)
        with checked(connect, "jobs", writers=24, keys=4, readers=2, others=4) as clients:
            tasks = Tasks(node.address)
            clients.wait(500)
            node.kill()
            clients.wait_told(REFUSED, 1)
            tasks.end()
            node.start()
            clients.wait(200)
        assert clients.of(UNKNOWN)
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            assert not (wrong := tasks.wrong(dict(store.map("tasks").items()))), wrong[:20]


def test_what_is_told_of_a_write_is_so_when_each_of_three_is_killed(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as three:
        connect = kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER, timeout=SECONDS)
        with checked(connect, "jobs", writers=24, keys=4, readers=2, others=4) as clients:
            for node in three.nodes:
                clients.wait(500)
                node.kill()
                clients.wait(500)
                node.start()
            clients.wait(500)
