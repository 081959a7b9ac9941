"""Locks of a cluster's transactions: nobody else ends them, and none is taken for a client that has gone on."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from hazelcast import transaction
from hazelcast.config import IndexType
from hazelcast.errors import HazelcastError, IllegalMonitorStateError
from hazelcast.protocol.codec.executor_service_submit_to_partition_codec import _REQUEST_MESSAGE_TYPE
from hazelcast.proxy import transactional_map

import kvwal
from kvwal.client.attempts import _type_of
from kvwal.client.member_tasks import _ConditionalTask, _TransactionTask
from kvwal.codecs import registry
from kvwal.entry import Entry
from kvwal.ports.clock import SYSTEM
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.polling import until

KEYS = [f"key-{number}" for number in range(6)]
ROUNDS = 200
THREADS_OF_A_MEMBER = 64
pytestmark = needs_hazelcast


class Unlocker(threading.Thread):
    """Releases the locks of two keys by force, again and again."""

    def __init__(self, jobs: Any) -> None:
        super().__init__()
        self.ended = threading.Event()
        self.refused: set[bool] = set()
        self._jobs = jobs

    def run(self) -> None:
        """See `threading.Thread`."""
        while not self.ended.is_set():
            for key in KEYS[:2]:
                try:
                    self._jobs.force_unlock(key)
                except IllegalMonitorStateError as error:
                    self.refused.add("The transaction ends it by itself" in str(error))


@pytest.mark.long
@pytest.mark.parametrize("name", ["forced", "tmp.forced"])
def test_nobody_else_ends_the_lock_of_a_transaction(one: Node, name: str) -> None:
    with kvwal.connect(one.address, cluster=CLUSTER) as store, one.client() as client:
        jobs, unlocker = store.map(name), Unlocker(client.get_map(name).blocking())
        unlocker.start()
        mixed = []
        for number in range(ROUNDS):
            jobs.put_many(dict.fromkeys(KEYS, number))
            found = [jobs.get(key) for key in KEYS]
            mixed += [] if found == [number] * len(KEYS) else [found]
        unlocker.ended.set()
        unlocker.join()
        assert not mixed, f"{len(mixed)} of {ROUNDS} acknowledged transactions were made in part"
        assert unlocker.refused == {True}


def test_the_keys_of_a_partition_are_changed_by_one_operation(one: Node) -> None:
    """Each change was an operation of its own, and had a message and a place in a group of the log for itself."""
    with kvwal.connect(one.address, cluster=CLUSTER) as store, one.client() as client:
        jobs, partition_of = store.map("together"), client.partition_service.get_partition_id
        together = [key for key in map(str, range(10_000)) if partition_of(key) == 0]
        assert len(together) > 20
        jobs.put_many(dict.fromkeys(together, 1))
        assert len({jobs.history(key)[0].timestamp for key in together}) == 1


def test_the_lock_of_a_client_is_still_ended_by_force(one: Node) -> None:
    with one.client() as first, one.client() as second:
        held, other = first.get_map("held").blocking(), second.get_map("held").blocking()
        held.lock("a")
        other.force_unlock("a")
        assert not held.is_locked("a")
        other.put("a", 1)
        held.lock("a")
        waiting = second.get_map("held").put("a", 2)
        first.get_map("held").blocking().force_unlock("a")
        waiting.result()
        assert held.get("a") == 2


def send(client: Any, name: str, value: Any, lock_seconds: float, identity: str = "") -> Any:
    """Send a transaction of KEYS, as kvwal's client does it; the future of the member's answer."""
    identity = identity or f"{SYSTEM.random_bits(128):032x}"
    entries = registry.encode_puts([(key, value) for key in KEYS])
    task = _TransactionTask(name, identity, entries, lock_seconds)
    return client.get_executor("kvwal").execute_on_key_owner(identity, task)


def under_way(store: Any) -> int:
    """How many transactions the client has sent, and waits for."""
    pending = list(store.hazelcast._invocation_service._pending.values())
    return sum(_type_of(invocation.request) == _REQUEST_MESSAGE_TYPE for invocation in pending)


@pytest.mark.parametrize("lock_seconds", [0, -5])
def test_no_transaction_begins_when_its_client_may_have_gone_on(one: Node, lock_seconds: float) -> None:
    with one.client() as client:
        name = f"late{lock_seconds}"
        assert send(client, name, 1, lock_seconds).result() == "LATE"
        assert client.get_map(name).blocking().size() == 0
        assert send(client, name, 1, 60).result().startswith("DONE")
        assert client.get_map(name).blocking().size() == len(KEYS)


def test_a_transaction_whose_connection_broke_does_not_replace_what_is_written_after_it(one: Node) -> None:
    """It waits for a lock, and holds none, when its connection breaks. The lock goes when the client has written on."""
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER) as store:
        jobs, plain = store.map("broken"), client.get_map("broken").blocking()
        plain.lock(KEYS[0])
        old = threading.Thread(target=fails, args=(lambda: jobs.put_many(dict.fromkeys(KEYS, "old")),))
        old.start()
        until(lambda: under_way(store) or None)
        assert jobs.get("another") is None, "it comes after the transaction, by the same connection"
        [connection] = store.hazelcast._connection_manager.active_connections.values()
        connection.socket.shutdown(socket.SHUT_RDWR)
        old.join()
        for key in KEYS[1:]:
            jobs.put(key, "new")
        plain.unlock(KEYS[0])
        for number in range(ROUNDS):
            jobs.put("another", number)
        assert [jobs.get(key) for key in KEYS] == [None] + ["new"] * (len(KEYS) - 1)


def fails(write: Any) -> None:
    with pytest.raises(kvwal.CommitUnknown):
        write()


def test_the_caller_hears_at_once_that_its_connection_is_closed(one: Node) -> None:
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER) as store:
        client.get_map("closed").blocking().lock(KEYS[0])
        jobs = store.map("closed")
        old = threading.Thread(target=fails, args=(lambda: jobs.put_many(dict.fromkeys(KEYS, 1)),))
        old.start()
        until(lambda: under_way(store) or None)
        store.close()
        old.join()


def test_transactions_that_wait_for_one_key_leave_the_threads_of_the_member_to_others(one: Node) -> None:
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER, timeout=60) as store:
        hot, plain = store.map("hot"), client.get_map("hot").blocking()
        plain.lock("hot")
        waiting = [
            threading.Thread(target=hot.put_many, args=({"hot": number, number: number},))
            for number in range(THREADS_OF_A_MEMBER * 3 // 2)
        ]
        for each in waiting:
            each.start()
        until(lambda: under_way(store) > THREADS_OF_A_MEMBER or None)
        store.map("cold").put_many({"a": 1, "b": 2})
        assert all(each.is_alive() for each in waiting), "the others waited until these gave up"
        plain.unlock("hot")
        for each in waiting:
            each.join()
        assert len(dict(hot.items())) == len(waiting) + 1


@pytest.mark.long
def test_two_runs_of_one_transaction_do_not_share_their_locks(one: Node) -> None:
    """A client of Hazelcast may send a request again, while the member is still busy with the first one."""
    with one.client() as client:
        mixed, answers = [], []
        for number in range(ROUNDS):
            runs = [send(client, "twice", f"{number}-{run}", 60, f"{number:032x}") for run in range(4)]
            answers += [run.result() for run in runs]
            found = set(client.get_map("twice").blocking().values())
            mixed += [] if len(found) == 1 else [found]
        assert any(answer.startswith("DONE") for answer in answers)
        assert not mixed, f"{len(mixed)} of {ROUNDS} times they left a mixture: {mixed}"


def test_a_transaction_that_meets_a_bug_says_so_and_that_nothing_was_written(one: Node) -> None:
    """A guard of a class that its bytes are not of: the member cannot read it."""
    identity = f"{SYSTEM.random_bits(128):032x}"
    guards = [Entry(b"guard", "str", b"", "float", False, 0)]
    with one.client() as client:
        client.get_map("bug").blocking().set("guard", 1.0)
        task = _ConditionalTask("bug", identity, registry.encode_puts([("a", 1), ("b", 2)]), guards, 60)
        sent = client.get_executor("kvwal").execute_on_key_owner(identity, task)
        with pytest.raises(HazelcastError, match=r"KvwalError: .*BufferUnderflow.*nothing was written"):
            sent.result()
        assert client.get_map("bug").blocking().size() == 1
    assert "BufferUnderflowException" in one.log.read_text()


def test_a_transaction_in_memory_only_that_was_made_in_part_says_so(one: Node) -> None:
    """A sorted index refuses a value of another type than those that it has."""
    with one.client() as client, kvwal.connect(one.address, cluster=CLUSTER) as store:
        client.get_map("tmp.part").blocking().add_index(attributes=["n"], index_type=IndexType.SORTED)
        with pytest.raises(kvwal.CommitUnknown, match="a map without a log may have a part of the transaction"):
            store.map("tmp.part").put_many({"a": {"n": 1}, "b": {"n": "text"}})


def test_a_transaction_of_hazelcast_is_not_taken_for_one_of_kvwal(one: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client gives the number of its thread, which may be any."""
    for module in (transaction, transactional_map):
        monkeypatch.setattr(module, "thread_id", lambda: -5)
    with one.client() as client, one.client() as other:
        plain = other.get_map("own").blocking()
        with client.new_transaction() as own:
            own.get_map("own").put("a", 1)
            assert plain.is_locked("a")
        assert not plain.is_locked("a")
        assert plain.get("a") == 1


def test_a_member_looks_for_what_transactions_left_before_it_saw_one(tmp_path: Path) -> None:
    """Locks of a member that was killed before it logged its intent are where the keys are, and no intent tells of them."""
    with running(tmp_path / "root") as fresh:
        threads = [name.read_text().strip() for name in Path(f"/proc/{fresh.pid}/task").glob("*/comm")]
        assert "kvwal.intents" in threads
