"""Locks of transactions whose member is killed before it logged the intent: the other members release them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hazelcast.config import IndexType

import kvwal
from kvwal.client.member_tasks import _TransactionTask
from kvwal.cluster.transactions import INTENTS
from kvwal.codecs import registry
from kvwal.entry import encode_entries
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, key_owned_by, needs_hazelcast
from tests.support.polling import until

KEYS = [f"key-{number}" for number in range(60)]
SEVERAL = [f"{number:032x}" for number in range(1000)]
FIRST_RUN = f"{(1 << 63) | (1 << 16):032x}"
"""Of the first transaction that a member runs, in the key of the intent."""
UNFINISHABLE = "1 gone indexed"
pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.usefixtures("inspected")]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3) as made:
        yield made


def uuid_of(client: Any, node: Node) -> UUID:
    members = client.cluster_service.get_members()
    found: UUID = next(one.uuid for one in members if f"{one.address.host}:{one.address.port}" == node.address)
    return found


def leave_what_nobody_can_finish(client: Any, store: Any) -> None:
    """Leave an intent of a member that is gone, with a value that a sorted index refuses for ever."""
    client.get_map("indexed").blocking().add_index(attributes=["n"], index_type=IndexType.SORTED)
    indexed = store.map("indexed")
    for number, key in enumerate(KEYS):
        indexed.put(key, {"n": number})
    changes = encode_entries(registry.encode_puts([("other", {"n": "text"})]))
    client.get_map(INTENTS).blocking().set(UNFINISHABLE, bytearray(changes))


def has_adopted(node: Node, lost: Node) -> bool:
    return f'"lost": "{lost.name}"' in "".join(
        line for line in node.log.read_text().splitlines() if '"adopted"' in line
    )


@pytest.mark.parametrize("is_owner", [False, True])
def test_locks_of_a_member_that_is_killed_before_it_logs_are_released(three: Cluster, is_owner: bool) -> None:
    """A client has locked the intent's own key, so the logging waits with all keys locked. The owner of the intent stays, or is
    the member that is killed. Another intent, which nobody can finish, does not keep the locks waiting."""
    stays, other, killed = three.nodes
    with stays.client() as client, kvwal.connect(f"{stays.address},{other.address}", cluster=CLUSTER) as store:
        leave_what_nobody_can_finish(client, store)
        identity = key_owned_by(client, killed, SEVERAL)
        names = {f"{FIRST_RUN} {uuid_of(client, killed)} left-{number}": f"left-{number}" for number in range(1000)}
        intent = key_owned_by(client, killed if is_owner else other, list(names))
        name, intents = names[intent], client.get_map(INTENTS).blocking()
        jobs, plain = store.map(name), client.get_map(name).blocking()
        for key in KEYS:
            jobs.put(key, "before")
        intents.lock(intent)
        task = _TransactionTask(name, identity, registry.encode_puts([(key, "left") for key in KEYS]), 60)
        client.get_executor("kvwal").execute_on_key_owner(identity, task)
        until(lambda: all(plain.is_locked(key) for key in KEYS) or None)
        killed.kill()
        jobs.put(KEYS[0], "after")
        jobs.put_many(dict.fromkeys(KEYS, "after"))
        intents.unlock(intent)
        until(lambda: all(has_adopted(node, killed) for node in (stays, other)) or None)
        until(lambda: all("adopting" not in node.ready() for node in (stays, other)) or None)
        until(lambda: set(intents.key_set()) == {UNFINISHABLE} or None)
        assert {jobs.get(key) for key in KEYS} == {"after"}
        assert f"The transaction {UNFINISHABLE} cannot be finished" in stays.log.read_text() + other.log.read_text()
