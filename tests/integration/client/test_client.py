"""What a client of the cluster is told when something is wrong, and that what it wrote is what an embedded store would have."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hazelcast.core import HazelcastJsonValue
from hazelcast.predicate import greater_or_equal, sql
from hazelcast.proxy.map import Map
from hazelcast.sql import HazelcastSqlError

import kvwal
from kvwal.client import failures, member_tasks, memory
from kvwal.client.member_tasks import KeyPrefix
from kvwal.codecs import Codecs
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running
from tests.support.disk.mounts import MIB, tmpfs
from tests.support.ports import free_port

WORDS: list[tuple[Any, Any]] = [
    ("text", "ünï"), ("int", 5), ("wide", 2**40), ("huge", -(2**90)), ("float", -0.0), ("bool", True), ("none", None),
    ("bytes", b"\x00\xff"), ("json", {"a": [1, 2.5, None]}), (7, "int"), (2**40, "wide"), (1.5, "float"), (True, "bool"),
    (None, "none"), (b"k", "bytes"),
]  # fmt: skip


def connect(node: Node, **given: Any) -> Any:
    return kvwal.connect(node.address, cluster=CLUSTER, **given)


def test_no_node_answers() -> None:
    ports = [free_port(), free_port()]
    with pytest.raises(
        kvwal.ClusterUnreachable, match=f"127.0.0.1:{ports[0]}: .*127.0.0.1:{ports[1]}: Connection refused"
    ):
        kvwal.connect([f"127.0.0.1:{port}" for port in ports])


@pytest.mark.long
def test_what_answers_is_no_member() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            kvwal.ClusterUnreachable, match=f"cluster local at {re.escape(address)}: .* gave no answer within 5 s"
        ):
            kvwal.connect(address)


@pytest.mark.parametrize("typed", ["", "host:", "host:x", "host:0", "host:65536", ":5701", []])
def test_an_address_is_checked_first(typed: Any) -> None:
    with pytest.raises(kvwal.ConfigError, match="address"):
        kvwal.connect(typed)
    with pytest.raises(kvwal.ConfigError, match="address"):
        kvwal.aio.connect(typed)


@pytest.mark.parametrize("timeout", [0, -1, None, "1", float("nan")])
def test_a_timeout_is_checked_first(timeout: Any) -> None:
    with pytest.raises(kvwal.ConfigError, match="timeout"):
        kvwal.connect("host", timeout=timeout)


def test_the_package_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvwal.client.address.find_spec", lambda name: None)
    with pytest.raises(kvwal.ConfigError, match=r"pip install 'kvwal\[cluster\]'"):
        kvwal.connect("host:5701")


def test_nothing_of_hazelcast_is_loaded_before_it_is_needed() -> None:
    program = "import sys, kvwal; kvwal.connect, kvwal.open, kvwal.aio.open; sys.exit('hazelcast' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.long
@needs_hazelcast
def test_another_cluster_or_namespace_is_refused(node: Node) -> None:
    with pytest.raises(kvwal.ClusterUnreachable, match="cluster other at 127"):
        kvwal.connect(node.address, cluster="other")
    with pytest.raises(kvwal.ConfigError, match="of the namespace 'default', not 'other'"):
        connect(node, namespace="other")


@pytest.mark.long
@needs_hazelcast
def test_what_was_written_is_in_the_log_as_embedded_and_there_after_a_kill(node: Node, tmp_path: Path) -> None:
    with connect(node) as store, kvwal.open(tmp_path, archive=None) as embedded:
        jobs, model = store.map("words"), embedded.map("words")
        for key, value in WORDS:
            jobs[key] = value
            model[key] = value
        node.restart()
        assert [(type(jobs[key]), jobs[key]) for key, _ in WORDS] == [(type(value), value) for _, value in WORDS]
        assert list(jobs.items()) == list(model.items())
        for key, _ in WORDS:
            jobs[key] = "again"
        assert len(jobs) == len(WORDS), "a key that came from the log is the key that a client sends"
        for key, value in WORDS:
            jobs[key] = value
    with kvwal.open(node.root, cluster=CLUSTER, read_only=True) as there:
        for key, _ in WORDS:
            logged, expected = there.map("words").entry(key), model.entry(key)
            assert logged is not None
            assert expected is not None
            assert (logged.key, logged.key_class) == (expected.key, expected.key_class)
            assert (logged.value, logged.value_class) == (expected.value, expected.value_class)


@dataclass
class Job:
    state: str


@needs_hazelcast
def test_a_codec_of_the_caller_and_one_that_is_not_known_here(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    knowing = Codecs()
    knowing.register(Job, "job", keys=True)
    monkeypatch.setattr("kvwal.client.cluster_business.registry", knowing)
    with connect(node) as store:
        jobs = store.map("codecs")
        jobs["a"] = Job("RUNNING")
        jobs[Job("key")] = 1
        assert jobs.replace("a", Job("RUNNING"), Job("DONE"))
        node.restart()
        assert jobs["a"] == Job("DONE")
        assert jobs[Job("key")] == 1
        monkeypatch.undo()
        strange = store.map("codecs")
        with pytest.raises(kvwal.CodecError, match="'job' is not registered here"):
            strange["a"]
        found = strange.entry("a")
        assert found.value_class == "job"


@needs_hazelcast
def test_other_clients_see_the_same_and_query_json(node: Node) -> None:
    with connect(node) as store, node.client() as plain:
        jobs, theirs = store.map("shared"), plain.get_map("shared").blocking()
        jobs["ours"] = {"state": "RUNNING", "stages": 3}
        jobs["text"] = "x"
        theirs.set("theirs", HazelcastJsonValue({"state": "DONE", "stages": 7}))
        theirs.set("array", bytearray(b"ab"))
        assert theirs.get("ours").loads() == {"state": "RUNNING", "stages": 3}
        assert theirs.get("text") == "x"
        assert jobs["theirs"] == {"state": "DONE", "stages": 7}
        assert jobs["array"] == b"ab"
        assert jobs.replace("theirs", {"stages": 7, "state": "DONE"}, {"state": "GONE", "stages": 9})
        del jobs["text"], jobs["array"]
        ours = store.hazelcast.get_map("queried").blocking()
        for number in range(10):
            store.map("queried")[f"job-{number}"] = {"state": "RUNNING" if number % 2 else "DONE", "stages": number}
        assert sorted(ours.key_set(sql("state = 'RUNNING' AND stages > 6"))) == ["job-7", "job-9"]
        assert sorted(plain.get_map("queried").blocking().key_set(greater_or_equal("stages", 8))) == ["job-8", "job-9"]


@needs_hazelcast
@pytest.mark.parametrize("statement", ["SELECT * FROM queried", "SINK INTO queried VALUES ('a', 1)", "SHOW MAPPINGS"])
def test_sql_of_a_client_is_refused_with_what_to_use_instead(node: Node, statement: str) -> None:
    with node.client() as plain, pytest.raises(HazelcastSqlError) as refused:
        plain.sql.execute(statement).result()
    assert "A node of kvwal takes no SQL from clients; nothing was read or written." in str(refused.value)
    assert "kvwal query" in str(refused.value)
    assert "Jet" not in str(refused.value)


@needs_hazelcast
@pytest.mark.long
def test_puts_go_on_when_a_node_comes_back_and_conditions_are_not_done_twice(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, connect(node, timeout=120) as store:
        jobs = store.map("jobs")
        jobs["a"] = 0
        futures = [jobs.submit(f"key-{number}", number) for number in range(500)]
        node.kill()
        during = [jobs.submit("during", 1)]
        node.start()
        for future in futures + during:
            assert future.result()
        assert len(jobs) == 502
        assert jobs.put_if_absent("b", 1)


@needs_hazelcast
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not here, and only it can hold an fdatasync")
@pytest.mark.long
def test_a_condition_whose_answer_was_lost_is_of_unknown_outcome(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, connect(node, timeout=120) as store:
        jobs = store.map("jobs")
        jobs["a"] = 0
        command = [
            "strace",
            "-f",
            "-e",
            "trace=fdatasync",
            "-e",
            "inject=fdatasync:delay_enter=60s",
            "-p",
            str(node.pid),
        ]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr is not None
        first = tracer.stderr.readline()
        if "attached" not in first:
            pytest.skip(f"strace may not attach here: {first.strip()}")
        told: list[BaseException] = []

        def replace() -> None:
            with pytest.raises(kvwal.CommitUnknown) as caught:
                jobs.replace("a", 0, 1)
            told.append(caught.value)

        thread = threading.Thread(target=replace)
        thread.start()
        while "fdatasync(" not in tracer.stderr.readline():
            pass
        os.kill(node.pid, signal.SIGKILL)  # which the process sees when nobody traces it any more
        tracer.kill()
        tracer.wait()
        node.kill()
        node.start()
        thread.join()
        assert "not known whether this was written" in str(told[0])
        assert jobs["a"] in (0, 1)


@needs_hazelcast
@pytest.mark.long
def test_a_full_disk_is_storage_full(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    with tmpfs(folder, 48 * MIB), running(folder / "root", more=["--archive", "none"]) as node, connect(node) as store:
        jobs = store.map("jobs")
        jobs["a"] = "old"
        (folder / "filler").write_bytes(bytes(shutil.disk_usage(folder).free - (1 << 20)))
        for call in (
            lambda: jobs.put("a", "x" * 2_000_000),
            lambda: jobs.put_if_absent("b", "x" * 2_000_000),
            lambda: jobs.replace("a", "old", "x" * 2_000_000),
            lambda: jobs.submit("a", "x" * 2_000_000).result(),
        ):
            with pytest.raises(kvwal.StorageFull, match="jobs"):
                call()
        assert dict(jobs.items()) == {"a": "old"}
        (folder / "filler").unlink()
        node.stop()


@needs_hazelcast
def test_a_name_that_no_log_can_have_is_refused_by_name(node: Node) -> None:
    with connect(node) as store, pytest.raises(kvwal.InvalidName):
        store.map("x" * 129)["a"] = 1


@needs_hazelcast
def test_a_closed_connection(node: Node) -> None:
    store = connect(node)
    jobs = store.map("closed")
    store.close()
    store.close()
    for call in (lambda: jobs["a"], lambda: jobs.put("a", 1), lambda: jobs.remove("a", 1), lambda: store.map("b")):
        with pytest.raises(kvwal.StoreClosed):
            call()


@needs_hazelcast
def test_a_callback_may_submit_and_must_not_wait(node: Node) -> None:
    with connect(node) as store:
        jobs = store.map("callbacks")
        told: list[Any] = []
        done = threading.Event()

        def called(_: Any) -> None:
            for call in (lambda: jobs["a"], lambda: jobs.put("b", 1)):
                try:
                    told.append(call())
                except kvwal.WrongLoop as error:
                    told.append(error)
            jobs.submit("c", 1).add_done_callback(lambda _: done.set())

        jobs.submit("a", 1).add_done_callback(called)
        assert done.wait(60)
        assert all(isinstance(error, kvwal.WrongLoop) for error in told)
        assert jobs["c"] == 1
        assert "b" not in jobs


@needs_hazelcast
def test_a_client_asks_for_the_past(node: Node) -> None:
    with connect(node) as store:
        jobs = store.map("past")
        assert jobs.history("a") == []
        jobs.put("a", {"state": "RUNNING"})
        jobs.put("b", 1, ttl=3600)
        jobs.put("a", {"state": "DONE"})
        jobs.delete("a")
        changes = jobs.history("a")
        assert [change.deleted for change in changes] == [True, False, False]
        assert [change.value for change in changes] == [b"", b'{"state":"DONE"}', b'{"state":"RUNNING"}']
        assert changes == sorted(changes, key=lambda change: -change.timestamp)
        assert dict(jobs.at(changes[1].timestamp)) == {"a": {"state": "DONE"}, "b": 1}
        assert dict(jobs.at(changes[2].timestamp)) == {"a": {"state": "RUNNING"}}
        assert dict(jobs.at(changes[2].timestamp - 1)) == {}
        assert jobs.history("b")[0].expires
        assert store.map("nobody wrote to it").history("a") == []
        assert dict(store.map("nobody wrote to it").at(changes[0].timestamp)) == {}


def test_every_error_that_leaves_the_outcome_open_is_commit_unknown_for_a_write() -> None:
    for kind in failures.UNKNOWN:
        assert isinstance(failures.translate(kind("gone"), "jobs", writes=True), kvwal.CommitUnknown)
        assert isinstance(failures.translate(kind("gone"), "jobs", writes=False), kvwal.ClusterUnreachable)


def test_members_select_text_keys_by_their_beginning(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one request with the values; by keys if the values are large, or if the members are of an earlier version."""
    texts = ["a/1", "a/2", "a/ü\U0001f600", "a", "b/1", "%_\\", "%_\\x", ""]
    asked: list[str] = []
    for name in ("entry_set", "key_set"):
        method = getattr(Map, name)

        def noted(self: Any, *given: Any, name: str = name, method: Any = method) -> Any:
            asked.append(name)
            return method(self, *given)

        monkeypatch.setattr(Map, name, noted)
    with connect(node) as store:
        jobs = store.map("beginnings")
        jobs.put_many({text: {"text": text} for text in texts})
        jobs.put_many({b"a/1": 1, 7: 2, 1.5: 3, True: 4, None: 5})
        for limit, class_id, ways in (
            (memory._MOST_TOGETHER, KeyPrefix.CLASS_ID, ["entry_set"]),
            (3, KeyPrefix.CLASS_ID, ["entry_set", "key_set"]),
            (memory._MOST_TOGETHER, 99, ["entry_set", "key_set", "key_set"]),
        ):
            monkeypatch.setattr(memory, "_MOST_TOGETHER", limit)
            monkeypatch.setattr(KeyPrefix, "CLASS_ID", class_id)
            for prefix in ("a", "a/", "a/ü", "%", "%_\\", "b/1", "b"):
                asked.clear()
                expected = [(text, {"text": text}) for text in sorted(texts) if text.startswith(prefix)]
                assert list(jobs.scan(prefix)) == expected
                assert asked == ways
            assert list(jobs.scan("never")) == []


def test_a_member_of_an_earlier_version_says_what_to_update(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows no task of this number, and ran nothing. Only a member that tests may look into says so from its own tasks."""
    for task in (member_tasks._TransactionTask, member_tasks._ConditionalTask, member_tasks._HistoryTask):
        monkeypatch.setattr(task, "CLASS_ID", 99)
    with connect(node) as store:
        later = store.map("later")
        for call in (
            lambda: later.put_many({"a": 1, "b": 2}),
            lambda: later.commit_if({"a": kvwal.ABSENT}, {"a": 1}),
            lambda: later.history("a"),
        ):
            with pytest.raises(
                kvwal.ConfigError, match=r"is of an earlier version .* nothing was written\. Update all members"
            ):
                call()
        assert dict(later) == {}
