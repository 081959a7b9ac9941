"""Clients that fill the memory of a cluster are refused while the members that stay when one goes can still hold all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from hazelcast.errors import HazelcastError

import kvwal
from kvwal.client.failures import translate
from kvwal.client.store import ClusterStore
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast, small_jvm
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
HEAP = "128m"


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three members with little memory."""
    monkeypatch.setattr("tests.support.cluster.nodes.small_jvm", lambda: small_jvm(heap=HEAP))
    with cluster(tmp_path, 3) as made:
        yield made


def put_many(store: ClusterStore, size: int, number: int) -> None:
    """Without a transaction, as Hazelcast's own client does it, which names the error in its text."""
    entries = {f"{number}-{n}": "x" * size for n in range(1 + 1_000_000 // (size + 100))}
    try:
        store.hazelcast.get_map("jobs").blocking().put_all(entries)
    except HazelcastError as error:
        raise translate(error, "jobs", writes=True) from error


def put_one(store: ClusterStore, size: int, number: int) -> None:
    store.map("jobs").put(f"{number}", "x" * size)


def filled(three: Cluster, put: Callable[[ClusterStore, int, int], None], size: int) -> int:
    """Put until all members say that they are full; the number of entries then.

    Puts are refused before that where they take more than the room that is left until a member looks again."""
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        early = []
        for number in count():
            taken = min(node.figures()["kvwal_memory_ratio"] for node in three.nodes)
            if taken >= 1:
                break
            try:
                put(store, size, number)
            except kvwal.StorageFull as error:
                early += [str(error)] if taken < 0.5 else []
        assert early == []
        with pytest.raises(kvwal.StorageFull, match=r"if one of them goes.*nothing was written"):
            put(store, size, 0)
        assert [node.get("/readyz")[0] for node in three.nodes] == [200, 200, 200], "reads and deletes go on"
        assert "puts are refused" in three.nodes[0].ready()["memory"]
        return len(store.map("jobs"))


@pytest.mark.parametrize(("put", "size"), [(put_one, 300_000), (put_many, 2_000)])
def test_what_was_taken_can_be_loaded_by_the_members_that_stay(
    three: Cluster, put: Callable[[ClusterStore, int, int], None], size: int
) -> None:
    entries = filled(three, put, size)
    lost = three.nodes.pop()
    lost.kill()
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        assert len(store.map("jobs")) == entries
    until(lambda: any('"partitions_left": 0' in node.log.read_text() for node in three.nodes) or None)
    three.kill()
    three.tell("--without", lost.name)
    three.start()
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        assert len(jobs) == entries
        with pytest.raises(kvwal.StorageFull):
            put(store, size, 0)
        jobs.clear()
        until(lambda: all(has_room(node) for node in three.nodes) or None)
        put(store, size, 0)


def has_room(node: Node) -> bool:
    return node.figures()["kvwal_memory_ratio"] < 0.95
