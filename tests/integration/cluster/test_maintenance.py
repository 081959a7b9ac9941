"""Maintenance of members that fails: `kvwal doctor` says so, asked by the address of a cluster and by the root of a node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvwal import connect
from kvwal_archive.layout import LostTail, Place
from kvwal_archive.lost_tails import note_lost_tail, sentence
from kvwal_archive.objects import open_objects
from tests.support.cli import kvwal
from tests.support.cluster.nodes import CLUSTER, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
CONFIG = "[log]\narchive_seconds = 1\n"
MAPS = 60


def told(location: object, *arguments: object) -> dict[str, list[str]]:
    """What doctor found to fail, and what else is a problem, by what it is about."""
    ran = kvwal("doctor", location, "--cluster", CLUSTER, "--json", *arguments)
    found = [json.loads(line) for line in ran.out.splitlines()]
    problems = [finding for finding in found if finding["level"] == "problem"]
    assert ran.code == bool(problems), ran.err
    assert all(finding["what to do"] for finding in problems)
    told: dict[str, list[str]] = {}
    for finding in problems:
        told.setdefault(finding["about"], []).append(finding["found"])
    return told


def test_doctor_says_which_member_fails_to_archive_which_map(tmp_path: Path) -> None:
    with cluster(tmp_path, 2, config=CONFIG) as both:
        blocked = both.archive / "default" / CLUSTER / "jobs"
        blocked.parent.mkdir(parents=True, exist_ok=True)
        blocked.touch()
        assert told(both.location) == {}
        with both.client() as client:
            for name in ("jobs", "others"):
                client.get_map(name).blocking().put_all({str(number): number for number in range(100)})
        names = {f"jobs at {node.name}" for node in both.nodes}
        found = until(lambda: found if (found := told(both.location)).keys() >= names else None)
        assert found.keys() == names
        assert all(text.startswith("its archive fails since 2") for texts in found.values() for text in texts)
        for node in both.nodes:
            of_root = told(node.root, "--archive", "none")
            assert of_root == {f"default/{CLUSTER}/jobs/{node.name}": found[f"jobs at {node.name}"]}
        blocked.unlink()
        until(lambda: None if told(both.location) else True)


def test_doctor_says_how_many_more_maps_fail(tmp_path: Path) -> None:
    with cluster(tmp_path, 2, config=CONFIG) as both:
        blocked = both.archive / "default" / CLUSTER
        with both.client() as client:
            for number in range(MAPS):
                (blocked / f"map-{number}").parent.mkdir(parents=True, exist_ok=True)
                (blocked / f"map-{number}").touch()
                client.get_map(f"map-{number}").blocking().put_all({str(number): number for number in range(100)})
        first = both.nodes[0].address
        more = ["10 more jobs of other maps fail."]
        found = until(lambda: found if (found := told(both.location)).get(first) == more else None)
        assert len([about for about in found if about.endswith("at node-1")]) == MAPS - 10


def test_history_doctor_and_figures_say_what_a_lost_disk_took(tmp_path: Path) -> None:
    with cluster(tmp_path, 1, config=CONFIG) as alone:
        with alone.client() as client:
            client.get_map("jobs").blocking().set("key", "value")
        asked = ("history", alone.location, "jobs", "key", "--cluster", CLUSTER)
        assert kvwal(*asked).err == ""
        lost = LostTail(Place("default", CLUSTER, "jobs", "node-9"), 7, 1 << 56, (1 << 56) + (1 << 30))
        note_lost_tail(open_objects(str(alone.archive)), lost)
        ran = kvwal(*asked)
        assert (ran.code, ran.err) == (0, f"kvwal: {sentence(lost)}\n")
        assert "value" in ran.out
        counted = ["1 interval is on record of which a lost disk may have taken changes along."]
        assert until(lambda: noted(alone.location) or None) == counted
        assert alone.nodes[0].figures()['kvwal_lost_tails{business="jobs"}'] == 1


def noted(location: str) -> list[str]:
    """The notes of doctor about the map, which the member writes to so that it looks at the archive."""
    with connect(location, cluster=CLUSTER) as store:
        store.map("jobs")["another"] = "value"
    ran = kvwal("doctor", location, "--cluster", CLUSTER, "--json")
    assert ran.code == 0, ran.out
    found = [json.loads(line) for line in ran.out.splitlines()]
    return [finding["found"] for finding in found if finding["about"] == "jobs"]
