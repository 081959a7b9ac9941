"""A log that fails fails the client's operation, memory stays as it was, and a node that is told to leave does."""

from __future__ import annotations

import itertools
import queue
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hazelcast.invocation import Invocation
from hazelcast.protocol.client_message import REQUEST_HEADER_SIZE, OutboundMessage, create_initial_buffer

import kvwal
from kvwal.log.files.names import parse_name
from tests.support.cluster.consistency import UNKNOWN, checked
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running, small_jvm
from tests.support.disk.mounts import MIB, tmpfs
from tests.support.sweep.tracing import failing_fdatasync, needs_strace

pytestmark = [needs_hazelcast, pytest.mark.long]
IN_FLIGHT = 200
SHUT_DOWN = 0x200800
"""What Hazelcast's management center sends to a member that is to end, as any client may."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 48 MiB of its own."""
    with tmpfs(tmp_path / "disk", 48 * MIB):
        yield tmp_path / "disk"


def refusal(call: Any, *arguments: Any) -> str:
    """What the client was told."""
    with pytest.raises(Exception, match=r"NotWritten|kvwal") as told:
        call(*arguments)
    return str(told.value)


def test_a_full_disk_refuses_writes_and_nothing_else(small_disk: Path) -> None:
    with (
        running(small_disk / "root", more=["--archive", "none"]) as node,
        node.client() as client,
        checked(kvwal.connect(node.address, cluster=CLUSTER), "checked") as clients,
    ):
        jobs = client.get_map("jobs").blocking()
        jobs.put_all({"a": "old", "b": "old", "c": "1"})
        clients.wait(100)
        large = "x" * 2_000_000  # more than the log took from the disk ahead of its need
        filler = small_disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))
        for call, arguments in (
            (jobs.put, ("a", large)),
            (jobs.set, ("a", large)),
            (jobs.replace, ("a", large)),
            (jobs.put_all, ({"a": large},)),
            (jobs.put_if_absent, ("new", large)),
        ):
            assert "StorageFull" in refusal(call, *arguments)
        assert dict(jobs.entry_set()) == {"a": "old", "b": "old", "c": "1"}
        assert node.ready()["ready"]
        assert "NotWritten" not in node.log.read_text(), "clients are told, and may ask a thousand times a second"
        filler.unlink()
        jobs.put("b", "after")
        clients.wait(100)
        node.restart()
        clients.wait(100)
        assert dict(jobs.entry_set()) == {"a": "old", "b": "after", "c": "1"}


def test_a_write_of_many_keys_of_which_the_disk_takes_a_part_is_not_said_to_be_refused(small_disk: Path) -> None:
    """It is more than a batch of the log, and the disk has room for the first one."""
    with running(small_disk / "root", more=["--archive", "none"]) as node, node.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put("a", "old")
        partition = client.partition_service.get_partition_id
        beside = [key for key in map(str, range(200_000)) if partition(key) == partition("a")][:100]
        filler = small_disk / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 10 * MIB))
        said = refusal(jobs.put_all, dict.fromkeys(beside, "x" * 100_000))
        assert "CommitUnknown" in said
        assert "StorageFull" in said
        filler.unlink()
        node.restart()
        assert 0 < len(jobs.get_all(beside)) < len(beside)


@needs_strace
def test_a_change_that_waited_for_a_lock_is_not_done_before_the_log_has_it(tmp_path: Path) -> None:
    """A transaction lets go of the lock, and its own step runs what waited for that: in the log as all else, or refused."""
    with running(tmp_path / "root") as node, node.client() as one, node.client() as other:
        jobs = other.get_map("jobs")
        jobs.blocking().put("key", "old")
        partition = other.partition_service.get_partition_id
        beside = next(key for key in map(str, range(10_000)) if partition(key) == partition("key"))
        transaction = one.new_transaction()
        transaction.begin()
        transaction.get_map("jobs").put("key", "transaction")
        waits = jobs.set("key", "after")
        assert jobs.blocking().get(beside) is None  # so the one before it has come to the partition
        with failing_fdatasync(node.pid, when="2+"):
            transaction.commit()
            assert "CommitUnknown" in refusal(waits.result)
        assert jobs.blocking().get("key") == "transaction"


@needs_strace
def test_a_failing_disk_poisons_the_log_and_says_so(tmp_path: Path) -> None:
    with (
        running(tmp_path / "root") as node,
        node.client() as client,
        checked(kvwal.connect(node.address, cluster=CLUSTER), "checked") as clients,
    ):
        jobs = client.get_map("jobs").blocking()
        jobs.put_all({f"key-{number}": "old" for number in range(50)})
        clients.wait(100)
        with failing_fdatasync(node.pid):
            clients.wait_told(UNKNOWN, 1)
            assert "CommitUnknown" in refusal(jobs.put, "key-1", "new")
            assert "LogFailed" in refusal(jobs.put, "key-2", "new")
        assert "LogFailed" in refusal(jobs.put, "key-3", "new")
        assert jobs.get("key-1") == jobs.get("key-2") == "old"
        status, page = node.get("/readyz")
        assert status == 503
        assert "Input/output error" in page
        client.get_map("others").blocking().put("a", "1")
        node.restart()
        clients.wait(100)
        assert jobs.get("key-1") in ("old", "new")
        assert all(jobs.get(f"key-{number}") == "old" for number in range(50) if number != 1)
        assert node.ready()["ready"]


class Load:
    """A client that keeps a write of each key in flight, and remembers for each what it was last told is done."""

    def __init__(self, client: Any) -> None:
        self.acknowledged: dict[str, int] = {}
        self._map = client.get_map("load")
        self._idle: queue.SimpleQueue[str] = queue.SimpleQueue()
        for number in range(IN_FLIGHT):
            self._idle.put(f"key-{number}")
        self._stop = threading.Event()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count():
            key = self._idle.get()
            if self._stop.is_set():
                return
            self._map.set(key, number).add_done_callback(
                lambda done, key=key, number=number: self._done(key, number, done)
            )

    def _done(self, key: str, number: int, done: Any) -> None:
        if done.is_success():
            self.acknowledged[key] = number
            if number > 10 * IN_FLIGHT and len(self.acknowledged) == IN_FLIGHT:
                self._enough.set()
        self._idle.put(key)

    def wait(self) -> None:
        """Until every key was acknowledged, most of them several times."""
        self._enough.wait()

    def end(self) -> None:
        """Write nothing more."""
        self._stop.set()
        self._thread.join()

    def lost(self, found: dict[str, int]) -> dict[str, tuple[int, int | None]]:
        """Keys of which `found` has less than what was acknowledged."""
        return {
            key: (number, found.get(key)) for key, number in self.acknowledged.items() if found.get(key, -1) < number
        }


def stored(node: Node, name: str) -> dict[str, int]:
    with node.client() as client:
        return dict(client.get_map(name).blocking().entry_set())


def test_a_kill_under_load_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node:
        for _ in range(2):
            client_settings = {"invocation_timeout": 1.0, "cluster_connect_timeout": 0.1}
            with node.client(**client_settings) as client:
                load = Load(client)
                load.wait()
                node.kill()
                load.end()
            node.start()
            assert not load.lost(stored(node, "load"))


def test_a_node_that_is_told_to_leave_does_and_seals_its_logs(tmp_path: Path) -> None:
    with running(tmp_path / "root", more=["--archive", str(tmp_path / "archive")]) as node:
        with node.client(invocation_timeout=1.0, cluster_connect_timeout=0.1) as client:
            load = Load(client)
            load.wait()
            assert node.stop() == 0
            load.end()
        folder = node.root / "default" / CLUSTER / "load" / node.name
        assert not [path.name for path in folder.iterdir() if parse_name(path.name).kind.value == "torn"]
        with kvwal.open(node.root, cluster=CLUSTER, read_only=True, archive=tmp_path / "archive") as store:
            there = dict(store.map("load"))
        assert not load.lost(there)
        assert list((tmp_path / "archive").rglob("*.parquet")), "the tail was not archived"
        node.start()
        assert stored(node, "load") == there


def test_a_node_that_leaves_while_its_archive_is_away_says_that_its_root_is_needed(tmp_path: Path) -> None:
    archive, kept = tmp_path / "archive", tmp_path / "kept"
    with running(tmp_path / "root", more=["--archive", str(archive)]) as node:
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            store.map("jobs").put("a", 1)
        assert node.stop() == 0, "it archives its tail when it leaves"
        node.start()
        with kvwal.connect(node.address, cluster=CLUSTER) as store:
            jobs = store.map("jobs")
            archive.rename(kept)
            archive.write_text("no folder")
            jobs.put("a", 2)
            with pytest.raises(kvwal.ArchiveError):
                jobs.history("a")
            assert node.stop() == 3
        said = node.log.read_text()
        # Since it was started again it has not seen what the archive holds: so it names the first entry, too.
        assert "node-1 has left, but the archive was not seen to hold the tail of jobs (sequences 1–2)." in said
        assert f"Keep {node.root}: start the node again" in said
        archive.unlink()
        kept.rename(archive)
        node.start()
        assert node.stop() == 0
    kvwal.restore(archive, tmp_path / "again", cluster=CLUSTER)
    with kvwal.open(tmp_path / "again", cluster=CLUSTER, read_only=True) as store:
        assert dict(store.map("jobs")) == {"a": 2}


def test_a_log_that_somebody_else_holds_refuses_writes_by_name(tmp_path: Path) -> None:
    with running(tmp_path / "root", more=["--archive", "none"]) as node, node.client() as client:
        with kvwal.open(node.root, cluster=CLUSTER, node=node.name, archive=None) as store:
            store.map("held")
            held = client.get_map("held").blocking()
            assert "StoreLocked" in refusal(held.put, "a", "1")
        held.put("a", "2")
        assert held.get("a") == "2"


def test_a_node_that_cannot_open_a_log_does_not_serve_half_a_memory(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node:
        with node.client() as client:
            client.get_map("whole").blocking().put("a", "1")
            client.get_map("damaged").blocking().put_all({str(number): "x" * 100 for number in range(100)})
        node.kill()
        segment = min((node.root / "default" / CLUSTER / "damaged" / node.name).glob("*.wal"))
        data = bytearray(segment.read_bytes())
        data[100] ^= 1
        segment.write_bytes(data)
        node.spawn()
        assert node.process is not None
        assert node.process.stdout is not None
        assert node.process.stdout.read() == ""
        assert node.process.wait() == 4
        assert "kvwal log verify" in node.log.read_text()


def test_a_node_whose_memory_cannot_hold_what_its_logs_do_ends(tmp_path: Path) -> None:
    with kvwal.open(tmp_path / "root", cluster=CLUSTER, node="node-1", archive=None) as store:
        jobs = store.map("jobs")
        for number in range(100):
            jobs.put(f"job-{number}", "x" * 1_000_000)
    node = Node(tmp_path / "root", jvm=small_jvm(heap="64m"), more=["--archive", "none"])
    node.spawn()
    assert node.process is not None
    assert node.process.stdout is not None
    assert node.process.stdout.read() == ""
    assert node.ended() == 3
    assert "java.lang.OutOfMemoryError" in node.log.read_text()


def test_a_node_whose_member_has_ended_ends_too(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, node.client() as client:
        message = OutboundMessage(create_initial_buffer(REQUEST_HEADER_SIZE, SHUT_DOWN), False)
        client._invocation_service.invoke(Invocation(message))
        assert node.ended() == 3
        assert "Hazelcast has ended in this node" in node.log.read_text()
