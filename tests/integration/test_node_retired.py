"""Maps that are made and destroyed leave nothing behind: no folder, no descriptor, no figure, no memory; nor after a start.

`KVWAL_DESTROYED` says how many (30): with 10,000 the figures of memory say something.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import kvwal
from tests.support.cluster import CLUSTER, Node, needs_hazelcast, running
from tests.support.polling import until

pytestmark = needs_hazelcast
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


def make_and_destroy(node: Node) -> None:
    """Some maps at a time, as a program does that makes one for each of its jobs."""
    with node.client() as client:
        for first in range(0, COUNT, AT_ONCE):
            maps = [client.get_map(f"job-{n}").blocking() for n in range(first, min(first + AT_ONCE, COUNT))]
            at_once(lambda map_=map_: map_._wrapped.put("key", 1) for map_ in maps)
            for map_ in maps:
                assert map_.destroy()


def none_left(node: Node) -> bool | None:
    """None while a folder or a figure of the log of a destroyed map is there."""
    kept = [name for name in folders(node) if name.startswith("job-")]
    return None if kept or any('business="job-' in name for name in node.figures()) else True


def test_maps_that_are_made_and_destroyed_leave_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "root", config=SOON) as node:
        with node.client() as client:
            client.get_map("stays").blocking().put("key", 1)
        before = figures_of(node)
        before.say("before")
        began = time.monotonic()
        make_and_destroy(node)
        made = time.monotonic()
        until(lambda: none_left(node))
        assert not [name for name in node.figures() if "job-" in name]
        after = figures_of(node)
        after.say(f"{COUNT:,} made and destroyed in {made - began:.0f} s, gone {time.monotonic() - made:.0f} s later")
        assert (after.folders, after.maps) == (before.folders, before.maps)
        assert after.descriptors <= before.descriptors + 10
        node.restart()
        assert none_left(node)
        again = figures_of(node)
        again.say("after a start")
        assert (again.folders, again.maps) == (before.folders, before.maps)
        with node.client() as client:
            assert dict(client.get_map("stays").blocking().entry_set()) == {"key": 1}
            assert client.get_map("job-1").blocking().size() == 0


def test_a_map_that_is_made_again_goes_on_and_its_past_is_there(tmp_path: Path) -> None:
    with running(tmp_path / "root", config=SOON) as node:
        with node.client() as client:
            client.get_map("job-1").blocking().put("key", "before")
            assert client.get_map("job-1").destroy()
        until(lambda: none_left(node))
        with node.client() as client:
            client.get_map("job-1").blocking().put("key", "again")
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            past = store.map("job-1").history("key")
            assert [(entry.value, entry.deleted) for entry in past][-1] == (b"before", False)
            assert dict(store.map("job-1").at(past[-1].timestamp)) == {"key": "before"}
        node.restart()
        with node.client() as client:
            assert dict(client.get_map("job-1").blocking().entry_set()) == {"key": "again"}
            assert client.get_map("job-1").destroy()
        until(lambda: none_left(node))
        node.restart()
        with node.client() as client:
            assert client.get_map("job-1").blocking().size() == 0


def test_a_kill_between_the_destroy_and_its_end_leaves_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "root", config="[log]\narchive_seconds = 3600\n") as node:
        with node.client() as client:
            for number in range(5):
                client.get_map(f"job-{number}").blocking().put("key", 1)
                assert client.get_map(f"job-{number}").destroy()
        node.kill()
        assert len(folders(node)) == 5
        node._config.write_text(node._config.read_text().replace("3600", "1"))
        node.start()
        until(lambda: none_left(node))
