"""Several members: what a client was told is done is there when one of them stops in any way, and when it comes back."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import groupby
from time import monotonic
from typing import Any

import pytest
from hazelcast.errors import HazelcastError
from hazelcast.predicate import true
from hazelcast.serialization.api import IdentifiedDataSerializable

import kvwal
from kvwal.cluster.clock_bounds import AHEAD_MS
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, needs_hazelcast
from tests.support.cluster.writers import IN_FLIGHT, Connected, Writers
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
SMALL = "[log]\narchive_seconds = 1\n"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members for all tests here; each test leaves all of them serving."""
    with cluster(tmp_path_factory.mktemp("three"), 3, config=SMALL) as made:
        yield made


def test_a_killed_member_costs_nothing_that_was_acknowledged(three: Cluster) -> None:
    connect = kvwal.connect(three.addresses, cluster=CLUSTER)
    with three.client() as client, checked(connect, "killed-checked") as clients:
        writers = Writers(client, "killed")
        writers.wait(2000)
        clients.wait(100)
        three.nodes[2].kill()
        writers.wait(2000)
        clients.wait(100)
        three.nodes[2].start()
        writers.wait(2000)
        clients.wait(100)
        writers.end()
        print(f"longest time without an acknowledgement: {writers.gap:.2f} s; errors: {writers.errors}")
        assert not writers.wrong(three.contents("killed"))
        assert set(writers.errors) <= {"IndeterminateOperationStateError"}  # what Hazelcast's own client hands on


def test_what_maps_take_of_memory_is_told_with_the_copies(three: Cluster) -> None:
    with three.client() as client:
        client.get_map("told").blocking().put_all({str(number): "x" for number in range(300)})

    def told() -> list[float]:
        return [node.figures().get('kvwal_map_entries{map="told"}', 0) for node in three.nodes]

    # Partitions may still be on their way to the member that the test before this one killed.
    assert until(lambda: found if sum(found := told()) == 600 and all(found) else None)


def test_a_killed_member_is_no_error_for_puts_and_deletes_by_kvwal_connect(three: Cluster) -> None:
    members = [node.address for node in three.nodes]
    with kvwal.connect(members, cluster=CLUSTER) as store, ThreadPoolExecutor(IN_FLIGHT) as pool:
        writers = Writers(Connected(store, pool), "connected")
        for node in three.nodes:
            writers.wait(1000)
            node.kill()
            writers.wait(1000)
            node.start()
        writers.wait(1000)
        writers.end()
        print(f"longest time without an acknowledgement: {writers.gap:.2f} s")
        assert not writers.wrong(three.contents("connected"))
        assert not writers.errors


def test_a_change_that_a_backup_has_not_is_not_told_to_be_done(three: Cluster) -> None:
    """For every client: by default Hazelcast's own takes a change for done when a backup has been silent for five seconds."""
    connect = kvwal.connect(three.addresses, cluster=CLUSTER)
    with three.client() as client, checked(connect, "half-checked") as clients:
        half = client.get_map("half")
        keys = [f"key-{number}" for number in range(60)]
        half.blocking().put_all(dict.fromkeys(keys, 0))
        silent = three.nodes[2]
        spread(client)
        clients.wait(100)
        os.kill(silent.pid, signal.SIGSTOP)
        changes = {key: half.set(key, 1) for key in keys if owner(client, key) != silent.address}
        told = [outcome(change) for change in changes.values()]
        os.kill(silent.pid, signal.SIGCONT)
        print(Counter(told))
        assert set(told) == {"done", "IndeterminateOperationStateError"}
        half.blocking().put_all(dict.fromkeys(keys, 2))
        assert half.blocking().get_all(keys) == dict.fromkeys(keys, 2)
        clients.wait(100)


class OfHazelcast(IdentifiedDataSerializable):
    """An object of a class that every member has, by its numbers and fields."""

    def __init__(self, factory: int, number: int, *fields: Any) -> None:
        self._numbers = factory, number
        self._fields = fields

    def get_factory_id(self) -> int:
        return self._numbers[0]

    def get_class_id(self) -> int:
        return self._numbers[1]

    def write_data(self, object_data_output: Any) -> None:
        for field in self._fields:
            object_data_output.write_object(field)

    def read_data(self, object_data_input: Any) -> None:
        raise NotImplementedError


def removing() -> Any:
    """Hazelcast's entry processor that removes (EntryRemovingProcessor)."""
    return OfHazelcast(-4, 124)


def of_partition(key: str) -> Any:
    """Hazelcast's predicate for all that is in the partition of a key (PartitionPredicateImpl)."""
    return OfHazelcast(-20, 16, key, true())


def test_a_change_of_many_keys_that_a_backup_has_not_is_not_told_to_be_done(three: Cluster) -> None:
    """One message for keys of several partitions: Hazelcast waits for no backup of these. It goes by a member that talks, and no
    key of the silent one is in it, or the call would wait for that; `clear` does, until it talks again."""
    with three.nodes[0].client(smart_routing=False) as client:
        # One of a partition: what an entry processor answers of many keys waits for what others changed there.
        found = {
            client.partition_service.get_partition_id(key): key for key in (f"key-{number}" for number in range(60))
        }
        keys = list(found.values())
        half, cleared = client.get_map("half-of-many"), client.get_map("half-cleared")
        for there in (half, cleared):
            there.blocking().put_all(dict.fromkeys(keys, 0))
        half.blocking().execute_on_entries(removing())
        assert half.blocking().is_empty()
        half.blocking().put_all(dict.fromkeys(keys, 0))
        silent = three.nodes[2]
        spread(client)
        theirs = [key for key in keys if owner(client, key) != silent.address]
        os.kill(silent.pid, signal.SIGSTOP)
        clear = cleared.clear()
        left = len(keys) - len(theirs)  # of the silent one's keys the others have copies
        # Its backups are the first that are waited for.
        until(lambda: entries(three.nodes[:2], "half-cleared") == left or None)
        several = half.execute_on_keys(theirs[::2], removing())  # of a half it has the backup of some, however keys lie
        ranges = [half.remove_all(of_partition(key)) for key in theirs[1::2]]
        told = [outcome(several), *{outcome(change) for change in ranges}]
        os.kill(silent.pid, signal.SIGCONT)
        assert told[0] == "IndeterminateOperationStateError"
        assert "IndeterminateOperationStateError" in told[1:]
        assert outcome(clear) == "IndeterminateOperationStateError"
        assert sorted(half.blocking().key_set()) == sorted(set(keys) - set(theirs))
        assert cleared.blocking().is_empty()


def test_what_is_put_after_a_clear_stays(three: Cluster) -> None:
    """A backup that is slow with its part of `clear` logs nothing of it: its deletes would stand after the puts."""
    with (
        three.nodes[0].client(smart_routing=False) as client,
        kvwal.connect(three.nodes[0].address, cluster=CLUSTER) as store,
    ):
        again = client.get_map("put-again")
        again.blocking().put_all({f"key-{number}": 0 for number in range(60)})
        silent = three.nodes[2]
        spread(client)
        until(lambda: entries(three.nodes, "put-again") == 120 or None)
        whole = entries(three.nodes[:2], "put-again")
        theirs = [f"key-{number}" for number in range(60) if owner(client, f"key-{number}") != silent.address]
        os.kill(silent.pid, signal.SIGSTOP)
        clear = again.clear()
        until(lambda: entries(three.nodes[:2], "put-again") == 60 - len(theirs) or None)
        puts = [again.put(key, 1) for key in theirs]
        until(lambda: entries(three.nodes[:2], "put-again") == whole or None)
        os.kill(silent.pid, signal.SIGCONT)
        assert {outcome(change) for change in [clear, *puts]} <= {"done", "IndeterminateOperationStateError"}
        logged = store.map("put-again")
        assert sorted(logged.at(settled())) == sorted(theirs) == sorted(again.blocking().key_set())
        assert [deleted for deleted, _ in groupby(change.deleted for change in logged.history(theirs[0]))] == [
            False, True, False
        ]  # fmt: skip


def entries(nodes: list[Node], name: str) -> float:
    """How many entries of a map their memories have, copies included. A read would wait for a backup that is silent."""
    return sum(node.figures().get(f'kvwal_map_entries{{map="{name}"}}', 0) for node in nodes)


def spread(client: Any) -> None:
    """Wait until each of three members serves its third of the partitions.

    A partition that migrates to a silent member answers no client.
    """
    partitions = client.partition_service
    count = partitions.get_partition_count()

    def is_spread() -> bool | None:
        served = Counter(partitions.get_partition_owner(number) for number in range(count))
        return (len(served) == 3 and min(served.values()) >= count // 3) or None

    until(is_spread)


def owner(client: Any, key: str) -> str:
    """The address of the member that serves it, as the client sees that."""
    partitions = client.partition_service
    there = client.cluster_service.get_members()
    owns = partitions.get_partition_owner(partitions.get_partition_id(key))
    return next(f"{member.address.host}:{member.address.port}" for member in there if member.uuid == owns)


def outcome(change: Any) -> str:
    """Waits for it: "done", or the error's name."""
    try:
        change.result()
    except HazelcastError as error:
        return type(error).__name__
    return "done"


def test_a_map_of_few_keys_is_whole_when_a_member_was_killed(three: Cluster) -> None:
    """Of most partitions nobody ever asked anything: none of them waits for a word of the member that is gone."""
    few = {"a": 1, "b": 2}
    with three.client() as client:
        client.get_map("few").blocking().put_all(few)
        for node in three.nodes:
            node.kill()
            assert three.contents("few") == few
            assert client.get_map("few").blocking().size() == len(few)
            node.start()
            assert three.contents("few") == few


def test_the_past_is_what_all_members_logged(three: Cluster) -> None:
    """Whichever member answers: it asks all for what only their logs hold, and reads the archive."""
    members = [node.address for node in three.nodes]
    keys = [f"key-{number}" for number in range(40)]
    with kvwal.connect(members, cluster=CLUSTER) as store:
        jobs = store.map("past")
        jobs.put_many(dict.fromkeys(keys, "first"))
        moment = settled()
        jobs.put_many(dict.fromkeys(keys, "second"))
        jobs.delete("key-0")
        assert dict(jobs.at(moment)) == dict.fromkeys(keys, "first")
        assert values(jobs, "key-0") == [b"", b"second", b"first"]
        three.nodes[2].kill()
        jobs.put("key-1", "third")
        # What the log of the killed member alone has is missing until it is back, or adopted.
        assert values(jobs, "key-1")[0] == b"third"
        three.nodes[2].start()
        until(lambda: values_at_last(jobs, "key-1") == [b"third", b"second", b"first"] or None)


def values_at_last(jobs: Any, key: str) -> list[bytes] | None:
    """As `values`; None if a member could not archive its log in time, as one that has just started may not."""
    try:
        return values(jobs, key)
    except kvwal.ArchiveError:
        return None


def values(jobs: Any, key: str) -> list[bytes]:
    """What a key had, newest first. A member that was killed, here or in a test before, may be adopted meanwhile: then the
    values of the key are logged once more."""
    return [value for value, _ in groupby(change.value for change in jobs.history(key))]


def settled() -> datetime:
    """A moment that is past, before all that is written from now on and after all that was: a member that has just taken
    keys over may stamp a second ahead of the wall."""
    moment = datetime.now(UTC) + timedelta(milliseconds=AHEAD_MS + 100)
    until(lambda: datetime.now(UTC) > moment or None)
    return moment


def test_a_destroyed_map_has_a_past(three: Cluster) -> None:
    keys = [f"key-{number}" for number in range(40)]
    with kvwal.connect([node.address for node in three.nodes], cluster=CLUSTER) as store, three.client() as client:
        gone = store.map("destroyed")
        gone.put_many(dict.fromkeys(keys, "old"))
        moment = settled()
        client.get_map("destroyed").destroy()
        client.get_map("destroyed").blocking().put("new", "1")
        assert dict(gone.at(moment)) == dict.fromkeys(keys, "old")
        assert dict(gone.at(settled())) == {"new": "1"}


def test_a_rolling_restart_in_order_costs_nothing(three: Cluster) -> None:
    connect = kvwal.connect(three.addresses, cluster=CLUSTER)
    with three.client() as client, checked(connect, "rolling-checked") as clients:
        writers = Writers(client, "rolling")
        for node in three.nodes:
            writers.wait(500)
            clients.wait(100)
            assert node.stop() == 0
            writers.wait(500)
            clients.wait(100)
            node.start()
        clients.wait(100)
        writers.end()
        print(f"longest time without an acknowledgement: {writers.gap:.2f} s; errors: {writers.errors}")
        assert not writers.wrong(three.contents("rolling"))


def test_members_that_cannot_be_one_cluster_say_so(three: Cluster) -> None:
    other = Node(three.folder / "root-other", three.nodes[0].name)
    for archive, named in ((three.archive, "is called node-1 too"), (three.folder / "elsewhere", "another archive")):
        members = ",".join([other.address, *(node.address for node in three.nodes)])
        other.more = ["--members", members, "--archive", str(archive)]
        other.name = "node-1" if archive == three.archive else "node-9"
        other.spawn()
        assert other.ended() == 2
        assert named in other.log.read_text()
    more = Node(three.folder / "root-more", "node-9", config="backups = 2\n")
    more.more = ["--members", f"{more.address},{members}", "--archive", str(three.archive)]
    more.spawn()
    assert more.ended() == 2
    said = more.lines()[-1]["event"]
    assert "backups = 1" in said
    assert "backups = 2" in said
    assert not [line for node in three.nodes for line in node.lines() if "event" not in line]


MAPS = 30


def test_the_past_of_a_key_among_many_maps(three: Cluster) -> None:
    """It is asked of the members, which archive nothing for it, least of all the other maps."""
    with three.client() as client:
        for number in range(MAPS):
            client.get_map(f"past-{number}").blocking().put_all({f"key-{key}": number for key in range(20)})
    with kvwal.connect(three.nodes[0].address, cluster=CLUSTER) as store:
        maps = [store.map(f"past-{number}") for number in range(MAPS)]
        for number, found in enumerate(maps):
            found.put("key-1", -number - 1)
        slowest = 0.0
        for found in maps:
            began = monotonic()
            assert len(values(found, "key-1")) == 2
            slowest = max(slowest, monotonic() - began)
        print(f"the past of a key of {MAPS} maps: {slowest:.2f} s at most")


def test_too_many_at_once_is_no_absence(three: Cluster) -> None:
    """Of three members with one backup two go: the third says what is missing from memory and ends, until all are back."""
    with three.client() as client:
        client.get_map("whole").blocking().put_all({f"key-{number}": number for number in range(500)})
    three.kill(*three.nodes[:2])  # at the same moment: or copies are made of what the second one still has
    assert three.nodes[2].ended() == 3
    assert "memory lost partition" in three.nodes[2].log.read_text()
    three.start()
    assert three.contents("whole") == {f"key-{number}": number for number in range(500)}
