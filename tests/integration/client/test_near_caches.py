"""A near cache of a Hazelcast client: what it shows, and how long after a change it may show the value before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kvwal
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, key_owned_by, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
SECONDS = 1.0
"""For so long the near cache that has a time to live keeps a value."""
KEYS = [f"key-{number}" for number in range(60)]


def in_transaction(jobs: Any, key: str) -> None:
    with jobs.transaction() as changes:
        changes[key] = "after"


CHANGES: dict[str, Callable[[Any, str], object]] = {
    "put": lambda jobs, key: jobs.put(key, "after"),
    "delete": lambda jobs, key: jobs.delete(key),
    "replace": lambda jobs, key: jobs.replace(key, "before", "after"),
    "remove": lambda jobs, key: jobs.remove(key, "before"),
    "put_many": lambda jobs, key: jobs.put_many({key: "after", f"{key}-other": "after"}),
    "transaction": in_transaction,
    "commit_if": lambda jobs, key: jobs.commit_if({key: "before"}, {key: "after", f"{key}-other": "after"}),
}


def test_a_change_of_every_kind_reaches_a_near_cache_that_keeps_values_for_ever(node: Node) -> None:
    with node.client(near_caches={"near": {}}) as client, kvwal.connect(node.address, cluster=CLUSTER) as store:
        near, jobs = client.get_map("near").blocking(), store.map("near")
        for key in CHANGES:
            jobs.put(key, "before")
        cache = client.get_map("near")._near_cache
        while cache.get_statistics()["hits"] < len(CHANGES):
            assert {near.get(key) for key in CHANGES} == {"before"}
        for key, change in CHANGES.items():
            change(jobs, key)
        wanted = {key: jobs.get(key) for key in CHANGES}
        until(lambda: {key: near.get(key) for key in CHANGES} == wanted or None)
        near.put("put", "own")
        assert near.get("put") == "own", "a client's own change is not hidden by its near cache"


def test_a_time_to_live_bounds_what_a_near_cache_shows_when_the_owner_of_a_key_is_killed(members: Cluster) -> None:
    """The owner had not told the client yet: it tells of changes of ten seconds together."""
    near_caches = {"jobs": {"time_to_live": SECONDS}}
    first, owner = members.nodes[0], members.nodes[2]
    with first.client(near_caches=near_caches) as client, kvwal.connect(first.address, cluster=CLUSTER) as store:
        jobs, near = store.map("jobs"), client.get_map("jobs").blocking()
        key = key_owned_by(client, owner, KEYS)
        jobs.put(key, "before")
        until(lambda: near.get(key) == "before" or None)
        jobs.put(key, "after")
        owner.kill()
        until(lambda: near.get(key) == "after" or None)
        owner.start()
