"""Members of one machine: timestamps do not run ahead of its clock, also after members joined or left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import kvwal
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.ports.clock import SYSTEM
from kvwal.structures.map.map import Map
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast

pytestmark = [needs_hazelcast, pytest.mark.long]
KEYS = [f"key-{number}" for number in range(100)]
ROUNDS = 5


class Acknowledged(NamedTuple):
    """One acknowledged put: its timestamp in milliseconds, and the machine's clock when it was acknowledged."""

    key: str
    stamped_ms: int
    wall_ms: int


class OneByOne:
    """A client that puts one key after the other, the next one when the last is acknowledged."""

    def __init__(self, jobs: Map) -> None:
        self.told: list[Acknowledged] = []
        self._jobs = jobs
        self._said = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._put)
        self._thread.start()

    def wait(self, more: int = ROUNDS * len(KEYS)) -> None:
        with self._said:
            wanted = len(self.told) + more
            assert self._said.wait_for(lambda: len(self.told) >= wanted or not self._thread.is_alive())
            assert len(self.told) >= wanted

    def end(self) -> None:
        self._stopped = True
        self._thread.join()

    def _put(self) -> None:
        try:
            for key in cycle(KEYS):
                if self._stopped:
                    return
                stamped = self._jobs.put(key, len(self.told)) >> TIMESTAMP_SHIFT
                with self._said:
                    self.told.append(Acknowledged(key, stamped, SYSTEM.wall_ms()))
                    self._said.notify_all()
        finally:
            with self._said:
                self._said.notify_all()


@contextmanager
def writing(made: Cluster) -> Iterator[OneByOne]:
    """The keys are spread over the members, and the client is judged afterwards."""
    with kvwal.connect(made.addresses, cluster=CLUSTER) as store:
        writer = OneByOne(store.map("jobs"))
        try:
            yield writer
        finally:
            writer.end()
    assert not [told for told in writer.told if told.stamped_ms > told.wall_ms], "a timestamp is ahead of the clock"
    assert not [pair for pair in pairwise(writer.told) if pair[0].stamped_ms > pair[1].stamped_ms], (
        "of two acknowledged puts the later one has the earlier timestamp"
    )


def test_timestamps_follow_the_clock_over_a_start_joins_and_an_orderly_leave(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as made:
        with writing(made) as writer:
            writer.wait()
            made.grow(1)
            made.start()
            writer.wait()
            assert made.nodes[0].stop() == 0
            writer.wait()
            made.start()
            writer.wait()
        with writing(made) as writer:
            writer.wait()
