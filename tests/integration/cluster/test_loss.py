"""All members are gone at once: what was acknowledged is loaded from their logs and the archive, and nobody serves before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kvwal
from tests.support.cluster.consistency import REFUSED, checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.cluster.writers import Writers
from tests.support.disk.mounts import MIB, tmpfs
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
ROUNDS = int(os.environ.get("KVWAL_LOSS_ROUNDS", "3"))
SMALL = "[log]\narchive_seconds = 1\n"
IMPATIENT = {"invocation_timeout": 1.0, "cluster_connect_timeout": 0.1}
SECONDS = 3
"""For so long a client of kvwal goes on trying."""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members for all tests here; each test finds them serving, and the last one leaves two."""
    with cluster(tmp_path_factory.mktemp("three"), 3, config=SMALL) as made:
        yield made


@pytest.mark.timeout(900 + 120 * ROUNDS)
def test_all_members_killed_under_load(three: Cluster) -> None:
    acknowledged: dict[str, int] = {}
    tried: dict[str, list[int]] = {}
    last = 1
    with checked(kvwal.connect(three.addresses, cluster=CLUSTER, timeout=SECONDS), "checked") as clients:
        for number in range(ROUNDS):
            clients.wait(100)
            with three.client(**IMPATIENT) as client:
                writers = Writers(client, begin=last + 1)
                writers.wait(1500)
                three.kill()
                writers.end()
            last = max(max(numbers) for numbers in writers.tried.values())
            acknowledged |= writers.acknowledged
            for key, numbers in writers.tried.items():
                tried.setdefault(key, []).extend(numbers)
            clients.wait_told(REFUSED, 1)
            three.start()
            writers.acknowledged, writers.tried = acknowledged, tried
            assert not writers.wrong(three.contents("load"))
            print(f"round {number + 1}: {last:,} changes so far, nothing acknowledged was lost", flush=True)
        clients.wait(100)


def begun_commands(node: Node) -> list[subprocess.Popen[str]]:
    """A command line of each kind on this cluster, all begun: each asks for as long as a client is patient."""
    commands = [
        ["get", "LOCATION", "early", "a"], ["history", "LOCATION", "early", "a"], ["scan", "LOCATION", "early"],
        ["put", "LOCATION", "early", "a", "3"], ["delete", "LOCATION", "early", "a"], ["stats", "LOCATION"],
        ["query", "LOCATION", "SELECT * FROM early"], ["export", "LOCATION", "early"], ["jobs", "LOCATION"],
        ["prune", "LOCATION", "--keep", "1d"],
    ]  # fmt: skip
    program = str(Path(sys.executable).parent / "kvwal")
    return [
        subprocess.Popen(
            [program, *(f"kvwal://{node.address}" if word == "LOCATION" else word for word in command), "--cluster", CLUSTER],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for command in commands
    ]  # fmt: skip


def test_a_cluster_that_is_loading_says_so_and_goes_on(three: Cluster) -> None:
    """Who asks for a key or for all before memory is whole is told to wait, and nothing of it is written or half seen."""
    with three.client() as client:
        client.get_map("early").blocking().put_all({"a": 1, "b": 2})
    three.kill()
    first, *others = three.nodes
    first.spawn()
    first.told("waiting_for")
    with kvwal.connect(first.address, cluster=CLUSTER, timeout=2) as store:
        early = store.map("early")
        one = (lambda: early["a"], lambda: early.put("a", 3), lambda: early.delete("a"))
        many = (lambda: len(early), lambda: list(early), lambda: list(early.items()), early.clear)
        for ask in (*one, *many):
            with pytest.raises(kvwal.NotRecovered, match="still loading"):
                ask()
        with pytest.raises(kvwal.NotRecovered, match="still loading"):
            store.maps()  # none is known yet, which is not that there are none
        for command in begun_commands(first):
            _, said = command.communicate()
            assert (command.returncode, "still loading" in said) == (3, True), f"{command.args}: {said}"
        for node in others:
            node.spawn()
        for node in three.nodes:
            node.wait_ready()
    with kvwal.connect(first.address, cluster=CLUSTER) as store:  # a patient one: a busy machine may answer late
        assert dict(store.map("early")) == {"a": 1, "b": 2}


def test_the_disks_of_all_members_are_enough_while_the_archive_is_away(three: Cluster) -> None:
    wanted = {f"job-{number}": number for number in range(500)}
    with three.client() as client:
        jobs = client.get_map("disks").blocking()
        jobs.put_all(wanted | {"gone": 1})
        jobs.delete("gone")
    until(lambda: three.archive.is_dir() or None)
    with checked(kvwal.connect(three.addresses, cluster=CLUSTER, timeout=SECONDS), "disks-checked") as clients:
        clients.wait(200)
        three.kill()
        kept = three.archive.rename(three.archive.with_name("kept"))
        three.archive.write_text("no folder")
        three.start()
        clients.wait(100)
    assert three.contents("disks") == wanted
    three.archive.unlink()
    kept.rename(three.archive)
    with three.client() as client:
        client.get_map("disks").blocking().set("later", 1)
    assert [node.stop() for node in three.nodes] == [0, 0, 0]
    three.start()
    assert three.contents("disks") == wanted | {"later": 1}


def test_an_embedded_store_from_a_clusters_archive(three: Cluster, tmp_path: Path) -> None:
    jobs = {f"job-{number}": number for number in range(100)}
    with three.client() as client:
        map_ = client.get_map("embedded").blocking()
        map_.put_all(jobs | {"gone": 1})
        map_.delete("gone")
    for node in three.nodes:
        assert node.stop() == 0
    three.start()
    kvwal.restore(three.archive, tmp_path / "embedded", cluster=CLUSTER)
    with kvwal.open(tmp_path / "embedded", cluster=CLUSTER) as store:
        assert dict(store.map("embedded")) == jobs


def test_a_member_whose_disk_was_lost_does_not_begin_anew_under_its_name(three: Cluster) -> None:
    with three.client() as client:
        client.get_map("jobs").blocking().put_all({f"job-{number}": number for number in range(100)})
    for node in three.nodes:
        assert node.stop() == 0
    shutil.rmtree(three.nodes[2].root)
    for node in three.nodes:
        node.spawn()
    assert three.nodes[2].ended() == 2
    assert "--take-over" in three.nodes[2].log.read_text()
    kvwal.restore(three.archive, three.nodes[2].root, cluster=CLUSTER, node="node-3", take_over=True)
    three.start()
    assert three.contents("jobs") == {f"job-{number}": number for number in range(100)}


def test_a_member_that_does_not_come_is_waited_for_until_the_operator_says_without(three: Cluster) -> None:
    """And what its archive held is there although its disk is gone."""
    with three.client() as client:
        writers = Writers(client, "without")
        writers.wait(1000)
        writers.end()
    lost = three.nodes[2]
    for node in three.nodes:
        assert node.stop() == 0
    shutil.rmtree(lost.root)
    for node in three.nodes[:2]:
        node.spawn()
    told = three.nodes[0].told("node-3 (")
    assert '"ready":false' in told
    assert lost.address in told
    for node in three.nodes[:2]:
        node.kill()
    three.nodes.remove(lost)
    three.tell("--without", "node-3")
    three.start()
    assert not writers.wrong(three.contents("without"))
    three.kill()
    three.tell()
    three.start()
    assert not writers.wrong(three.contents("without"))


def test_the_disks_of_all_members_are_enough_while_the_disk_of_the_archive_is_full(tmp_path: Path) -> None:
    wanted = {f"job-{number}": number for number in range(500)}
    disk = tmp_path / "disk"
    with tmpfs(disk, 8 * MIB), cluster(tmp_path, 3, archive=disk / "archive", config=SMALL) as made:
        with made.client() as client:
            client.get_map("jobs").blocking().put_all(wanted | {"gone": 1})
            client.get_map("jobs").blocking().delete("gone")
        until(lambda: list(made.archive.rglob("*.parquet")) or None)
        filler = disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(disk).free))
        with made.client() as client:
            client.get_map("jobs").blocking().set("later", 1)
        made.kill()
        made.start()
        assert made.contents("jobs") == wanted | {"later": 1}
        filler.unlink()
        assert [node.stop() for node in made.nodes] == [0, 0, 0], "the tails are archived"
