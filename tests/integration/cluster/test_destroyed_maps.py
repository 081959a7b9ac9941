"""Three members: maps that are made and destroyed leave nothing behind on any of them, and nothing of them comes back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.leftovers import COUNT, SOON, figures_of, folders, make_and_destroy, none_left
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
SKEW_SECONDS = 1
CONFIG = f"{SOON}max_skew_seconds = {SKEW_SECONDS}\n"
KEYS = {f"key-{n}": n for n in range(60)}
"""Each member owns some of them."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3, config=CONFIG) as made:
        yield made


def gone(node: Node, *names: str) -> bool | None:
    """None while one of these maps has a folder, or one that is to be removed."""
    left = list((node.root / "default" / CLUSTER).glob("_retired/*/*.gone"))
    return None if left or set(names) & set(folders(node)) else True


def wait_for_the_clocks() -> None:
    """What is written from now on is later than what was, whichever clocks that differ no more than they may stamped it."""
    moment = (
        time.time() + SKEW_SECONDS + 1.1
    )  # a member that has just taken keys over may stamp a second ahead of the wall
    until(lambda: time.time() > moment or None)


def test_maps_that_are_made_and_destroyed_leave_nothing_on_any_member(three: Cluster) -> None:
    with three.client() as client:
        client.get_map("stays").blocking().put_all(KEYS)
        before = [figures_of(node) for node in three.nodes]
        began = time.monotonic()
        make_and_destroy(client, keys=9)
        made = time.monotonic()
    for node in three.nodes:
        until(lambda node=node: none_left(node))
    print(f"{COUNT:,} made and destroyed in {made - began:.0f} s, gone {time.monotonic() - made:.0f} s later")
    for node, first in zip(three.nodes, before, strict=True):
        after = figures_of(node)
        first.say(f"{node.name} before")
        after.say(f"{node.name} after")
        assert (after.folders, after.maps) == (first.folders, first.maps)
        assert after.descriptors <= first.descriptors + 10
    three.kill()
    three.start()
    for node, first in zip(three.nodes, before, strict=True):
        assert none_left(node)
        again = figures_of(node)
        again.say(f"{node.name} after a start")
        assert (again.folders, again.maps) == (first.folders, first.maps)
    assert three.contents("stays") == KEYS
    assert three.contents("job-1") == {}


@pytest.mark.parametrize("archive", ["has its log", "has never heard of its log"])
def test_a_member_that_was_killed_before_lets_its_log_go_and_nothing_comes_back(archive: str, tmp_path: Path) -> None:
    late = CONFIG if archive == "has its log" else CONFIG.replace("archive_seconds = 1", "archive_seconds = 3600")
    with cluster(tmp_path, 3, config=late) as three:
        away = three.nodes[2]
        with three.client(*three.nodes[:2]) as client:
            for name in ("job-1", "job-2"):
                client.get_map(name).blocking().put_all(KEYS)
            if archive == "has its log":
                until(lambda: list(three.archive.glob(f"**/job-2/{away.name}/*.parquet")) or None)
            assert {"job-1", "job-2"} <= set(folders(away))
            away.kill()
            wait_for_the_clocks()
            for name in ("job-1", "job-2"):
                assert client.get_map(name).destroy()
            client.get_map("job-2").blocking().put("again", 1)
        for node in three.nodes:
            node._config.write_text(node._config.read_text().replace("3600", "1"))
        away.start()
        if archive == "has its log":
            for node in three.nodes[:2]:
                until(lambda node=node: gone(node, "job-1"))
        until(lambda: gone(away, "job-1"))
        assert three.contents("job-1") == {}
        assert three.contents("job-2") == {"again": 1}
        three.kill()
        three.start()
        assert three.contents("job-1") == {}
        assert three.contents("job-2") == {"again": 1}
        for node in three.nodes:
            until(lambda node=node: gone(node, "job-1"))


def test_a_map_that_is_made_again_keeps_its_entries_and_its_past(three: Cluster) -> None:
    with three.client() as client:
        client.get_map("job-1").blocking().put_all(dict.fromkeys(KEYS, "before"))
        wait_for_the_clocks()
        moment = datetime.now(UTC)
        wait_for_the_clocks()
        assert client.get_map("job-1").destroy()
        for node in three.nodes:
            until(lambda node=node: gone(node, "job-1"))
        client.get_map("job-1").blocking().put_all(dict.fromkeys(KEYS, "again"))
    for _ in range(2):
        assert three.contents("job-1") == dict.fromkeys(KEYS, "again")
        with kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER) as store:
            jobs = store.map("job-1")
            assert [change.value for change in jobs.history("key-1")] == [b"again", b"before"]
            assert dict(jobs.at(moment)) == dict.fromkeys(KEYS, "before")
        three.kill()
        three.start()


def test_one_has_let_its_log_go_and_another_has_not_when_all_are_killed(three: Cluster) -> None:
    """The second member archives late: its mark and its log are there when the others' logs have gone."""
    slow = three.nodes[1]
    assert slow.stop() == 0
    slow._config.write_text(slow._config.read_text().replace("archive_seconds = 1", "archive_seconds = 3600"))
    slow.start()
    until(lambda: slow.written_again() or None)  # it archives for that
    with three.client() as client:
        for name in ("job-1", "job-2"):
            client.get_map(name).blocking().put_all(KEYS)
            assert client.get_map(name).destroy()
        for node in (three.nodes[0], three.nodes[2]):
            until(lambda node=node: gone(node, "job-1", "job-2"))
        client.get_map("job-2").blocking().put_all(dict.fromkeys(KEYS, "again"))
    assert {"job-1", "job-2"} <= set(folders(slow))
    three.kill()
    three.start()
    assert three.contents("job-1") == {}
    assert three.contents("job-2") == dict.fromkeys(KEYS, "again")
    until(lambda: gone(slow, "job-1"))
