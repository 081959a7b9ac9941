"""Conditional transactions of a cluster whose members are killed or stopped: whole or absent, one after the other."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.client import cluster_business
from kvwal.cluster.transactions import INTENTS
from kvwal.codecs import registry
from kvwal.entry import encode_entries
from tests.support.chance import new_seed
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.polling import until

UNDECIDED = b"\x90"
WRITERS = 4
PASSING = (kvwal.CommitUnknown, kvwal.ClusterUnreachable, kvwal.NotRecovered, kvwal.Overloaded)
pytestmark = needs_hazelcast


def leave(client: Any, number: int, intent: bytes) -> None:
    """Leave an intent of the map "left", as if its expander, a member of an earlier version, had been killed."""
    client.get_map(INTENTS).blocking().set(f"{number} gone left", bytearray(intent))


def test_what_a_killed_member_left_is_finished(one: Node) -> None:
    decided = encode_entries(registry.encode_puts([("sum", 2), ("a", 1)]))
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER) as store:
        jobs = store.map("left")
        jobs["sum"] = {"n": 1}
        leave(client, 1, UNDECIDED)
        leave(client, 2, decided)
        until(lambda: client.get_map(INTENTS).blocking().is_empty() or None)
        assert jobs.commit_if({"sum": 2, "a": 1}, {"sum": 3})
        assert dict(jobs.items()) == {"sum": 3, "a": 1}


def test_an_undecided_transaction_is_absent_when_the_cluster_has_restarted(one: Node) -> None:
    with one.client() as client:
        living = str(client.cluster_service.get_members()[0].uuid)
        client.get_map("undecided").blocking().set("sum", 1)
        client.get_map(INTENTS).blocking().set(f"1 {living} undecided", bytearray(UNDECIDED))
    one.restart()
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER) as store:
        assert client.get_map(INTENTS).blocking().is_empty()
        assert store.map("undecided").commit_if({"sum": 1}, {"sum": 2})


@pytest.mark.parametrize("locked", ["sum", "changed"])
def test_a_transaction_whose_key_is_held_says_that_nothing_was_written(one: Node, locked: str) -> None:
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER, timeout=1) as store:
        held, plain = store.map(f"held-{locked}"), client.get_map(f"held-{locked}").blocking()
        plain.lock(locked)
        with pytest.raises(kvwal.Overloaded, match="nothing was written"):
            held.commit_if({"sum": kvwal.ABSENT}, {"changed": 1})
        assert not held.commit_if({"sum": 1}, {"changed": 2}), "a condition that does not hold needs no lock"
        plain.unlock(locked)
        assert held.commit_if({"sum": kvwal.ABSENT}, {"changed": 1})


@pytest.mark.long
def test_several_keys_of_which_one_is_held_are_refused_before_their_client_gives_up(one: Node) -> None:
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER, timeout=2) as store:
        jobs, plain = store.map("refused"), client.get_map("refused").blocking()
        plain.lock("b")
        with pytest.raises(kvwal.Overloaded, match="nothing was written"):
            jobs.put_many({"a": 1, "b": 1, "c": 1})
        jobs.put_many({"a": 2, "c": 2})
        plain.unlock("b")
        assert dict(jobs.items()) == {"a": 2, "c": 2}


@pytest.mark.long
def test_the_new_guard_is_shown_when_all_else_of_the_transaction_is(one: Node) -> None:
    """Else a total that is read after the guard, and put back under the guard's value, would lose the change before it."""
    with kvwal.connect(one.address, cluster=CLUSTER) as store:
        jobs = store.map("shown")
        jobs.put_many({"guard": 0, "total": 0})
        changes = ({"guard": number, "total": number} for number in range(1, 200))
        writer = threading.Thread(
            target=lambda: [jobs.commit_if({"guard": change["guard"] - 1}, change) for change in changes]
        )
        writer.start()
        read = []
        while writer.is_alive():
            read.append((jobs["guard"], jobs["total"]))
        writer.join()
        assert all(guard <= total for guard, total in read)
        assert (jobs["guard"], jobs["total"]) == (199, 199)


@pytest.mark.long
def test_a_guard_that_others_replace_loses_no_change(one: Node) -> None:
    """A compare-and-set of a guard waits for the transaction that depends on its value, as any other change of it does."""
    with kvwal.connect(one.address, cluster=CLUSTER) as store:
        jobs = store.map("both")
        jobs["sum"] = 0
        done: list[int] = []

        def count(add: Any) -> None:
            done.append(sum(add(jobs["sum"]) for _ in range(300)))

        ways = [lambda n: jobs.replace("sum", n, n + 1), lambda n: jobs.commit_if({"sum": n}, {"sum": n + 1, "at": n})]
        threads = [threading.Thread(target=count, args=(way,)) for way in ways * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert jobs["sum"] == sum(done)


def test_a_map_in_memory_only_has_no_conditional_transactions(one: Node) -> None:
    with kvwal.connect(one.address, cluster=CLUSTER) as store, pytest.raises(kvwal.ConfigError, match="without a log"):
        store.map("tmp.jobs").commit_if({"a": kvwal.ABSENT}, {"a": 1})


@pytest.mark.long
def test_the_first_one_while_the_cluster_is_away_says_so_and_keeps_no_slot(
    one: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_business, "SLOTS", 1)
    with kvwal.connect(one.address, cluster=CLUSTER, timeout=1) as store:
        jobs = store.map("away")
        one.kill()
        try:
            for _ in range(2):
                with pytest.raises(kvwal.ClusterUnreachable):
                    jobs.commit_if({"a": kvwal.ABSENT}, {"a": 1})
        finally:
            one.start()


class Adders:
    """Threads that add one to a sum, each time with a key that says so, under the condition that the sum is what they read."""

    def __init__(self, made: Cluster) -> None:
        self.acknowledged: set[str] = set()
        self.enough = threading.Semaphore(0)
        self._store = kvwal.connect([node.address for node in made.nodes], cluster=CLUSTER, timeout=60)
        self._jobs = self._store.map("jobs")
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(name,)) for name in range(WRITERS)]
        for thread in self._threads:
            thread.start()

    def _run(self, name: int) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            key = f"{name}-{number}"
            try:
                found = self._jobs.get("sum", 0)
                condition = found or kvwal.ABSENT
                if self._jobs.commit_if({"sum": condition}, {"sum": found + 1, f"at-{found + 1}": key, key: found + 1}):
                    self.acknowledged.add(key)
                    self.enough.release()
            except PASSING:
                pass

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.enough.acquire(timeout=120)

    def stop(self) -> dict[Any, Any]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        with self._store:
            until(lambda: self._jobs.commit_if({"end": kvwal.ABSENT}, {"end": True}) or "end" in self._jobs or None)
            return dict(self._jobs.items())


def check(found: dict[Any, Any], acknowledged: set[str]) -> None:
    """Each addition is whole, follows the one before it, and none that was acknowledged is missing."""
    total = found["sum"]
    order = [found[f"at-{number}"] for number in range(1, total + 1)]
    assert [found[key] for key in order] == list(range(1, total + 1))
    assert len(found) == 2 * total + 2
    assert acknowledged <= set(order)


@pytest.mark.long
def test_killed_and_stopped_members_leave_every_addition_whole_and_in_order(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    with cluster(tmp_path, 3) as three:
        adders = Adders(three)
        adders.wait(chance.randrange(1, 20))
        killed, stopped = chance.sample(three.nodes, 2)
        killed.kill()
        adders.wait(20)
        killed.start()
        adders.wait(chance.randrange(1, 20))
        os.kill(stopped.pid, signal.SIGSTOP)  # until the others have given it up
        try:
            adders.wait(20)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        adders.wait(20)
        check(adders.stop(), adders.acknowledged)


@pytest.mark.long
def test_all_members_killed_leave_every_addition_whole_and_in_order(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    with cluster(tmp_path, 3) as three:
        adders = Adders(three)
        adders.wait(chance.randrange(1, 40))
        three.kill()
        three.start()
        adders.wait(10)
        check(adders.stop(), adders.acknowledged)
