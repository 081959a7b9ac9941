"""Timestamps that changes of a cluster return: those of the log, also where the member that answers does not own the key."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hazelcast.protocol.client_message import RESPONSE_HEADER_SIZE
from hazelcast.protocol.codec import map_delete_codec

import kvwal
from kvwal.client.link import send_delete, send_put
from kvwal.client.memory import to_data
from kvwal.codecs import registry
from kvwal.structures.map.map import Map
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast

pytestmark = needs_hazelcast
COUNT = 20
ROUNDS = 100
TTL = 3600.0


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes for the tests in which none joins or leaves; each has a map of its own."""
    with cluster(tmp_path_factory.mktemp("three"), 3) as made:
        yield made


def assert_in_history(jobs: Map, told: dict[Any, int | None]) -> None:
    """The last change of each key has the timestamp that its caller was told."""
    logged = {key: max(entry.timestamp for entry in jobs.history(key)) for key in told}
    apart = {key: (timestamp, logged[key]) for key, timestamp in told.items() if logged[key] != timestamp}
    assert not apart, f"{len(apart)} of {len(told)} changes have another timestamp in the logs"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["put", "expiring", "delete", "absent"])
def test_a_member_that_does_not_own_the_key_tells_the_timestamp_of_the_owner(three: Cluster, kind: str) -> None:
    """A client without smart routing sends all requests to one member, as every client does before it knows the owners."""
    keys = {number: to_data(*registry.encode_key(number)) for number in range(COUNT)}
    value = to_data(*registry.encode_value({"n": 2}))
    with three.client(smart_routing=False) as client, kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs, proxy = store.map(kind), client.get_map(kind)
        if kind != "absent":
            jobs.put_many(dict.fromkeys(keys, 1))
        if kind in {"put", "expiring"}:
            ttl = TTL if kind == "expiring" else None
            changes = {key: send_put(proxy, data, value, ttl) for key, data in keys.items()}
        else:
            changes = {key: send_delete(proxy, data) for key, data in keys.items()}
        assert_in_history(jobs, {key: change.result() for key, change in changes.items()})


def test_a_delete_still_says_whether_the_key_was_there(three: Cluster) -> None:
    """Java clients of Hazelcast read that from the first frame of the answer; the one in Python passes it over."""

    def deleted(answer: Any) -> bool:
        return bool(answer.next_frame().buf[RESPONSE_HEADER_SIZE])

    with three.client(smart_routing=False) as client:
        jobs = client.get_map("there")
        jobs.put_all(dict.fromkeys(range(COUNT), 1)).result()
        for there in (True, False):
            for number in range(COUNT):
                key = jobs._to_data(number)
                request = map_delete_codec.encode_request(jobs.name, key, 1)
                assert jobs._invoke_on_key(request, key, deleted).result() is there


def test_the_first_change_of_a_new_client_tells_the_timestamp_of_the_log(three: Cluster) -> None:
    """It does not know the owners yet, and sends the change to any member."""
    told: dict[Any, int | None] = {}
    for number in range(10):
        with kvwal.connect(three.addresses, cluster=CLUSTER) as new:
            told[number] = new.map("new").put(number, number)
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        assert_in_history(store.map("new"), told)


class Rounds(threading.Thread):
    """A client that puts each of some keys, all at once, and deletes one of them, again and again.

    `told` are the keys and the timestamps of the changes that were acknowledged.
    """

    def __init__(self, jobs: Map) -> None:
        super().__init__()
        self.told: set[tuple[int, int]] = set()
        self._jobs = jobs
        self._done = 0
        self._ended = False
        self._changed = threading.Condition()
        self.start()

    def run(self) -> None:
        """See `threading.Thread`."""
        try:
            for number in count():
                if self._ended:
                    return
                self._round(number)
                with self._changed:
                    self._done = number
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _round(self, number: int) -> None:
        futures = {key: self._jobs.submit(key, number) for key in range(COUNT)}
        self.told |= {(key, future.result()) for key, future in futures.items() if future.exception() is None}
        deleted = number % COUNT
        self.told.add((deleted, self._jobs.delete(deleted)))

    def wait(self) -> None:
        """Return after some more rounds."""
        with self._changed:
            wanted = self._done + ROUNDS
            self._changed.wait_for(lambda: self._ended or self._done >= wanted)
            assert not self._ended, "the client ended with an error"

    def end(self) -> None:
        """Return when the client has ended."""
        self._ended = True
        self.join()


@pytest.mark.long
def test_changes_tell_the_timestamp_of_the_log_while_members_join_and_leave(tmp_path: Path) -> None:
    with cluster(tmp_path, 2) as made, kvwal.connect(made.addresses, cluster=CLUSTER) as store:
        jobs = store.map("moving")
        client = Rounds(jobs)
        try:
            client.wait()
            made.grow(1)
            made.start()
            client.wait()
            assert made.nodes[0].stop() == 0
            client.wait()
            made.start()
            client.wait()
        finally:
            client.end()
        logged = {(key, entry.timestamp) for key in range(COUNT) for entry in jobs.history(key)}
        apart = client.told - logged
        assert not apart, f"{len(apart)} of {len(client.told)} changes have another timestamp in the logs"
