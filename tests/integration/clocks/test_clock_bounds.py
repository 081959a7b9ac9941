"""Clocks that are apart: what was written last is what counts after a total loss, and a clock too far off stays out."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.cluster.clock_bounds import AHEAD_MS
from kvwal.entry import TIMESTAMP_SHIFT
from kvwal.errors import CommitUnknown, StorageFull
from tests.repository.source import ROOT
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, key_owned_by, needs_hazelcast
from tests.support.cluster.writers import IN_FLIGHT, Writers, surely
from tests.support.disk.mounts import MIB, tmpfs
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
KEYS = [f"key-{number}" for number in range(90)]
AHEAD = 6


def clock_ahead(seconds: float) -> list[str]:
    """Under which command a node's clock is so far ahead."""
    return [sys.executable, "-m", "tests.support.cluster.shifted", str(seconds)]


@pytest.fixture
def three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three members; the clock of the last is ahead, and its disk has 64 MiB."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]))
    with tmpfs(tmp_path / "root-3", 64 * MIB), cluster(tmp_path, 2) as made:
        made.nodes.append(Node(tmp_path / "root-3", "node-3"))
        made.tell()
        start_ahead(made.nodes[2])
        try:
            yield made
        finally:
            if made.nodes[2].process is not None:
                made.nodes[2].kill()


def start_ahead(node: Node) -> None:
    node.spawn(*clock_ahead(AHEAD))
    node.wait_ready()


def start_all(three: Cluster) -> None:
    three.nodes[2].spawn(*clock_ahead(AHEAD))
    three.start()


def wait_for_skew(node: Node, least: float, most: float) -> None:
    """Return when it tells Prometheus of a skew between these; it hears of one member after the other."""
    until(lambda: least < node.figures().get("kvwal_clock_skew_seconds", 0.0) < most or None)


def test_an_owner_ahead_of_the_others_dies_and_what_is_written_since_counts(three: Cluster) -> None:
    with checked(kvwal.connect(three.addresses, cluster=CLUSTER), "checked") as clients:
        with three.client() as client:
            jobs = client.get_map("jobs").blocking()
            moved = key_owned_by(client, three.nodes[2], KEYS[::2])
            jobs.put_all(dict.fromkeys(KEYS, "old"))
            clients.wait(100)
            three.nodes[2].kill()
            for key in KEYS[::2]:
                surely(lambda key=key: jobs.set(key, "new"))
            for key in KEYS[1::2]:
                surely(lambda key=key: jobs.delete(key))
        leads = [node.figures()["kvwal_clock_lead_seconds"] for node in three.nodes[:2]]
        assert max(leads) <= AHEAD + AHEAD_MS / 1000, "a member stamps below the limits of all"
        clients.wait(100)
        for node in three.nodes[:2]:
            node.kill()
        start_all(three)
        assert three.contents("jobs") == dict.fromkeys(KEYS[::2], "new")
        with kvwal.connect(three.nodes[0].address, cluster=CLUSTER) as store:
            written = [entry.value for entry in store.map("jobs").history(moved)]
        assert written[0] == b"new", "what the next owner stamped is later"
        assert b"old" in written[1:], "the killed member's log has it"
        with three.client() as client:
            client.get_map("jobs").blocking().put_all(dict.fromkeys(KEYS, "newest"))
        clients.wait(100)
        three.kill()
        start_all(three)
        assert three.contents("jobs") == dict.fromkeys(KEYS, "newest")
        clients.wait(100)


def test_timestamps_of_a_key_ascend_while_it_moves_from_the_owner_ahead_and_back_under_load(three: Cluster) -> None:
    """The old owner has changes of the key under way when the next owner takes it over, whose clock is far behind."""
    ahead = three.nodes[2]
    with three.client(*three.nodes[:2]) as client:
        writers = Writers(client, "moving", keys=IN_FLIGHT)
        for _ in range(2):
            writers.wait(1000)
            assert ahead.stop() == 0
            writers.wait(1000)
            start_ahead(ahead)
        writers.wait(1000)
        writers.end()
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        for key in writers.tried:
            numbers = [entry.value for entry in store.map("moving").history(key) if not entry.deleted]
            assert numbers == sorted(numbers, reverse=True), f"the changes of {key} are not in the order of its writes"


def test_each_member_tells_how_far_clocks_are_apart(three: Cluster) -> None:
    wait_for_skew(three.nodes[0], AHEAD - 2, AHEAD + 1)
    wait_for_skew(three.nodes[2], -AHEAD - 2, -AHEAD + 1)


def test_a_member_whose_clock_is_too_far_off_does_not_join(three: Cluster) -> None:
    three.nodes[2].kill()
    for seconds, word in ((30, "ahead of"), (-30, "behind")):
        three.nodes[2].spawn(*clock_ahead(seconds))
        assert three.nodes[2].ended() == 3, "it is started again, until its clock is right"
        said = three.nodes[2].log.read_text()
        assert f"{word} that of the member node-" in said
    start_ahead(three.nodes[2])


def write_until_later(store: Any, key: str, than: str) -> None:
    """Write both until the entry of `key` has the later timestamp, by a second. When members meet, their clocks are equal."""
    jobs = store.map("jobs")

    def later() -> bool | None:
        jobs.put_many({key: "old", than: "old"})
        return jobs.history(key)[0].timestamp > jobs.history(than)[0].timestamp + (1000 << TIMESTAMP_SHIFT) or None

    until(later)


def unknown(store: Any, values: dict[str, str]) -> str:
    """Write them as one until one of the two members with room has the intent; what the client is told then."""

    def told() -> str | None:
        try:
            store.map("jobs").put_many(values)
        except StorageFull:
            return None
        except CommitUnknown as error:
            return str(error)
        raise AssertionError("the member without room has written its part")

    return until(told)


def test_a_transaction_is_whole_of_which_an_owner_ahead_of_the_others_had_no_room_for_its_part(three: Cluster) -> None:
    """The owner's earlier entry of the key has a later timestamp than the intent, which another member stamped."""
    new = "x" * 2_000_000
    with three.client() as client:
        ahead, other = (key_owned_by(client, three.nodes[number], KEYS) for number in (2, 0))
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        write_until_later(store, ahead, other)
        filler = three.nodes[2].root / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(filler.parent).free - (1 << 20)))
        assert "is logged" in unknown(store, {ahead: new, other: new})
        three.kill()
    filler.unlink()
    start_all(three)
    found = three.contents("jobs")
    assert {key: len(value) for key, value in found.items()} == {ahead: len(new), other: len(new)}
