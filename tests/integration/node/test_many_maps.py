"""Many more maps than file descriptors: a node with a limit of 1,024 takes 3,000, archives them and serves them again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvwal_archive.objects import open_objects
from kvwal_archive.registry import registered
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long(minutes=2)]
FILES, MAPS = 1024, 3000
AT_ONCE = 50
"""Maps that are written or read side by side. Between two such rounds the node is asked whether it serves."""
CONFIG = "[log]\narchive_seconds = 1\n"
NAMES = [f"map-{number}" for number in range(MAPS)]
BATCHES = [NAMES[first : first + AT_ONCE] for first in range(0, MAPS, AT_ONCE)]


def write_all(node: Node, key: str) -> None:
    """A write to each map, acknowledged; its value is the name of the map."""
    with node.client() as client:
        for names in BATCHES:
            for write in [client.get_map(name).set(key, name) for name in names]:
                write.result()
            check_serving(node)


def read_all(node: Node, key: str) -> list[str]:
    with node.client() as client:
        return [read.result() for names in BATCHES for read in [client.get_map(name).get(key) for name in names]]


def check_serving(node: Node) -> None:
    status, page = node.get("/readyz")
    assert status == 200, page


def archived(node: Node) -> bool | None:
    """True once the archive has every entry, None before; no log and no job has failed meanwhile."""
    check_serving(node)
    figures = node.figures()
    assert not of_all(figures, "failed")
    assert not of_all(figures, "maintenance_failing")
    return None if of_all(figures, "archive_lag_entries") else True


def of_all(figures: dict[str, float], name: str) -> float:
    return sum(figure for key, figure in figures.items() if key.startswith(f"kvwal_{name}{{"))


def test_a_node_takes_three_times_as_many_maps_as_it_may_open_files(tmp_path: Path) -> None:
    """And it starts with them. About two minutes."""
    limited = ["prlimit", f"--nofile={FILES}:{FILES}"]
    with running(tmp_path / "root", config=CONFIG, prefix=limited) as node:
        assert node.figures()["process_max_fds"] == FILES
        write_all(node, "first")
        write_all(node, "second")
        until(lambda: archived(node))
        assert node.figures()["kvwal_maps"] == MAPS
        assert len(registered(open_objects(str(node.root / "_archive")), "default", CLUSTER)) == MAPS
        assert node.stop() == 0
        node.start()
        check_serving(node)
        for key in ("first", "second"):
            assert read_all(node, key) == NAMES
        write_all(node, "third")
        until(lambda: archived(node))
        assert node.stop() == 0
        assert not [line for line in node.lines() if line["level"] in ("warning", "error")]
