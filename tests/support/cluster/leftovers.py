"""Maps that are made and destroyed, and what a node holds of them afterwards.

`KVWAL_DESTROYED` says how many (30): with 10,000 the figures of memory say something.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import hazelcast

from tests.support.cluster.nodes import CLUSTER, Node

COUNT = int(os.environ.get("KVWAL_DESTROYED", "30"))
SOON = "[log]\narchive_seconds = 1\n"
AT_ONCE = 200


class Figures(NamedTuple):
    """What a node holds."""

    folders: int
    descriptors: int
    maps: int
    resident: int

    def say(self, what: str) -> None:
        print(
            f"{what}: {self.folders} folders, {self.descriptors} descriptors, {self.maps} maps, {self.resident >> 20} MiB"
        )


def folders(node: Node) -> list[str]:
    """The maps that have a folder under the root of a node."""
    found = node.root / "default" / CLUSTER
    return sorted(path.name for path in found.iterdir() if not path.name.startswith("_")) if found.exists() else []


def figures_of(node: Node) -> Figures:
    descriptors = len(list(Path(f"/proc/{node.pid}/fd").iterdir()))
    status = Path(f"/proc/{node.pid}/status").read_text()
    resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return Figures(len(folders(node)), descriptors, int(node.figures()["kvwal_maps"]), resident << 10)


def at_once(calls: Iterable[Callable[[], Any]]) -> None:
    """Have calls of a client made side by side."""
    waiting: list[Any] = []
    for call in calls:
        waiting.append(call())
        if len(waiting) == AT_ONCE:
            for future in waiting:
                future.result()
            waiting.clear()
    for future in waiting:
        future.result()


def make_and_destroy(client: hazelcast.HazelcastClient, numbers: range = range(COUNT), keys: int = 1) -> None:
    """Some maps at a time, as a program does that makes one for each of its jobs."""
    for first in range(0, len(numbers), AT_ONCE):
        maps = [client.get_map(f"job-{n}").blocking() for n in numbers[first : first + AT_ONCE]]
        at_once(lambda map_=map_: map_._wrapped.put_all({f"key-{n}": n for n in range(keys)}) for map_ in maps)
        for map_ in maps:
            assert map_.destroy()


def none_left(node: Node) -> bool | None:
    """None while a folder or a figure of the log of a destroyed map is there."""
    kept = [name for name in folders(node) if name.startswith("job-")]
    return None if kept or any('business="job-' in name for name in node.figures()) else True
