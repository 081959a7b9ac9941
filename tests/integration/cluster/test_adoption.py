"""A member is killed and its disk is gone: once the others have adopted what it had, nothing depends on that disk any more."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.cluster.transactions import INTENTS
from kvwal.entry import Entry, encode_entries
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.cluster.writers import surely
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long, pytest.mark.usefixtures("inspected")]
KEYS = [f"key-{number}" for number in range(900)]
OLD, KEPT, DELETED = KEYS[::3], KEYS[1::3], KEYS[2::3]
UNARCHIVED = "[log]\narchive_seconds = 3600\n"
"""What a member writes is in the archive when it leaves in order, and not before."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3, config=UNARCHIVED) as made:
        yield made


def written(three: Cluster) -> dict[str, Any]:
    """What the cluster holds after changes of which the archive has the first only."""
    with three.client() as client:
        client.get_map("jobs").blocking().put_all(dict.fromkeys(KEYS, "archived"))
    for node in three.nodes:
        assert node.stop() == 0
        node.start()
        # It compares its log with the others, for which all archive.
        until(lambda node=node: node.written_again() or None)
    with three.client() as client:
        intent = leave_an_intent_in_the_archive(three, client)
        jobs = client.get_map("jobs").blocking()
        jobs.put_all(dict.fromkeys(KEPT, ("pickled", "tuple")))
        for key in DELETED:
            jobs.delete(key)
        client.get_map(INTENTS).blocking().delete(intent)
    return dict.fromkeys(OLD, "archived") | dict.fromkeys(KEPT, ("pickled", "tuple"))


def leave_an_intent_in_the_archive(three: Cluster, client: Any) -> str:
    """Its key. That it was finished, and what it made deleted since, stands only in the log of the first member once it goes."""
    members = {
        f"{member.address.host}:{member.address.port}": member.uuid for member in client.cluster_service.get_members()
    }
    first, expander = (members[node.address] for node in three.nodes[:2])
    intents, partitions = client.get_map(INTENTS).blocking(), client.partition_service
    keys = (f"{number} {expander} jobs" for number in range(10_000))
    key = next(key for key in keys if partitions.get_partition_owner(partitions.get_partition_id(key)) == first)
    intents.set(key, bytearray(encode_entries([Entry(b"deleted since", "str", b"made", "str", False, 0)])))
    with kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER) as store:
        assert not store.map("jobs").history("deleted since")  # which made all of them archive
    return key


def lose(node: Node) -> None:
    """Kill it, and its disk with it."""
    node.kill()
    shutil.rmtree(node.root)


def wait_until_adopted(nodes: list[Node], lost: Node) -> list[dict[str, Any]]:
    """Returns when nothing is left to adopt, and all say so; what the members said of it."""

    def look() -> list[dict[str, Any]] | None:
        told = [json.loads(line) for node in nodes for line in node.log.read_text().splitlines() if '"adopted"' in line]
        said = [line for line in told if line["lost"] == lost.name]
        done = any(line["partitions_left"] == 0 for line in said) and not any(
            "adopting" in node.ready() for node in nodes
        )
        return said if done else None

    return until(look)


def start_without(three: Cluster, lost: Node) -> None:
    """All are gone: start those that have a disk, and tell them not to wait for the one that has none."""
    for node in three.nodes:
        if node.process is not None:
            node.kill()
    three.nodes.remove(lost)
    three.tell("--without", lost.name)
    three.start()


def test_a_lost_disk_costs_nothing_once_it_is_adopted(three: Cluster) -> None:
    expected = written(three)
    lost = three.nodes[0]
    with checked(kvwal.connect(three.addresses, cluster=CLUSTER), "checked") as clients:
        clients.wait(100)
        lose(lost)
        said = wait_until_adopted(three.nodes[1:], lost)
        assert sum(line["entries"] for line in said) > 0
        assert sum(line["deletes"] for line in said) > 0
        assert "kvwal_adopting 0.0" in three.nodes[1].get("/metrics")[1]
        clients.wait(100)
        start_without(three, lost)
        assert three.contents("jobs") == expected
        clients.wait(100)


def test_what_a_lost_disk_costs_before_it_is_adopted(three: Cluster) -> None:
    """The others are killed at the same moment: what the lost member had not archived is gone, and nothing else."""
    expected = written(three)
    lost = three.nodes[0]
    three.kill()
    shutil.rmtree(lost.root)
    start_without(three, lost)
    found = three.contents("jobs")
    changed = {key for key in KEYS if found.get(key) != expected.get(key)}
    print(f"of {len(KEPT) + len(DELETED)} changes that were not archived {len(changed)} are lost")
    assert 0 < len(changed) < len(KEPT) + len(DELETED)
    assert {found.get(key) for key in changed} == {"archived"}


def test_what_came_meanwhile_counts_and_ends_of_entries_stay(three: Cluster) -> None:
    lost = three.nodes[0]
    with three.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put_all(dict.fromkeys(KEYS, 1))
        for key in OLD:
            jobs.set(key, 1, ttl=3600)
        jobs.lock(KEPT[0])
        lose(lost)
        for key in KEPT:
            surely(lambda key=key: jobs.set(key, 2))
        wait_until_adopted(three.nodes[1:], lost)
        ends = {key: jobs.get_entry_view(key).expiration_time for key in OLD}
    start_without(three, lost)
    assert three.contents("jobs") == dict.fromkeys(KEYS, 1) | dict.fromkeys(KEPT, 2)
    with three.client() as client:
        jobs = client.get_map("jobs").blocking()
        assert all(abs(jobs.get_entry_view(key).expiration_time - end) <= 2000 for key, end in ends.items())


def test_a_new_member_takes_the_place_of_a_lost_one(three: Cluster) -> None:
    """As docs/cluster-semantics.md says: then one more may be killed, and a total loss waits for none that is gone."""
    jobs = dict.fromkeys(KEYS, 1)
    with three.client() as client:
        client.get_map("jobs").blocking().put_all(jobs)
    lost = three.nodes[0]
    lose(lost)
    wait_until_adopted(three.nodes[1:], lost)
    three.nodes.remove(lost)
    three.grow(1)
    three.nodes[-1].more += ["--without", lost.name]
    three.start()
    three.nodes[0].kill()
    assert three.contents("jobs") == jobs
    for node in three.nodes[1:]:
        node.kill()
    three.tell()
    three.start()
    assert three.contents("jobs") == jobs
