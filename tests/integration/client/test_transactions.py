"""Several keys as one, from a client of the cluster: whole or absent when any process is killed, and done once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hazelcast.errors import HazelcastError

import kvwal
from kvwal.cluster.transactions import INTENTS
from kvwal.entry import Entry, ExpiringEntry, encode_entries
from kvwal.key_class import INTENT
from kvwal.log.submission import Submission, size_of
from kvwal.ports.clock import SystemClock
from tests.support.chance import new_seed
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast, running
from tests.support.polling import until

KEYS = 7
ROUNDS = 3
pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.usefixtures("inspected")]

CLIENT = """
import sys, kvwal
with kvwal.connect(sys.argv[1], cluster=sys.argv[2], timeout=60) as store:
    jobs = store.map("jobs")
    for number in range(int(sys.argv[3]), 1 << 30):
        jobs.put_many({f"{number}-{part}": number for part in range(int(sys.argv[4]))})
        print(number, flush=True)
"""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3) as made:
        yield made


def put(key: str, value: str, expires: int = 0) -> Entry:
    data = key.encode(), "str", value.encode(), "str", False, 0
    return ExpiringEntry(*data, expires) if expires else Entry(*data)


def delete(key: str) -> Entry:
    return Entry(key.encode(), "str", b"", "", True, 0)


def leave(client: Any, expander: str, changes: list[Entry]) -> None:
    """Leave an intent for map "jobs", as if `expander` had been killed after it."""
    intents = client.get_map(INTENTS).blocking()
    intents.set(f"{intents.size()} {expander} jobs", bytearray(encode_entries(changes)))


def wait_until_finished(client: Any) -> None:
    intents = client.get_map(INTENTS).blocking()
    while intents.size():
        pass


def torn(found: dict[Any, Any], acknowledged: set[int]) -> list[Any]:
    """Transactions of which a part is there, and acknowledged ones that are not."""
    there: dict[int, int] = {}
    for key, value in found.items():
        assert key.startswith(f"{value}-")
        there[value] = there.get(value, 0) + 1
    return [number for number, count in there.items() if count != KEYS] + sorted(acknowledged - there.keys())


def connect(made: Cluster, **given: Any) -> Any:
    return kvwal.connect([node.address for node in made.nodes], cluster=CLUSTER, **given)


def test_an_intent_of_a_member_that_is_gone_is_finished(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, node.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.set("gone", "old")
        leave(client, "nobody", [put("a", "1"), put("b", "2"), delete("gone"), delete("never"), put("ended", "x", 1)])
        wait_until_finished(client)
        while jobs.contains_key("ended"):
            pass
        assert dict(jobs.entry_set()) == {"a": "1", "b": "2"}
        node.restart()
        assert dict(jobs.entry_set()) == {"a": "1", "b": "2"}


@pytest.mark.parametrize("behind", [-60, 60])
def test_a_ttl_in_a_transaction_does_not_go_by_the_clients_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    with running(tmp_path / "root") as node, kvwal.connect(node.address, cluster=CLUSTER) as store:
        monkeypatch.setattr(SystemClock, "wall_ms", lambda self: time.time_ns() // 1_000_000 + behind * 1000)
        jobs = store.map("jobs")
        jobs.put("guard", 1)
        with jobs.transaction() as both:
            both.put("a", 1, 30)
            both.put("b", 1, 30)
        with node.client() as client:
            found = client.get_map("jobs").blocking()
            left = [found.get_entry_view(key).expiration_time / 1000 - time.time() for key in ("a", "b")]
        assert all(20 < seconds <= 30 for seconds in left)


def test_a_log_that_an_intent_opened_has_its_flush_policy(tmp_path: Path) -> None:
    """Another node left an intent for a map of which this one has no log yet; then a client writes to that map."""
    archive = tmp_path / "archive"
    with kvwal.open(tmp_path / "other", cluster=CLUSTER, node="other", archive=archive) as store:
        jobs = store.map("jobs")
        jobs["old"] = "1"
        intent = Entry(b"intent", INTENT, encode_entries([put("new", "2")]), "bytes", False, 0)
        future: Future[int] = Future()
        jobs._business.submit(Submission([intent], size_of([intent]), future))
        future.result()
    policy = '[flush]\n"j*" = "os"\n'
    with running(tmp_path / "root", config=policy, more=["--archive", str(archive)]) as node, node.client() as client:
        found = client.get_map("jobs").blocking()
        found.set("mine", "3")
        assert dict(found.entry_set()) == {"old": "1", "new": "2", "mine": "3"}


def test_a_member_that_was_in_the_minority_finishes_transactions_again(tmp_path: Path) -> None:
    """Of two members one is killed: the other may not even look at what was left until it is back."""
    with cluster(tmp_path, 2) as two, two.client() as client:
        first, second = two.nodes
        jobs = client.get_map("jobs").blocking()
        members = client.cluster_service.get_members()
        killed = next(str(member.uuid) for member in members if member.address.port == second.port)
        for number in range(16):  # so many that each of the two owns some
            leave(client, killed, [put(f"a-{number}", "1"), put(f"b-{number}", "2")])
        second.kill()

        def refusal() -> str | None:
            try:
                jobs.size()
            except HazelcastError as error:
                return str(error) if "1 of the 2 members" in str(error) else None
            return None

        until(refusal)
        second.start()
        assert "kvwal.intents" not in first.log.read_text()
        wait_until_finished(client)
        assert len(jobs.entry_set()) == 32


def left_and_changed_since(client: Any) -> None:
    """An intent whose expander lives, so that nobody finishes it, and changes that came after it."""
    living = str(client.cluster_service.get_members()[0].uuid)
    jobs = client.get_map("jobs").blocking()
    for key in ("kept", "deleted", "gone"):
        jobs.set(key, "old")
    jobs.set(5, "number")
    leave(client, living, [put(key, "new") for key in ("a", "b", "deleted", "later", "put again")] + [delete("gone")])
    leave(client, living, [put("b", "newer"), put("c", "newer"), delete("later"), delete("put again")])
    jobs.delete("deleted")
    jobs.set("put again", "last")


EXPECTED = {"kept": "old", "a": "new", "b": "newer", "c": "newer", "put again": "last", 5: "number"}


def test_a_node_that_starts_takes_an_intent_for_its_changes(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node:
        with node.client() as client:
            left_and_changed_since(client)
        for _ in range(2):
            node.restart()
            with node.client() as client:
                assert dict(client.get_map("jobs").blocking().entry_set()) == EXPECTED
                assert client.get_map(INTENTS).blocking().is_empty()


def test_a_cluster_that_starts_takes_an_intent_for_its_changes(three: Cluster) -> None:
    with three.client() as client:
        living = str(client.cluster_service.get_members()[0].uuid)
        client.get_map("jobs").blocking().set("kept", "old")
        leave(client, living, [put("a", "1"), put("b", "2"), delete("never"), put("ended", "x", 1)])
        leave(client, living, [put("c", "3")])
    for _ in range(2):
        three.kill()
        three.start()
        assert three.contents("jobs") == {"kept": "old", "a": "1", "b": "2", "c": "3"}


def test_a_killed_client_leaves_no_part(tmp_path: Path) -> None:
    chance = random.Random(new_seed())
    acknowledged: set[int] = set()
    with running(tmp_path / "root") as node, node.client() as client:
        for number in range(ROUNDS):
            process = spawn(node, number * 1_000_000)
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 40)):
                acknowledged.add(int(process.stdout.readline()))
            threading.Event().wait(chance.random() / 50)
            process.send_signal(signal.SIGKILL)
            acknowledged.update(map(int, process.stdout.read().split()))
            process.wait()
            process.stdout.close()
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            wait_until_finished(client)
            assert torn(dict(store.map("jobs").items()), acknowledged) == []
        node.restart()
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            assert torn(dict(store.map("jobs").items()), acknowledged) == []


def spawn(node: Node, first: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLIENT, node.address, CLUSTER, str(first), str(KEYS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


class Writers:
    """Threads that write transactions until told to stop, and go on when one is refused or of unknown outcome."""

    def __init__(self, store: Any, first: int) -> None:
        self.acknowledged: set[int] = set()
        self.enough = threading.Semaphore(0)
        self._jobs = store.map("jobs")
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(first + n * 100_000,)) for n in range(4)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        while not self._stop.is_set():
            number += 1
            try:
                with self._jobs.transaction() as t:
                    for part in range(KEYS):
                        t[f"{number}-{part}"] = number
            except (kvwal.CommitUnknown, kvwal.ClusterUnreachable, kvwal.NotRecovered, kvwal.Overloaded):
                continue
            self.acknowledged.add(number)
            self.enough.release()

    def stop(self) -> set[int]:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return self.acknowledged


def test_killed_members_leave_no_part(three: Cluster) -> None:
    chance = random.Random(new_seed())
    acknowledged: set[int] = set()
    for number in range(ROUNDS):
        with connect(three, timeout=60) as store:
            writers = Writers(store, number * 1_000_000)
            wait_for(writers, chance)
            victim = chance.choice(three.nodes)
            victim.kill()
            wait_for(writers, chance)
            acknowledged |= writers.stop()
            with three.client() as client:
                wait_until_finished(client)
            assert torn(dict(store.map("jobs").items()), acknowledged) == []
        victim.start()


def test_all_members_killed_leave_no_part(three: Cluster) -> None:
    chance = random.Random(new_seed())
    acknowledged: set[int] = set()
    for number in range(2):
        with connect(three, timeout=1) as store:
            writers = Writers(store, number * 1_000_000)
            wait_for(writers, chance)
            three.kill()
            acknowledged |= writers.stop()
        three.start()
        with three.client() as client:
            wait_until_finished(client)
        assert torn(three.contents("jobs"), acknowledged) == []


def wait_for(writers: Writers, chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 60)):
        assert writers.enough.acquire(timeout=120)
    threading.Event().wait(chance.random() / 50)
