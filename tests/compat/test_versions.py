"""Members of an earlier version beside members of this one: `make versions EARLIER=PROGRAM`, with that version's `kvwal`.

While members are replaced one by one nothing acknowledged is lost, or replaced by an earlier write. A transaction that meets an
earlier member is refused by a sentence, and wrote nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kvwal
from tests.support.cluster.consistency import REFUSED
from tests.support.cluster.faults import loaded
from tests.support.cluster.links import bring_back
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast

ASKED = "KVWAL_EARLIER"
EARLIER = os.environ.get(ASKED, "")
SECONDS = 3
KEYS = [f"key-{number}" for number in range(200)]
TRANSACTIONS = 200
SMALL = "[log]\narchive_seconds = 1\n"
pytestmark = [
    needs_hazelcast,
    pytest.mark.breaks("files", reason="an earlier version keeps a file _locks under each root"),
    pytest.mark.skipif(not EARLIER, reason=f"{ASKED} names no program of an earlier version (make versions)"),
]


@pytest.fixture
def three(tmp_path: Path) -> Any:
    """Three members of the earlier version."""
    with cluster(tmp_path, 0, config=SMALL) as made:
        made.grow(3)
        for node in made.nodes:
            # The module that its archiver runs is not to be taken from the current folder.
            node.prefix, node.program = ["env", f"--chdir={tmp_path}"], Path(EARLIER).absolute()
        made.start()
        try:
            yield made
        finally:
            for node in made.nodes:
                if node.process is not None:
                    node.kill()


def update(node: Node, fresh: Node) -> None:
    """From its next start on it is of this version."""
    node.prefix, node.program = fresh.prefix, fresh.program


@pytest.mark.parametrize("killed", [False, True])
def test_members_are_replaced_one_by_one(three: Cluster, tmp_path: Path, killed: bool) -> None:
    """In the end all are killed: what each version logged and archived is loaded."""
    fresh = Node(tmp_path / "fresh", "fresh")
    with loaded(three, "killed" if killed else "in-order", timeout=SECONDS, pairs=24) as load:
        for node in list(three.nodes):
            load.writers.wait(1000)
            if killed:
                node.kill()
            else:
                assert node.stop() == 0
            load.writers.wait(1000)
            update(node, fresh)
            node.start()
            load.writers.wait(1000)
        load.wait()
        three.kill()
        load.clients.wait_told(REFUSED, 1)
        three.start()
        bring_back(three.nodes)
        load.wait()


@pytest.mark.parametrize("updated", [1, 2])
def test_a_transaction_that_an_earlier_member_refuses_wrote_nothing(
    three: Cluster, tmp_path: Path, updated: int
) -> None:
    fresh = Node(tmp_path / "fresh", "fresh")
    for node in three.nodes[:updated]:
        assert node.stop() == 0
        update(node, fresh)
        node.start()
    told: Counter[str] = Counter()
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        for number in range(TRANSACTIONS):
            keys = [KEYS[(7 * number + part) % len(KEYS)] for part in range(2)]
            before = {key: jobs.get(key) for key in keys}
            outcome = refusal(jobs, keys, number)
            told[outcome or "done"] += 1
            assert {key: jobs.get(key) for key in keys} == (before if outcome else dict.fromkeys(keys, number))
        for key in KEYS:
            jobs.put(key, "last")
        assert set(jobs.values()) == {"last"}, "no lock is left"
    print(dict(told))
    assert told["ConfigError"]


def refusal(jobs: Any, keys: list[str], number: int) -> str | None:
    """How a transaction was refused, each second one with a condition."""
    changes = dict.fromkeys(keys, number)
    try:
        if number % 2:
            assert jobs.commit_if({KEYS[0]: jobs.get(KEYS[0], kvwal.ABSENT)}, changes)
        else:
            jobs.put_many(changes)
    except kvwal.ConfigError as error:
        text = str(error)
        assert (
            "is of an earlier version and does not know this request; nothing was written. Update all members" in text
        )
        return type(error).__name__
    return None
