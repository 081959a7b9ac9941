"""Maps that are made and destroyed leave nothing behind: no folder, no descriptor, no figure, no memory; nor after a start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.leftovers import COUNT, SOON, figures_of, folders, make_and_destroy, none_left
from tests.support.cluster.nodes import CLUSTER, needs_hazelcast, running
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]


def test_maps_that_are_made_and_destroyed_leave_nothing(tmp_path: Path) -> None:
    with running(tmp_path / "root", config=SOON) as node:
        with node.client() as client:
            client.get_map("stays").blocking().put("key", 1)
        before = figures_of(node)
        before.say("before")
        began = time.monotonic()
        with node.client() as client:
            make_and_destroy(client)
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


def test_maps_that_are_made_and_destroyed_take_no_memory(tmp_path: Path) -> None:
    """The first rounds take what a process keeps for later ones. An open map takes about 60 KiB: so would one that stays."""
    rounds = [range(start, start + 300) for start in range(0, 1200, 300)]
    resident = []
    with running(tmp_path / "root", config=SOON) as node, node.client() as client:
        for numbers in rounds:
            make_and_destroy(client, numbers)
            until(lambda: none_left(node))
            resident.append(figures_of(node).resident >> 20)
    print(f"MiB after each round: {resident}")
    assert resident[-1] - resident[1] < sum(map(len, rounds[2:])) * 60 >> 11, "half of what as many open maps take"


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
