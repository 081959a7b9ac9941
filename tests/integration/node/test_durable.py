"""What a client was told is done is there after a kill, for every way to write it; what was refused never is."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hazelcast.errors import UnsupportedOperationError

import kvwal
from kvwal.entry import Entry
from kvwal.key_class import DROPPED
from kvwal.log.submission import Submission, size_of
from tests.support.cluster.nodes import CLUSTER, JAR, Node, java_tool, needs_hazelcast
from tests.support.java.types import JAVA, TYPED, VALUES, Employee
from tests.support.polling import until

pytestmark = needs_hazelcast


def contents(node: Node, name: str) -> dict[Any, Any]:
    with node.client() as client:
        return dict(client.get_map(name).blocking().entry_set())


def test_the_changes_of_one_call_that_are_of_one_partition_are_one_group(node: Node) -> None:
    """Not one after the other, each after an fdatasync of its own."""
    with node.client() as client:
        together = client.get_map("together").blocking()
        together.put("there", 0)  # its log is open
        partition = client.partition_service.get_partition_id("there")
        keys = [key for key in map(str, range(60_000)) if client.partition_service.get_partition_id(key) == partition]
        assert len(keys) > 100
        begun = groups(node)
        together.put_all(dict.fromkeys(keys, 1))
        assert groups(node) == begun + 1
        together.clear()
        assert groups(node) == begun + 2


def groups(node: Node) -> float:
    """How many groups its logs have written since it started."""
    page = node.get("/metrics")[1].splitlines()
    return next(float(line.split()[1]) for line in page if line.startswith("kvwal_group_entries_count"))


def test_every_way_of_writing_survives_a_kill(node: Node) -> None:
    with node.client() as client:
        jobs = client.get_map("jobs").blocking()
        jobs.put("put", "1")
        jobs.set("set", "1")
        jobs.put_all({f"all-{number}": number for number in range(300)})
        assert jobs.put_if_absent("absent", "1") is None
        jobs.put_if_absent("put", "not this")
        jobs.replace("set", "2")
        assert jobs.replace_if_same("put", "1", "3")
        assert not jobs.replace_if_same("put", "1", "4")
        jobs.put("gone", "1")
        jobs.remove("gone")
        jobs.put("deleted", "1")
        jobs.delete("deleted")
        jobs.put("same", "1")
        assert jobs.remove_if_same("same", "1")
        jobs.try_put("tried", "1")
        locked = client.get_map("cleared").blocking()
        locked.put_all({"a": 1, "b": 2})
        locked.clear()
        transaction = client.new_transaction()
        transaction.begin()
        in_transaction = transaction.get_map("both")
        in_transaction.put("a", 1)
        in_transaction.put("b", 2)
        transaction.commit()
        before = {name: dict(client.get_map(name).blocking().entry_set()) for name in ("jobs", "cleared", "both")}
    assert before["jobs"]["put"] == "3"
    node.restart()
    assert {name: contents(node, name) for name in before} == before
    node.restart()  # and what one start recovered, the next one does too
    assert {name: contents(node, name) for name in before} == before


def raw(client: Any, name: str) -> Any:
    """The map as a client sees it that does not take values apart."""
    proxy = client.get_map(name)
    proxy._to_object = lambda data: data
    return proxy.blocking()


@pytest.mark.long
def test_values_of_any_type_come_back_byte_for_byte(node: Node) -> None:
    with node.client(**TYPED) as client:
        things = client.get_map("things").blocking()
        for key, value, _ in VALUES:
            things.set(key, value)
        serialize = client._serialization_service.to_data
        sent = [serialize(value).buffer for _, value, _ in VALUES]
    node.restart()
    node.restart()
    with node.client(**TYPED) as client:
        unread = raw(client, "things")
        assert [unread.get(key).buffer for key, _, _ in VALUES] == sent
    with node.client(**TYPED) as client:
        assert client.get_map("things").blocking().get("compact") == Employee("Ada", 36, Employee("Charles", 60))


def test_what_kvwal_has_a_codec_for_can_be_read_without_a_cluster(node: Node) -> None:
    with node.client(**TYPED) as client:
        things = client.get_map("seen").blocking()
        for key, value, _ in VALUES:
            things.set(key, value)
    with kvwal.open(node.root, cluster=CLUSTER, read_only=True) as store:
        there = store.map("seen")
        for key, _, value_class in VALUES:
            if isinstance(key, str | int | float):
                entry = there.entry(key)
                assert entry is not None
                assert entry.value_class == value_class, key
        assert there["text"] == "a ünïcode text, 🐘"
        assert there["int"] == -256
        assert there["json"] == {"b": 1, "a": [1.5, None]}


@pytest.mark.long
@pytest.mark.skipif(java_tool("javac") is None, reason="there is no javac to compile a Java client with")
def test_a_java_client_writes_durably_with_any_classes(node: Node, tmp_path: Path) -> None:
    (tmp_path / "Writes.java").write_text(JAVA)
    javac, java = java_tool("javac"), java_tool("java")
    assert javac is not None
    assert java is not None
    subprocess.run([javac, "-cp", JAR, "-d", tmp_path, tmp_path / "Writes.java"], check=True)
    command = [java, "-Xmx128m", "-cp", f"{JAR}:{tmp_path}", "Writes", node.address, CLUSTER]
    wrote = subprocess.run([*command, "write"], capture_output=True, text=True, check=True)
    node.restart()
    read = subprocess.run([*command, "read"], capture_output=True, text=True, check=True)
    assert read.stdout == wrote.stdout == "13\n"
    with kvwal.open(node.root, cluster=CLUSTER, read_only=True) as store:
        there = store.map("java")
        assert there["wide long"] == 1 << 40
        assert there["big"] == -(2**100)
        assert there["long"] == 5


@pytest.mark.long
def test_what_has_expired_is_absent_after_a_restart_and_what_has_not_keeps_its_end(node: Node) -> None:
    with node.client() as client:
        jobs = client.get_map("expiring").blocking()
        jobs.put("long", "1", ttl=3600)
        jobs.put("short", "1", ttl=1)
        jobs.put("for ever", "1", ttl=60)
        jobs.put("for ever", "2")
        jobs.put("longer", "1", ttl=60)
        jobs.set_ttl("longer", 3600)
        ends = {key: jobs.get_entry_view(key).expiration_time for key in ("long", "longer", "for ever")}
        while jobs.contains_key("short"):
            pass
    node.restart()
    with node.client() as client:
        jobs = client.get_map("expiring").blocking()
        assert sorted(jobs.key_set()) == ["for ever", "long", "longer"]
        assert {key: jobs.get_entry_view(key).expiration_time for key in ends} == pytest.approx(ends, abs=2000)


@pytest.mark.parametrize("way", ["put", "set", "put_if_absent", "put_transient"])
def test_an_idle_time_is_refused_where_a_log_would_take_it_for_a_time_to_live(node: Node, way: str) -> None:
    with node.client() as client:
        idle, volatile = (client.get_map(name).blocking() for name in (f"idle-{way}", f"tmp.idle-{way}"))
        for settings in ({"max_idle": 20}, {"max_idle": 20, "ttl": 3600}):
            with pytest.raises(UnsupportedOperationError, match="takes no idle time"):
                getattr(idle, way)("key", "1", **settings)
        assert idle.size() == 0
        getattr(volatile, way)("key", "1", max_idle=20)
        assert volatile.get("key") == "1"


def deletes_of(node: Node, name: str) -> int:
    """How many deletes the log of a map has."""
    with kvwal.open(node.root, cluster=CLUSTER, read_only=True) as store:
        business = store.map(name)
        return sum(business.history(f"key-{number}")[0].deleted for number in range(20))


@pytest.mark.long
def test_a_destroyed_map_stays_destroyed_and_may_be_used_again(node: Node) -> None:
    with node.client(**TYPED) as client:
        map_ = client.get_map("short-lived")
        map_.blocking().put_all({f"key-{number}": number for number in range(20)})
        map_.blocking().put("compact", Employee("Ada", 36))
        assert map_.destroy()
        again = client.get_map("short-lived").blocking()
        assert again.size() == 0
        again.put("key-1", "again")
        while deletes_of(node, "short-lived") < 19:
            pass
    node.restart()
    assert contents(node, "short-lived") == {"key-1": "again"}


@pytest.mark.long
def test_a_drop_that_a_kill_cut_short_is_finished_by_the_next_start(node: Node) -> None:
    with node.client() as client:
        client.get_map("half").blocking().put_all({f"key-{number}": number for number in range(20)})
    node.kill()
    with kvwal.open(node.root, cluster=CLUSTER, node=node.name, archive=None) as store:
        business = store.map("half")
        del business["key-3"]
        mark = Entry(b"", DROPPED, b"", "none", False, 0)
        future: Future[int] = Future()
        business._business.submit(Submission([mark], size_of([mark]), future))
        future.result()
        business["key-1"] = "again"
    node.start()
    assert contents(node, "half") == {"key-1": "again"}
    assert deletes_of(node, "half") == 19
    node.restart()
    assert contents(node, "half") == {"key-1": "again"}


def said_of(node: Node, name: str) -> str | None:
    """The last line of the node's log that names a map."""
    lines = [line for line in node.log.read_text().splitlines() if f'"map": "{name}"' in line]
    return lines[-1] if lines else None


@pytest.mark.long
def test_a_destroyed_map_with_long_keys_stays_destroyed(node: Node) -> None:
    """The deletes of 5,000 keys of 3.5 KB are more than one block of the log holds."""
    count = 5_000
    with node.client() as client:
        long = client.get_map("long").blocking()
        for first in range(0, count, 500):
            long.put_all({f"{number:<3500}": 1 for number in range(first, first + 500)})
        assert client.get_map("long").destroy()
        assert '"event": "dropped"' in until(lambda: said_of(node, "long"))
        client.get_map("long").blocking().put("again", 1)
    node.kill()
    with kvwal.open(node.root, cluster=CLUSTER, node=node.name, archive=None) as store:
        business = store.map("long")
        for first in range(0, count, 500):
            business.put_many({f"{number:<3500}": 1 for number in range(first, first + 500)})
        mark = Entry(b"", DROPPED, b"", "none", False, 0)
        future: Future[int] = Future()
        business._business.submit(Submission([mark], size_of([mark]), future))
        future.result()
    node.start()
    assert contents(node, "long") == {}


@pytest.mark.long
def test_volatile_maps_are_memory_only(node: Node) -> None:
    with node.client() as client:
        client.get_map("tmp.cache").blocking().put("a", "1")
        client.get_map("kept").blocking().put("a", "1")
    node.restart()
    assert contents(node, "tmp.cache") == {}
    assert contents(node, "kept") == {"a": "1"}
    with kvwal.open(node.root, cluster=CLUSTER, read_only=True) as store:
        assert "kept" in store.businesses()
        assert "tmp.cache" not in store.businesses()


ODD = [
    "",
    ".",
    "..",
    "a/b",
    "../../up",
    "_hidden",
    "-dash",
    "50%",
    "%",
    "%2F",
    "näme 🐘",
    "UPPER",
    "upper",
    "CON",
    "a:b",
    "\n",
]


@pytest.mark.long
def test_odd_names_of_maps_stay_apart_and_inside_the_root(node: Node) -> None:
    with node.client() as client:
        for name in ODD:
            client.get_map(name).blocking().put("name", name)
    node.restart()
    assert [contents(node, name) for name in ODD] == [{"name": name} for name in ODD]
    assert {path.name for path in node.root.parent.iterdir()} == {"root", node.log.name, node._config.name}


def test_a_name_too_long_for_a_folder_is_refused_by_name(node: Node) -> None:
    with node.client() as client:
        long = client.get_map("x" * 129).blocking()
        with pytest.raises(Exception, match=re.escape("InvalidName")):
            long.put("a", "1")
        assert long.get("a") is None
