"""A log of one member fails: clients are told, the other members go on, and it leaves so that its keys can be written again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hazelcast.errors import HazelcastError

import kvwal
from tests.support.cluster.consistency import checked
from tests.support.cluster.nodes import CLUSTER, Cluster, Node, cluster, key_owned_by, needs_hazelcast
from tests.support.disk.mounts import MIB, tmpfs
from tests.support.polling import until
from tests.support.sweep.tracing import failing_fdatasync, needs_strace

pytestmark = [needs_hazelcast, pytest.mark.long]
KEYS = [f"key-{number}" for number in range(60)]
OLD = dict.fromkeys(KEYS, "old")
LARGE = "x" * 2_000_000
"""More than a log takes from the disk ahead of its need."""


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    """Three members, of which the last has a disk of 64 MiB of its own."""
    with tmpfs(tmp_path / "root-3", 64 * MIB), cluster(tmp_path, 3) as made:
        yield made


def refusals(jobs: Any, value: str, keys: Sequence[str] = KEYS) -> dict[str, str]:
    """What the client was told, by key, when it put `value` under each."""
    told: dict[str, str] = {}
    for key in keys:
        try:
            jobs.put(key, value)
        except HazelcastError as error:
            told[key] = str(error)
    return told


def told_before_the_end(node: Node, word: str) -> bool:
    """Whether it told of `word` at /readyz before it was gone."""

    def said() -> bool | None:
        try:
            return word in node.get("/readyz")[1] or None
        except OSError:
            return False

    return until(said)


def test_a_full_disk_of_one_member(three: Cluster) -> None:
    full = three.nodes[2]
    with three.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put_all(OLD)
        filler = full.root / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(full.root).free - (1 << 20)))
        owned = [key_owned_by(client, node, KEYS) for node in three.nodes]
        assert not refusals(jobs, LARGE, owned[:2]), "the other members have room"
        told = refusals(jobs, LARGE, owned[2:])  # a full member leaves ten seconds later: it is the last that is asked
        assert list(told) == owned[2:]
        assert all("StorageFull" in text for text in told.values()), told
        assert all(jobs.get(key) == "old" for key in told)
        assert told_before_the_end(full, '"full"')
        assert full.ended() == 3
        assert "the disk has been full" in full.log.read_text()
        assert all(jobs.get(key) == "old" for key in told)
        assert not refusals(jobs, "new")
        filler.unlink()
        full.start()
        assert dict(jobs.entry_set()) == dict.fromkeys(KEYS, "new")


@needs_strace
def test_a_failing_disk_of_one_member(three: Cluster) -> None:
    failing = three.nodes[2]
    with three.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put_all(OLD)
        with failing_fdatasync(failing.pid):
            told = refusals(jobs, "new")
            assert all("CommitUnknown" in text or "LogFailed" in text for text in told.values()), told
            assert 0 < len(told) < len(KEYS), "one member's log has failed, those of the others have not"
            assert failing.ended() == 3
        assert "Input/output error" in failing.log.read_text()
        assert all(jobs.get(key) == "old" for key in told)
        assert not refusals(jobs, "newer")
        failing.start()
        assert dict(jobs.entry_set()) == dict.fromkeys(KEYS, "newer")
    three.kill()
    three.start()
    assert three.contents("jobs") == dict.fromkeys(KEYS, "newer")


@needs_strace
def test_what_is_told_of_a_write_is_so_when_a_disk_is_full_and_when_it_fails(three: Cluster) -> None:
    """Small changes go to the log together with those that find no room. One that has room again is no reason to leave."""
    bad = three.nodes[2]
    connect = kvwal.connect(three.addresses, cluster=CLUSTER)
    with three.client() as client, checked(connect, "checked") as clients:
        clients.wait(100)
        full = key_owned_by(client, bad, KEYS)
        filler = bad.root / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(bad.root).free - (1 << 20)))
        assert refusals(client.get_map("checked").blocking(), LARGE, [full])
        filler.unlink()
        clients.wait(100)
        with failing_fdatasync(bad.pid):
            assert bad.ended() == 3
        clients.wait(100)
        bad.start()
        clients.wait(100)
