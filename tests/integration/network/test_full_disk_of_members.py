"""A full archive disk of three members: no acknowledged write is lost, and archiving catches up by itself when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import kvwal
from kvwal_archive.objects import open_objects
from tests.support.archive.members import cannot_archive, check_archive, figure, lag, wait_archived
from tests.support.cluster.consistency import REFUSED
from tests.support.cluster.faults import MEANWHILE, Load, loaded
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast
from tests.support.disk.mounts import MIB, take_all, tmpfs
from tests.support.polling import until

pytestmark = [needs_hazelcast, pytest.mark.long]
SOON = "[log]\narchive_seconds = 1\n"
SECONDS = 3
"""For so long a client of kvwal goes on trying."""


class Disks(NamedTuple):
    """Three members that serve, the disk of their archive, and the disks of their logs."""

    members: Cluster
    archive: Path
    roots: list[Path]


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disks]:
    """Each test leaves all members serving, and room on all disks."""
    folder = tmp_path_factory.mktemp("disks")
    archive, roots = folder / "disk", [folder / f"root-{number}" for number in (1, 2, 3)]
    with ExitStack() as stack:
        stack.enter_context(tmpfs(archive, 32 * MIB))
        for root in roots:
            stack.enter_context(tmpfs(root, 64 * MIB))
        made = stack.enter_context(cluster(folder, 3, archive=archive / "archive", config=SOON))
        yield Disks(made, archive, roots)


def fill_archive(disks: Disks, load: Load, name: str) -> Path:
    """Nothing can be archived any more, and each member says so; they serve on."""
    load.wait()

    def is_behind() -> Path | None:
        filler = take_all(disks.archive)
        return filler if cannot_archive(disks.members.nodes, name) else None

    filler = until(is_behind)
    load.wait()
    assert lag(disks.members.nodes, name) >= MEANWHILE
    assert all(node.ready()["ready"] for node in disks.members.nodes)
    return filler


def bytes_of_logs(disks: Disks, name: str) -> float:
    """What all members keep of the map's log: it grows while nothing is archived."""
    return sum(figure(node, "log_bytes", name) for node in disks.members.nodes)


def is_whole(disks: Disks, load: Load, name: str) -> None:
    """The archive caught up by itself, and has what the maps hold and held."""
    wait_archived(disks.members.nodes, name, f"{name}-checked")
    check_archive(open_objects(str(disks.members.archive)), disks.members, load.writers, name, f"{name}-checked")


def test_archiving_catches_up_when_a_full_disk_has_room_again(disks: Disks) -> None:
    pids = [node.pid for node in disks.members.nodes]
    with loaded(disks.members, "full") as load:
        filler = fill_archive(disks, load, "full")
        before = bytes_of_logs(disks, "full")
        until(lambda: bytes_of_logs(disks, "full") > before or None)
        filler.unlink()
        load.wait()
    is_whole(disks, load, "full")
    assert [node.pid for node in disks.members.nodes] == pids


def test_members_that_were_killed_while_the_disk_was_full_start_from_their_disks(disks: Disks) -> None:
    with loaded(disks.members, "killed", timeout=SECONDS) as load:
        filler = fill_archive(disks, load, "killed")
        disks.members.kill()
        load.clients.wait_told(REFUSED, 1)
        disks.members.start()
        load.wait()
        filler.unlink()
        load.wait()
    is_whole(disks, load, "killed")


def test_writes_are_refused_while_all_disks_are_full_and_go_on_when_there_is_room(disks: Disks) -> None:
    """No member leaves: none could serve for it."""
    pids = [node.pid for node in disks.members.nodes]
    large = "x" * (2 * MIB)  # more than a log took from its disk ahead of its need
    with loaded(disks.members, "refused", timeout=SECONDS) as load:
        fillers = [fill_archive(disks, load, "refused"), *map(take_all, disks.roots)]
        with kvwal.connect(disks.members.addresses, cluster=CLUSTER, timeout=SECONDS) as store:
            for number in range(100):
                with pytest.raises(kvwal.StorageFull, match="the disk is full"):
                    store.map("refused-large")[f"key-{number}"] = large
            assert len(store.map("refused-large")) == 0
        until(lambda: all("full" in node.ready() for node in disks.members.nodes) or None)
        for filler in fillers:
            filler.unlink()
        load.wait()
    is_whole(disks, load, "refused")
    assert [node.pid for node in disks.members.nodes] == pids
