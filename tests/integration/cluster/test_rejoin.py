"""A member that wrote alone and comes back: what its log took last is put once more, if nothing newer was written meanwhile."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.consistency import UNKNOWN, checked
from tests.support.cluster.network import needs_networks, networked
from tests.support.cluster.nodes import CLUSTER, Node, cluster, needs_hazelcast
from tests.support.cluster.writers import surely
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
EACH_SERVES = "majority = false\n[log]\narchive_seconds = 1\n"
BEFORE = {
    "one": "old",
    "two": "old",
    "both": "old",
    "gone-one": "old",
    "gone-two": "old",
    "again": "old",
    "same": "old",
}
AFTER = {"one": "new", "two": "new", "both": "two", "again": "two", "same": "old", "only-one": "new", "only-two": "new"}


FEW = 1000
"""So many keys stay, also where deletes are fast."""


def alone(node: Node) -> None:
    """Until it sees nobody else."""
    until(lambda: "kvwal_cluster_members 1.0" in node.get("/metrics")[1] or None)


def write(node: Node, number: str) -> None:
    """What a client of one half does."""
    with node.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put_all({number: "new", "both": number, f"only-{number}": "new"})
        jobs.delete(f"gone-{number}")
        if number == "one":
            jobs.delete("again")
        else:
            jobs.put("again", number)


@needs_networks
def test_what_both_halves_acknowledged_is_there_by_time(tmp_path: Path) -> None:
    """Two halves serve, since they were told to; one gives its memory up when they meet, whichever that is."""
    with networked(tmp_path, 2, config=EACH_SERVES) as (two, network):
        first, second = two.nodes
        with two.client() as client:
            client.get_map("jobs").blocking().put_all(BEFORE)
        network.cut(1, [2])
        alone(first)
        alone(second)
        write(first, "one")
        write(second, "two")
        network.heal(1, [2])
        with ThreadPoolExecutor() as pool:
            waiting = {pool.submit(node.process.wait): node for node in two.nodes if node.process is not None}
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            ended = waiting[done.pop()]
            ended.process = None
            ended.start()
            again = until(lambda: ended.written_again() or None)[0]
            found = two.contents("jobs")
            for node in two.nodes:
                node.kill()
        print(f"{ended.name} ended, and put once more: {again}")
        assert again["jobs"] > 0
        assert found == AFTER
        two.start()
        assert two.contents("jobs") == AFTER


def test_what_is_deleted_while_a_member_comes_back_stays_away(tmp_path: Path) -> None:
    """Whose log has these keys as its last, and no log that it reads may have their deletes yet."""
    left = [f"key-{number}" for number in range(30_000)]
    with (
        cluster(tmp_path, 2, config=EACH_SERVES) as two,
        two.client() as client,
        checked(kvwal.connect(two.addresses, cluster=CLUSTER), "checked") as clients,
    ):
        jobs = client.get_map("jobs").blocking()
        jobs.put_all(dict.fromkeys(left, "old"))
        back = two.nodes[0]
        clients.wait(100)
        back.kill()
        back.spawn()
        while len(left) > FEW and not back.written_again():
            surely(partial(jobs.delete, left.pop()))
        back.wait_ready()
        clients.wait(100)
        assert two.contents("jobs") == dict.fromkeys(left, "old")
        again = until(lambda: back.written_again() or None)[0]
        assert again.get("jobs") is None
        # A change that only the log of the killed member has is written again: its client was told `CommitUnknown`.
        assert again.get("checked", 0) <= 2 * clients.of(UNKNOWN)
