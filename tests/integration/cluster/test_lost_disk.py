"""A member comes back under its name, without its disk: while the others serve, its logs go on after what the archive has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from kvwal.errors import ArchiveGap
from kvwal_archive.layout import LostTail
from kvwal_archive.lost_tails import lost_tails
from kvwal_archive.objects import open_objects
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, key_owned_by, needs_hazelcast, running
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
UNARCHIVED = "[log]\narchive_seconds = 3600\n"
"""What a member writes is in the archive when another member asks for it, or when it leaves in order, and not before."""
JOBS = [f"job-{number}" for number in range(300)]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3, config=UNARCHIVED) as made:
        yield made


def write(three: Cluster, state: str, names: list[str] = JOBS) -> None:
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        for name in names:
            jobs[name] = state


def archive(three: Cluster) -> None:
    """Each member archives its tail as it leaves."""
    for node in three.nodes:
        assert node.stop() == 0
        node.start()


def stop_and_start(three: Cluster) -> None:
    """Each member archives its tail: one whose log is another one to the archive would end with 3."""
    assert {node.name: node.stop() for node in three.nodes} == dict.fromkeys([node.name for node in three.nodes], 0)
    three.start()


def refusals(node: Node) -> list[str]:
    return [line["event"] for line in node.lines() if "another log" in str(line)]


def test_a_killed_members_log_goes_on_though_its_disk_was_lost_with_a_tail(three: Cluster) -> None:
    write(three, "archived")
    archive(three)
    write(three, "in the tail", JOBS[::2])
    lost = three.nodes[0]
    lost.kill()
    shutil.rmtree(lost.root)
    write(three, "while it was away", JOBS[::3])
    expected = dict.fromkeys(JOBS, "archived") | dict.fromkeys(JOBS[::2], "in the tail")
    expected |= dict.fromkeys(JOBS[::3], "while it was away")
    lost.start()
    assert three.contents("jobs") == expected
    write(three, "since", JOBS[:30])
    expected |= dict.fromkeys(JOBS[:30], "since")
    stop_and_start(three)
    assert three.contents("jobs") == expected
    assert not refusals(lost)


def lost_in(three: Cluster) -> list[LostTail]:
    """The tails of lost disks in the archive, once each has its end: what the disk had is adopted then."""
    objects = open_objects(str(three.archive))

    def ended() -> list[LostTail] | None:
        tails = lost_tails(objects, "default", CLUSTER)
        return None if any(tail.before is None for tail in tails) else tails

    return until(ended)


def archive_lag(node: Node) -> float:
    """How long the oldest entry of the map has waited for the node's archive, in seconds."""
    lags = {name: value for name, value in node.figures().items() if name.startswith("kvwal_archive_lag_seconds")}
    return next(value for name, value in lags.items() if '"jobs"' in name)


def write_versions(three: Cluster, key: str, lost: Node) -> list[int]:
    """Write 15 versions of a key that no archive has. Their timestamps, as the log has them.

    After a start members ask each other for their archives. They have done so when an entry waits for some seconds.
    """
    write(three, "archived")
    until(lambda: archive_lag(lost) >= 3 or None)
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        for number in range(15):
            jobs[key] = f"version {number}"
        return [entry.timestamp for entry in reversed(jobs.history(key)[:15])]


def assert_told(three: Cluster, tail: LostTail, key: str, stamps: list[int]) -> None:
    """The versions of these timestamps are missing, but for the last one; every moment that could show them is refused."""
    assert tail.before is not None
    assert tail.after < stamps[0]
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        for moment in (*stamps, tail.after + 1, tail.before - 1):
            with pytest.raises(ArchiveGap, match=f"jobs: the disk of {tail.place.node} was lost"):
                jobs.at(moment)[key]
        assert jobs.at(tail.after)[key] == "archived"
        assert not {entry.timestamp for entry in jobs.history(key)} & set(stamps)


def versions_on_one_disk(three: Cluster, number: int) -> tuple[Node, str, list[int]]:
    """Archive a version of all keys, then write more of one key that the member owns: the member, the key, their timestamps."""
    write(three, "archived")
    stop_and_start(three)
    member = three.nodes[number]
    with three.client() as client:
        key = key_owned_by(client, member, JOBS)
    return member, key, write_versions(three, key, member)


def test_moments_of_which_a_lost_disk_took_versions_are_refused(three: Cluster) -> None:
    lost, key, stamps = versions_on_one_disk(three, 0)
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        assert store.map("jobs").at(stamps[7])[key] == "version 7"
    assert not lost_in(three)
    lost.kill()
    shutil.rmtree(lost.root)
    lost.start()
    [tail] = lost_in(three)
    assert (tail.place.business, tail.place.node) == ("jobs", lost.name)
    assert_told(three, tail, key, stamps)
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        assert jobs.at(tail.before)[key] == jobs[key] == "version 14"
    stop_and_start(three)
    assert lost_in(three) == [tail]


def test_moments_are_refused_after_a_member_was_given_up_with_all_of_them_gone(three: Cluster) -> None:
    lost, key, stamps = versions_on_one_disk(three, 2)
    three.kill()
    shutil.rmtree(lost.root)
    three.nodes.remove(lost)
    for _ in range(2):
        three.tell("--without", lost.name)
        three.start()
        [tail] = lost_in(three)
        assert_told(three, tail, key, stamps)
        with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
            assert store.map("jobs")[key] == "archived"
        three.kill()


def test_a_stopped_members_log_goes_on_and_may_be_lost_again(three: Cluster) -> None:
    write(three, "first")
    lost = three.nodes[1]
    for state in ("second", "third"):
        assert lost.stop() == 0
        shutil.rmtree(lost.root)
        lost.start()
        write(three, state)
    stop_and_start(three)
    assert three.contents("jobs") == dict.fromkeys(JOBS, "third")


def test_a_member_with_the_disk_of_another_log_is_refused_when_it_joins(three: Cluster, tmp_path: Path) -> None:
    write(three, "written")
    lost = three.nodes[2]
    assert lost.stop() == 0
    shutil.rmtree(lost.root)
    with kvwal.open(lost.root, cluster=CLUSTER, node=lost.name, archive=tmp_path / "elsewhere") as store:
        store.map("jobs")["job-1"] = "of another life"
    lost.spawn()
    assert lost.ended() == 2
    said = lost.lines()[-1]["event"]
    assert f"kvwal restore {three.archive}" in said
    assert f"--cluster {CLUSTER} --node {lost.name} --take-over" in said
    assert three.contents("jobs") == dict.fromkeys(JOBS, "written")


def test_a_node_alone_whose_disk_was_lost_is_refused_until_its_logs_are_restored(tmp_path: Path) -> None:
    with running(tmp_path / "root-1", more=["--archive", str(tmp_path / "archive")]) as alone:
        with alone.client() as client:
            client.get_map("jobs").blocking().set("job-1", 1)
        assert alone.stop() == 0
        shutil.rmtree(alone.root)
        alone.spawn()
        assert alone.ended() == 2
        assert "--take-over" in alone.lines()[-1]["event"]
        kvwal.restore(tmp_path / "archive", alone.root, cluster=CLUSTER, node=alone.name, take_over=True)
        alone.start()
        with alone.client() as client:
            assert client.get_map("jobs").blocking().get("job-1") == 1
        assert alone.stop() == 0
