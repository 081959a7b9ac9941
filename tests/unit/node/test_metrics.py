"""What a page of figures costs does not grow with the maps, and no failure hides among the rest."""

from __future__ import annotations

from typing import Any, ClassVar

from kvwal.node.health.metrics import MOST, Metrics, bounded
from kvwal.node.health.status import NodeStatus
from kvwal.node.lifecycle import Lifecycle, Phase
from kvwal.ports.descriptors import Budget
from kvwal.prometheus import REST


def stats(size: int, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "last_sequence": 1, "log_bytes": size, "segments": 2, "snapshot_sequence": 0, "checkpoint_age_seconds": 5.0,
        "archive_lag_entries": 1, "archive_lag_seconds": 1.0, "ring_slots": 0, "ring_bytes": 0, "failed": None,
        "archive_error": None, "maintenance": {}, "damage": None, "archive_requests": 9, "lost_tails": 0,
        "slowed": 0.0, "slowed_seconds": 0.0,
    }  # fmt: skip
    return found | given


def test_the_largest_have_lines_of_their_own_and_the_rest_has_one() -> None:
    found = {f"map-{size:04d}": stats(size) for size in range(1, 3_001)}
    found["map-0001"]["archive_lag_seconds"] = 900.0
    found["map-0002"]["archive_lag_seconds"] = None
    told = bounded(found)
    assert list(told) == [f"map-{size:04d}" for size in range(2_951, 3_001)] + [REST]
    rest = told[REST]
    assert (rest["log_bytes"], rest["segments"]) == (sum(range(1, 2_951)), 2 * 2_950)
    assert (rest["archive_lag_seconds"], rest["checkpoint_age_seconds"]) == (900.0, 5.0)
    assert sum(each["last_sequence"] for each in told.values()) == 3_000


def test_a_failing_map_is_named_however_small() -> None:
    found = {f"map-{size:04d}": stats(size) for size in range(1, 201)}
    found["map-0001"]["failed"] = "EIO"
    found["map-0002"]["archive_error"] = "no answer"
    found["map-0003"]["maintenance"] = {"checkpoint": "no room"}
    told = bounded(found)
    assert told["map-0001"]["failed"] == "EIO"
    assert told["map-0002"]["archive_error"] == "no answer"
    assert "map-0003" in told
    assert (told[REST]["failed"], told[REST]["archive_error"], told[REST]["maintenance"]) == (None, None, {})
    for each in found.values():
        each["failed"] = "EIO"
    assert len(bounded(found)) <= 2 * MOST + 1
    assert bounded(found)[REST]["failed"] == "EIO"


def test_few_are_told_as_they_are() -> None:
    found = {"a": stats(1), "b": stats(2)}
    assert bounded(found) == found
    page = Metrics().page({}, found, {"a": (1, 10)}).decode()
    assert 'kvwal_log_bytes{business="b"} 2.0' in page
    assert 'kvwal_map_bytes{map="a"} 10.0' in page
    assert "kvwal_maps 2.0" in page


class Stub:
    """A node that is well but for its file descriptors; see `Engine` and ReadyGate.java."""

    businesses: ClassVar[dict[str, Any]] = {}

    def __init__(self, free: int) -> None:
        self._free = free

    def descriptors(self) -> Budget:
        return Budget(limit=1024, free=self._free, reserve=128, logs=3)

    def lost(self) -> None:
        return None


def test_a_node_without_descriptors_is_not_ready_and_says_why() -> None:
    def node_status(free: int) -> NodeStatus:
        lifecycle = Lifecycle()
        for phase in (Phase.RECOVERING, Phase.WAITING, Phase.COPYING, Phase.SERVING):
            lifecycle.to(phase)
        return NodeStatus(Stub(free), Stub(free), None, Metrics(), lifecycle, lambda: None, None, list)  # type: ignore[arg-type]

    assert node_status(500).ready()[0]
    ready, told = node_status(100).ready()
    assert not ready
    assert told["descriptors"] == {"limit": 1024, "free": 100, "reserve": 128, "logs": 3}
