"""All members are killed under load, and more of them or fewer start again: nothing acknowledged is lost, and deletes stay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvwal import connect
from tests.support.cli import kvwal
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.cluster.writers import Writers

pytestmark = [needs_hazelcast, pytest.mark.long]
SMALL = "[log]\narchive_seconds = 1\n"
IMPATIENT = {"invocation_timeout": 1.0, "cluster_connect_timeout": 0.1}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path, 3, config=SMALL) as made:
        yield made


def killed_under_load(made: Cluster, name: str) -> Writers:
    with made.client(**IMPATIENT) as client:
        writers = Writers(client, name)
        writers.wait(1500)
        made.kill()
        writers.end()
    return writers


def test_three_that_were_killed_start_again_as_five_and_five_as_two(made: Cluster) -> None:
    with checked(connect(made.addresses, cluster=CLUSTER), "checked") as clients:
        clients.wait(100)
        of_three = killed_under_load(made, "three")
        made.grow(2)
        made.start()
        assert "kvwal_cluster_members 5.0" in made.nodes[4].get("/metrics")[1]
        assert not of_three.wrong(made.contents("three"))

        clients.wait(100)
        of_five = killed_under_load(made, "five")
        made.nodes, gone = made.nodes[:2], made.nodes[2:]
        for node in gone:  # they do not come again, but their disks are there
            ran = kvwal("archive", "run", node.root, "--cluster", CLUSTER, "--archive", made.archive)
            assert ran.code == 0, ran.err
        made.tell(*(word for node in gone for word in ("--without", node.name)))
        made.start()
        assert not of_three.wrong(made.contents("three"))
        assert not of_five.wrong(made.contents("five"))
        clients.wait(100)


def test_members_that_leave_in_order_need_no_disk(made: Cluster) -> None:
    """A cluster that serves shrinks to one, one after the other, and grows again."""
    jobs = {f"job-{number}": number for number in range(300)}
    with made.client() as client, checked(connect(made.addresses, cluster=CLUSTER), "checked") as clients:
        client.get_map("jobs").blocking().put_all(jobs)
        for node in made.nodes[:0:-1]:
            clients.wait(100)
            assert node.stop() == 0
            assert made.contents("jobs") == jobs
            jobs[f"without {node.name}"] = 1
            client.get_map("jobs").blocking().put(f"without {node.name}", 1)
        clients.wait(100)
        made.start()
        clients.wait(100)
        assert made.contents("jobs") == jobs
    made.kill()
    made.start()
    assert made.contents("jobs") == jobs
