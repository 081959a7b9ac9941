"""Transactions of a cluster that meet on the same keys, and what is written after one of unknown outcome."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.cluster.transactions import INTENTS
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.usefixtures("inspected")]
KEYS = [f"key-{number}" for number in range(8)]
PAIRS = 200
WRITERS = 12
KEYS_OF_ONE = 24


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3) as made:
        yield made


def connect(made: Cluster) -> Any:
    return kvwal.connect(made.addresses, cluster=CLUSTER, timeout=60)


def put_many(jobs: Any, value: str) -> None:
    jobs.put_many(dict.fromkeys(KEYS, value))


def in_transaction(jobs: Any, value: str) -> None:
    with jobs.transaction() as several:
        for key in reversed(KEYS):
            several[key] = value


def test_of_two_transactions_of_the_same_keys_one_is_the_later_one_on_all_of_them(three: Cluster) -> None:
    mixed = []
    with connect(three) as first, connect(three) as second:
        jobs = [first.map("jobs"), second.map("jobs")]
        for number in range(PAIRS):
            ways = (put_many, in_transaction if number % 2 else put_many)
            threads = [
                threading.Thread(target=way, args=(each, f"{number}-{name}"))
                for name, (way, each) in enumerate(zip(ways, jobs, strict=True))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            found = {jobs[0].get(key) for key in KEYS}
            mixed += [] if len(found) == 1 else [found]
    assert not mixed, f"{len(mixed)} of {PAIRS} pairs left a mixture"


class Writer(threading.Thread):
    """Puts keys of its own as one, until that is of unknown outcome; then puts each of them alone, and is acknowledged."""

    def __init__(self, jobs: Any, name: str, killed: threading.Event) -> None:
        super().__init__()
        self.keys = [f"{name}-{number}" for number in range(KEYS_OF_ONE)]
        self.number = 0
        self.done = 0
        self._jobs = jobs
        self._killed = killed

    def run(self) -> None:
        """See `threading.Thread`."""
        while not self._written() and not (self._killed.is_set() and self.done > 2):
            pass
        self.number += 1
        for sent in [self._jobs.submit(key, self.number) for key in self.keys]:
            sent.result()

    def _written(self) -> bool:
        """Whether the outcome was unknown."""
        self.number += 1
        try:
            self._jobs.put_many(dict.fromkeys(self.keys, self.number))
        except kvwal.CommitUnknown:
            return True
        except (kvwal.ClusterUnreachable, kvwal.NotRecovered):
            return False
        self.done += self._killed.is_set()
        return False


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_what_is_written_after_a_transaction_of_unknown_outcome_is_not_replaced_by_it(
    three: Cluster, victim: int
) -> None:
    killed = threading.Event()
    with connect(three) as store:
        jobs = store.map("jobs")
        writers = [Writer(jobs, f"writer-{number}", killed) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        until(lambda: all(writer.number > 5 for writer in writers) or None)
        three.nodes[victim].kill()
        killed.set()
        for writer in writers:
            writer.join()
        with three.client() as client:
            until(lambda: client.get_map(INTENTS).blocking().is_empty() or None)
        expected = {key: writer.number for writer in writers for key in writer.keys}
        assert {key: jobs.get(key) for key in expected} == expected
