"""Takers of a queue of a cluster: each item is given to one, also while members are killed and takers die."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import kvwal
from kvwal.client.queues.blocks import QueueBlock, Renewals
from kvwal.errors import TransactionClosed
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, key_owned_by, needs_hazelcast
from tests.support.queue.blocks import rolled_back

pytestmark = [needs_hazelcast, pytest.mark.long]
NAMES = [f"work-{number}" for number in range(100)]
SHORT = 1.0
"""A visibility timeout that a test can wait for, in seconds."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("takers"), 3) as made:
        yield made


@pytest.fixture
def store(three: Cluster) -> Iterator[Any]:
    with connected(three) as made:
        yield made


def connected(three: Cluster) -> Any:
    return kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER, timeout=60)


def owned_by(three: Cluster, node: Node) -> str:
    """A business whose queues this member decides on."""
    with three.client() as client:
        return key_owned_by(client, node, NAMES)


def silent_block(q: Any, visibility: float) -> QueueBlock:
    """A block whose process says nothing any more."""
    return QueueBlock(q._calls, Renewals(600.0), visibility)


def test_each_item_is_given_to_one_taker(three: Cluster) -> None:
    taken: list[int] = []

    def take() -> None:
        with connected(three) as own:
            q = own.business("many").queue("todo")
            while True:
                try:
                    with q.transaction() as t:
                        items = [t.take(timeout=1), *t.take_many(3)]
                except queue.Empty:
                    return
                taken.extend(items)

    with connected(three) as own:
        q = own.business("many").queue("todo")
        q.put_many(range(300))
        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(300, 400):
            q.put(number)
        for thread in threads:
            thread.join()
        assert sorted(taken) == list(range(400))
        assert (len(q), q.in_flight) == (0, 0)


def test_a_map_of_the_business_does_not_show_its_queues(store: Any) -> None:
    business = store.business("both")
    jobs, state, todo = store.map("both"), business.map("state"), business.queue("todo")
    jobs.put_many({"a": 1, 5: 2})
    todo.put_many(["x", "y"])
    state["a"] = "other"
    assert dict(jobs) == {"a": 1, 5: 2}
    assert dict(state) == {"a": "other"}
    assert [len(jobs), len(state), len(todo)] == [2, 1, 2]
    assert list(jobs.scan("a")) == [("a", 1)]
    assert list(state.scan("a")) == [("a", "other")]
    jobs.clear()
    assert [len(jobs), len(state), list(todo.browse())] == [0, 1, ["x", "y"]]


def test_more_takers_wait_than_a_member_has_threads_for(store: Any) -> None:
    business, got = store.business("crowd"), queue.SimpleQueue[int]()
    takers = [threading.Thread(target=lambda: got.put(business.queue("todo").take())) for _ in range(70)]
    for taker in takers:
        taker.start()
    while business.queue("todo").counts()[2] < 16:
        pass
    business.queue("todo").put_many(range(70))
    for taker in takers:
        taker.join()
    assert sorted(got.get() for _ in takers) == list(range(70))


def test_a_silent_taker_loses_its_items(store: Any) -> None:
    q = store.queue("silent")
    q.put_many(["a", "b", "c"])
    block = silent_block(q, SHORT)
    assert [item.value for item in block.hold("queue", 2, decodes=True)] == [b"a", b"b"]
    assert q.take_many(1) == ["c"]
    assert q.take(timeout=600) == "a"
    with pytest.raises(TransactionClosed, match="nothing of the block was written"):
        block.commit([])
    assert q.take_many(9) == ["b"]


def test_a_killed_taker_gives_back(three: Cluster, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    q = store.queue("killed")
    q.put_many(["a", "b"])
    program = (
        f"import kvwal, sys\nwith kvwal.connect({three.nodes[0].address!r}, cluster={CLUSTER!r}) as store:\n"
        "  with store.queue('killed').transaction() as t:\n    print(t.take(), flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as taker:
        assert taker.stdout is not None
        assert taker.stdout.readline() == "a\n"
        assert (list(q.browse()), q.in_flight) == (["b"], 1)
        os.kill(taker.pid, signal.SIGKILL)
    assert q.take(0) == "b"
    assert q.take() == "a"


def test_a_block_outlives_the_member_that_decides(three: Cluster, store: Any) -> None:
    node = three.nodes[1]
    q = store.business(owned_by(three, node)).queue("todo")
    done = store.business(q.business.name).queue("done")
    q.put_many(range(10))
    with rolled_back(q.transaction()) as back, store.business(q.business.name).transaction() as t:
        assert back.take_many(2) == [0, 1]
        items = t.queue("todo").take_many(3)
        three.kill(node)
        with rolled_back(q.transaction()) as other:  # a plain take may be of unknown outcome now
            assert other.take_many(2) == [5, 6]
            assert q.in_flight == 7
        t.queue("done").put_many(items)
        t.map("state")["last"] = items[-1]
    assert list(done.browse()) == [2, 3, 4]
    assert store.business(q.business.name).map("state")["last"] == 4
    assert q.take_many(9) == [0, 1, 5, 6, 7, 8, 9]
    three.start()
    assert (len(q), q.in_flight, len(done)) == (0, 0, 3)


def test_what_was_committed_is_there_after_the_end_of_all_members(three: Cluster) -> None:
    with connected(three) as own:
        q = own.queue("all")
        q.put_many(range(20))
        q.put("first", priority=-1)
        q.put("long", ttl=3600)
        assert q.take_many(5) == ["first", 0, 1, 2, 3]
        block = silent_block(q, SHORT)
        block.hold("queue", 2, decodes=True)
    three.restart()
    with connected(three) as own:
        q = own.queue("all")
        assert list(q.browse()) == [*range(4, 20), "long"]
        assert q.take_many(1) == []  # takers of before may have items of which the members do not know
        assert q.take(timeout=600) == 4
        assert q.take_many(99) == [*range(5, 20), "long"]
