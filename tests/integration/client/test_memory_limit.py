"""The limit of a member's memory, where it is near: what has room is taken, and a refusal says what has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import kvwal
from kvwal.node.config import heap_bytes
from kvwal.node.health.memory_limit import room_of
from kvwal.structures.map.map import Map
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running, small_jvm
from tests.support.polling import until

pytestmark = needs_hazelcast
MIB = 1 << 20
HEAP = "128m"
ROOM = room_of(heap_bytes(HEAP))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node with little memory: all of it is its own room."""
    with running(tmp_path / "root", jvm=small_jvm(heap=HEAP)) as started:
        yield started


def ratio(node: Node) -> float:
    return node.figures()["kvwal_memory_ratio"]


class Filling:
    """Puts into a map whose node has counted each before the next."""

    def __init__(self, node: Node, jobs: Map) -> None:
        self._node = node
        self._jobs = jobs
        self._bytes = 0
        self._numbers = count()

    def put(self, size: int) -> None:
        """Put one value; where the member's room until its next look is used up, after that look."""
        number = next(self._numbers)

        def put() -> int | None:
            try:
                return self._jobs.put(number, "x" * size)
            except kvwal.StorageFull as error:
                if "at once" not in str(error):
                    raise
                return None

        until(put)
        self._count(size)

    def put_at_once(self, values: dict[str, str]) -> None:
        """Put these in one transaction."""
        self._jobs.put_many(values.items())
        self._count(sum(map(len, values.values())))

    def _count(self, size: int) -> None:
        """Wait for the node's look that finds all of it: until then its ratio is one from before, and a put more may fill it."""
        self._bytes += size
        until(lambda: ratio(self._node) >= self._bytes / ROOM or None)

    def to(self, filled: float, size: int) -> None:
        """Put values of this size until this part of the member's memory is taken."""
        while ratio(self._node) < filled:
            self.put(size)


@pytest.mark.long
def test_near_the_limit_what_has_room_is_taken_and_a_refusal_takes_none(node: Node) -> None:
    with kvwal.connect([node.address], cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        filling = Filling(node, jobs)
        filling.to(0.83, MIB)
        large = {f"large-{n}": "x" * 950_000 for n in range(5)}
        filling.put_at_once(large)
        filling.to(0.95, MIB // 8)
        with pytest.raises(
            kvwal.StorageFull, match=r"4\.5 MiB of memory are too many at once.*nothing was written"
        ) as refused:
            jobs.put_many(large.items())
        room = re.search(r"takes ([\d.]+) MiB more", str(refused.value))
        assert room is not None
        assert float(room[1]) < 4.5
        assert jobs.put("small", 1), "a refusal takes nothing of the room that is left"
        with pytest.raises(kvwal.StorageFull, match=r"at 100% puts are refused; nothing was written\. Delete entries"):
            filling.to(2, MIB // 10)
        with jobs.transaction() as t:
            for key in large:
                del t[key]
        assert not any(key in jobs for key in large)
