"""What a reader was told is never taken back: an answer waits until the backups have what it shows."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest
from hazelcast.errors import HazelcastError

import kvwal
from kvwal.client.failures import may_be_done
from tests.support.cluster.consistency import checked
from tests.support.cluster.network import Network, needs_networks, networked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, key_owned_by, needs_hazelcast
from tests.support.polling import until
from tests.support.sweep.tracing import needs_strace, slow_fdatasync

ROUNDS = int(os.environ.get("KVWAL_HELD_ROUNDS", "3"))
"""How often an owner is cut off, where the whole of the test runs."""
pytestmark = [
    needs_hazelcast,
    pytest.mark.long,
    needs_networks,
    pytest.mark.timeout(900 + 60 * ROUNDS),
]
LAPSE_SECONDS = 4
"""A lease of a member ends after two seconds, and a member that is silent is given up after ten."""
KEYS = [f"key-{number}" for number in range(1000)]
SMALL = "[log]\narchive_seconds = 1\n"


@pytest.mark.loop
def test_nobody_reads_a_change_that_goes_with_its_owner(three: tuple[Cluster, Network], whole: bool) -> None:
    """Writers of few keys each always have a change on its way; readers ask the owner of each key as long as it answers."""
    cluster, network = three
    members = cluster.addresses
    with checked(kvwal.connect(members, cluster=CLUSTER), "held", writers=24, keys=2, readers=6, others=1) as clients:
        for number in range(ROUNDS if whole else 1):
            clients.wait(500)
            lost = number % 3 + 1
            others = [other for other in (1, 2, 3) if other != lost]
            network.cut(lost, others)
            assert cluster.nodes[lost - 1].ended() == 3
            clients.wait(100)
            network.heal(lost, others)
            cluster.nodes[lost - 1].start()


def logged_by(node: Node) -> float:
    """How many entries it has written to its logs."""
    return node.figures()["kvwal_entries_total"]


@needs_strace
def test_a_write_that_is_in_the_log_when_its_owner_loses_the_majority_is_not_refused(tmp_path: Path) -> None:
    """The owner loses its leases within the fdatasync, and the other members some seconds later."""
    with ExitStack() as stack:
        cluster, network = stack.enter_context(networked(tmp_path, 3, config=SMALL))
        one = cluster.nodes[0]
        client = stack.enter_context(one.client())
        key = key_owned_by(client, one, KEYS)
        jobs = client.get_map("jobs")
        jobs.set(key, "before").result()
        with slow_fdatasync(one.pid, LAPSE_SECONDS):
            change = jobs.set(key, "after")
            network.cut(1, [2, 3], silent=True)
            with pytest.raises(HazelcastError) as told:
                change.result()
        assert may_be_done(told.value), told.value


def test_a_change_that_its_backup_has_not_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two members the one has all backups of the other. It is not reached, though it is heard."""
    # The change must fail before the growing pauses of TCP's retries make the other member remove this one.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhazelcast.operation.backup.timeout.millis=2000")
    with ExitStack() as stack:
        cluster, network = stack.enter_context(networked(tmp_path, 2, config=SMALL))
        one = cluster.nodes[0]
        writing, reading = (stack.enter_context(one.client()) for _ in range(2))
        jobs, seen = writing.get_map("jobs"), reading.get_map("jobs")
        key = key_owned_by(writing, one, KEYS)
        jobs.blocking().put_all({key: 1, "absent": 1})
        jobs.blocking().delete("absent")
        logged = logged_by(one)
        network.mute(1, 2)
        change = jobs.set(key, 2)
        until(lambda: logged_by(one) > logged or None)
        reads = [seen.get(key), seen.contains_key(key), seen.get_all([key]), seen.put_if_absent(key, 3)]
        with pytest.raises(HazelcastError):
            change.result()  # after two seconds
        told = [read.result() if read.done() else None for read in reads]
        network.unmute(1, 2)
        assert told == [None] * len(reads)
        assert [read.result() for read in reads] == [2, True, {key: 2}, 2]
