"""The past, the changes and the tables of a queue of a cluster while a member is killed and comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.codecs import registry
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
ITEMS = list(range(60))
"""Items enough for each member to have some."""


def test_a_killed_member_takes_nothing_along_for_good(tmp_path: Path) -> None:
    with (
        cluster(tmp_path, 3) as three,
        kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER, timeout=60) as store,
    ):
        q = store.business("work").queue("todo")
        watch = q.watch()
        before = q.put_many(ITEMS)
        first = [next(watch) for _ in ITEMS]
        assert len({entry.key for entry in first}) == len(ITEMS)
        lost = three.nodes[2]
        three.kill(lost)
        until(lambda: True if len(store.members()) == 2 and len(table(store, "")) == len(ITEMS) else None)
        assert q.take_many(20) == ITEMS[:20]
        assert [row["value"] for row in table(store, "")] == [str(number) for number in ITEMS[20:]]
        assert [item.value for item in q.at(q.put("late"))] == [*ITEMS[20:], "late"]
        taken = set[bytes]()
        while len(taken) < 20:
            taken |= {entry.key for entry in watch.poll() if entry.deleted}
        assert taken == {entry.key for entry in first if registry.decode(entry.value, entry.value_class) in ITEMS[:20]}
        three.start()
        assert [item.value for item in q.at(before)] == ITEMS
        history = table(store, "_history")
        puts = {row["position"]: row["value"] for row in history if not row["deleted"]}
        assert sorted(puts.values()) == sorted([*(str(number) for number in ITEMS), '"late"'])
        assert len({row["position"] for row in history if row["deleted"]}) == 20


def table(store: Any, behind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.sql(f'SELECT * FROM "work/queue/todo{behind}" ORDER BY position').to_pylist()
    return found
