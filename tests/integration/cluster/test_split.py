"""Who may serve: more than half of the members that are expected. Who leaves in order is expected no more, who is killed is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hazelcast.errors import HazelcastError

import kvwal
from kvwal.errors import ClusterUnreachable
from tests.support.cluster.consistency import REFUSED, checked
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
JOBS = {f"job-{number}": number for number in range(200)}


def pairwise_by_transaction(lines: list[dict[str, str]]) -> list[tuple[datetime, datetime]]:
    """The moments of each two lines that follow one another about the same transaction."""
    moments: dict[str, list[datetime]] = {}
    for line in lines:
        transaction = line["event"].split(" cannot be finished")[0]
        moments.setdefault(transaction, []).append(datetime.fromisoformat(line["timestamp"]))
    return [pair for told in moments.values() for pair in pairwise(told)]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members, each of which has all in memory; each test leaves all of them serving."""
    with cluster(tmp_path_factory.mktemp("three"), 3, config="backups = 2\n") as made:
        yield made


def test_two_leave_in_order_and_the_third_serves(three: Cluster) -> None:
    connect = kvwal.connect(three.addresses, cluster=CLUSTER)
    with three.client() as client, checked(connect, "leaving-checked") as clients:
        jobs = client.get_map("leaving").blocking()
        jobs.put_all(JOBS)
        for node in three.nodes[:2]:
            clients.wait(100)
            assert node.stop() == 0
            jobs.put("job-0", 0)
            assert dict(jobs.entry_set()) == JOBS
        clients.wait(100)
        three.start()
        clients.wait(100)


def test_two_are_killed_and_the_third_refuses_reads_and_writes(three: Cluster) -> None:
    connect = kvwal.connect(three.addresses, cluster=CLUSTER, timeout=3)
    with checked(connect, "killed-checked") as clients:
        clients.wait(100)
        with three.client() as client:
            jobs = client.get_map("killed").blocking()
            jobs.put_all(JOBS)
            client.get_map("tmp.killed").blocking().put("a", 1)
            for node in three.nodes[:2]:
                node.kill()
            # Until it has noticed, what it answers is right: nobody else serves those keys so soon.
            until(lambda: three.nodes[2].figures()["kvwal_cluster_members"] == 1 or None)
            for call, arguments in (
                (jobs.get, ("job-1",)),
                (jobs.put, ("job-1", 2)),
                (jobs.delete, ("job-1",)),
                (jobs.entry_set, ()),
                (jobs.size, ()),
            ):
                with pytest.raises(HazelcastError, match=r"1 of the 3 members .* \(missing: node-1, node-2\)"):
                    call(*arguments)
            assert client.get_map("tmp.killed").blocking().get("a") == 1
            with (
                kvwal.connect(three.nodes[2].address, cluster=CLUSTER) as store,
                pytest.raises(ClusterUnreachable, match="1 of the 3"),
            ):
                store.map("killed")["job-1"]
            said = three.nodes[2].ready()
            assert said["phase"] == "serving", "it waits for the others, and keeps what it has"
            assert not said["ready"], "it refuses its clients"
            assert "1 of the 3" in said["quorum"]
            refused = [line for line in three.nodes[2].lines() if "NotWritten" in json.dumps(line)]
            # A member says so of a transaction that it finishes for a client.
            assert {line["logger"] for line in refused} <= {"kvwal.transactions.IntentWatch"}, (
                "clients are told, and may ask a thousand times a second"
            )
            for earlier, later in pairwise_by_transaction(refused):
                assert later - earlier > timedelta(seconds=59), (
                    "a member that waits says so once a minute, not at each look"
                )
        clients.wait_told(REFUSED, 1)
        three.nodes[2].kill()
        three.start()
        clients.wait(100)
    assert three.contents("killed") == JOBS


def test_a_killed_member_is_expected_until_the_operator_leaves_it_out(three: Cluster) -> None:
    lost = three.nodes.pop()
    lost.kill()
    three.tell("--without", lost.name)
    first, second = three.nodes
    assert second.stop() == 0
    second.start()  # it says so to those that serve
    assert first.stop() == 0
    with three.client() as client:
        jobs = client.get_map("without").blocking()
        jobs.put_all(JOBS)
        assert dict(jobs.entry_set()) == JOBS
    three.nodes.append(lost)
    three.tell()
    three.start()


def test_a_member_that_does_not_hear_the_others_is_not_ready(tmp_path: Path) -> None:
    """It refuses its clients, or keeps them waiting, from two seconds after the cut on."""
    with cluster(tmp_path, 3) as made:
        first, *others = made.nodes
        assert first.get("/readyz")[0] == 200
        for node in others:
            os.kill(node.pid, signal.SIGSTOP)
        said = first.told('"quorum"')
        assert "ClusterUnreachable" in json.loads(said)["quorum"]
        assert first.get("/readyz")[0] == 503


def test_a_watch_goes_on_while_a_member_is_silent(tmp_path: Path) -> None:
    """The members give it up after 10 s. A client whose question waits for it asks another one soon after that."""
    with cluster(tmp_path, 3) as made, kvwal.connect(made.addresses, cluster=CLUSTER) as store:
        jobs = store.map("jobs")
        watches = [jobs.watch() for _ in range(6)]
        os.kill(made.nodes[2].pid, signal.SIGSTOP)
        for number in range(30):
            jobs[f"job-{number}"] = number
        for watch in watches:
            assert len(list(islice(watch, 30))) == 30
        silent = store._link.client._config.heartbeat_timeout
        assert silent < 20, "Hazelcast's client would wait for a minute"
