"""What a node is told is checked before it starts; what it tells machines is there from its start to its end."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import kvwal as api
from kvwal.cluster.map_names import flush_for, to_business, to_map
from kvwal.config import Interval, Settings
from kvwal.errors import EXIT_CODES, ConfigError, InvalidName, Kind
from kvwal.node.config import NodeFile, parse_address, parse_flush, read_file
from kvwal.node.health.metrics import MOST
from kvwal_archive.layout import Place, registration_key
from tests.repository.source import ROOT
from tests.support.cli import kvwal
from tests.support.cluster.nodes import CLUSTER, Node, needs_hazelcast, running, small_jvm
from tests.support.ports import free_port


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return path


def test_the_file_in_deploy_shows_every_key_with_its_default() -> None:
    path = ROOT / "deploy" / "node.toml"
    assert read_file(path) == NodeFile() == read_file(None)
    text = path.read_text()
    keys = [*NodeFile.__struct_fields__, *NodeFile().log.__struct_fields__]
    assert not [key for key in keys if key not in text]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("eviction = true", "eviction"),
        ("[log]\nmax_idle = 3", "max_idle"),
        ('[flush]\n"a" = { ms = 1, seconds = 2 }', "seconds"),
        ('[flush]\n"a" = "never"', "never"),
        ("backups = 7", "backups"),
        ("heap = 5", "heap"),
        ("[log]\nsegment_bytes = 5", "segment_bytes"),
        ('[flush]\n"a" = { ms = 0 }', "ms=0"),
        ("heap = ", "node.toml"),
        ('heap = "\xff"', "node.toml"),
    ],
)
def test_a_file_that_cannot_be_is_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "node.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=named) as refused:
        read_file(path)
    assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize("text", ["heapsize = 1", "[log]\nsegment_size = 3", '[flush]\n"a" = { seconds = 2 }'])
def test_an_unknown_key_is_answered_with_the_known_ones(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_file(written(tmp_path, text))
    said = str(refused.value)
    known = [*NodeFile.__struct_fields__, *Settings.__struct_fields__, *Interval.__struct_fields__]
    assert not [key for key in known if not re.search(rf"\b{key}\b", said.partition("The keys are")[2])]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_file(tmp_path / "node.toml")


def test_flush_policies_go_by_the_first_pattern_that_fits(tmp_path: Path) -> None:
    policies = read_file(written(tmp_path, '[flush]\n"m.*" = { ms = 5 }\n"m*" = "os"\n')).policies()
    assert flush_for("m.cpu", policies, "sync") == Interval(ms=5)
    assert flush_for("mail", policies, "sync") == "os"
    assert flush_for("jobs", policies, "sync") == "sync"


def test_flush_and_addresses_are_read_from_the_command_line() -> None:
    assert parse_flush("sync") == "sync"
    assert parse_flush("os") == "os"
    assert parse_flush("20") == Interval(ms=20)
    assert str(parse_address("10.0.0.1:5701", "--address")) == "10.0.0.1:5701"
    for text in ("", "0", "-1", "Sync", "٣"):
        with pytest.raises(ConfigError, match="flush"):
            parse_flush(text)
    for text in ("", "host", ":1", "host:", "host:0", "host:65536", "host:x"):
        with pytest.raises(ConfigError, match="--http"):
            parse_address(text, "--http")


@pytest.mark.parametrize(
    "name", ["jobs", "a.b-c_d", "", "%", "%41", ".x", "..", "-x", "_x", "a/b", "ä", "x\x00y", "x" * 128]
)
def test_a_name_becomes_a_business_and_comes_back(name: str) -> None:
    business = to_business(name)
    assert to_map(business) == name
    assert business.isascii()
    assert business[0] not in "._-"


def test_names_that_cannot_be_are_refused() -> None:
    for name in ("x" * 129, "ä" * 50, "\ud800"):
        with pytest.raises(InvalidName):
            to_business(name)
    for business in ("50%", "%4a", "%41", "%FF", "%_"):
        with pytest.raises(ConfigError, match="no map"):
            to_map(business)


@pytest.mark.parametrize(
    "typed",
    [
        ["--address", "here"],
        ["--address", "127.0.0.1:5701", "--members", "127.0.0.1:5702"],
        ["--address", "127.0.0.1:5701", "--members", "127.0.0.1:5701,127.0.0.1:5701"],
        ["--address", "127.0.0.1:5701", "--flush", "later"],
        ["--address", "127.0.0.1:5701", "--config", "nowhere.toml"],
    ],
)
def test_a_wrong_call_ends_before_anything_starts(tmp_path: Path, typed: list[str]) -> None:
    ran = kvwal("node", tmp_path / "root", "--node", "node-1", *typed)
    assert ran.code == 2
    assert ran.err.startswith("kvwal: ")
    assert not (tmp_path / "root").exists()


def failed_start(node: Node, code: int = EXIT_CODES[Kind.CALLER]) -> str:
    """What a node that cannot start says. Its exit code says whether the call is to be mended, or a later start may succeed."""
    node.spawn()
    assert node.process is not None
    assert node.process.wait() == code
    return node.log.read_text()


LATER = EXIT_CODES[Kind.RETRY]


@needs_hazelcast
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """It may be this node, before its last end: a supervisor starts the node again."""
    node = Node(tmp_path / "root")
    for port, named in ((node.http, "--http"), (node.port, "--address")):
        with socket.create_server(("127.0.0.1", port)):
            assert named in failed_start(node, LATER)


@pytest.mark.long
@needs_hazelcast
def test_a_node_that_the_others_do_not_let_join_now_is_started_again(tmp_path: Path) -> None:
    """So is one that came back while the others merged."""
    port = free_port()
    program = [sys.executable, "-m", "tests.support.member.frozen", str(port)]
    with subprocess.Popen(program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as frozen:
        assert frozen.stdout is not None
        assert any("frozen" in line for line in frozen.stdout)
        node = Node(tmp_path / "root")
        node.more = ["--members", f"{node.address},127.0.0.1:{port}", "--archive", str(tmp_path / "archive")]
        failed_start(node, LATER)
        last = node.lines()[-1]
    assert last["kind"] == "StartFailed"
    assert "could not start, or join the others" in last["event"]


@pytest.mark.long
@needs_hazelcast
def test_a_node_whose_log_is_ahead_of_its_clock_is_started_again(tmp_path: Path) -> None:
    """The clock catches up by itself."""
    node = Node(tmp_path / "root")
    put = ["put", str(node.root), "jobs", "job-1", "1", "--cluster", CLUSTER, "--node", node.name, "--archive", "none"]
    ahead = [sys.executable, "-m", "tests.support.cluster.shifted", "60", str(Path(sys.executable).parent / "kvwal")]
    subprocess.run([*ahead, *put], cwd=ROOT, check=True)
    assert "ahead of this clock" in failed_start(node, LATER)
    assert node.lines()[-1]["kind"] == "ClockSkew"


@needs_hazelcast
def test_another_jar_than_the_pinned_one_is_refused(tmp_path: Path) -> None:
    jar = tmp_path / "hazelcast.jar"
    jar.write_bytes(b"something else")
    assert "SHA-256" in failed_start(Node(tmp_path / "root", config=f'hazelcast_jar = "{jar}"\n'))


@pytest.mark.long
@needs_hazelcast
def test_whom_nobody_knows_cannot_be_left_out(tmp_path: Path) -> None:
    node = Node(tmp_path / "root", more=["--without", "zzz", "--http", f"0.0.0.0:{free_port()}"])
    said = failed_start(node)
    assert "zzz: no member was ever called that" in said
    first, *_, last = node.lines()
    assert (first["level"], last["level"]) == ("warning", "error")
    assert first["event"].startswith("--http 0.0.0.0:")
    assert "zzz" in last["event"]


@needs_hazelcast
def test_options_that_java_does_not_take_are_named(tmp_path: Path) -> None:
    said = failed_start(Node(tmp_path / "root", jvm='java_options = ["-XX:+NoSuchOption"]\n'))
    assert "NoSuchOption" in json.loads(said.splitlines()[-1])["event"]


@pytest.mark.long
@needs_hazelcast
def test_the_java_that_images_have_says_nothing_in_plain_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer one warns of what JPype and Hazelcast do. `lines` takes JSON only."""
    command = [sys.executable, "deploy/java_home.py", "--bundled"]
    home = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setenv("JAVA_HOME", home)
    with running(tmp_path / "root", jvm='heap = "256m"\n') as node, node.client() as client:
        client.get_map("jobs").blocking().set("job-1", 1)
        assert node.stop() == 0
        assert "serving" in [line["event"] for line in node.lines()]


@needs_hazelcast
def test_health_readiness_and_metrics(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, node.client() as client:
        client.get_map("jobs").blocking().put_all({str(number): "x" for number in range(10)})
        assert node.get("/healthz") == (200, '{"alive":true}')
        assert node.ready() == {"ready": True, "phase": "serving", "failed": {}}
        assert node.get("/elsewhere")[0] == 404
        assert node.get("/metrics")[0] == 200
        figures = node.figures()
        assert figures["kvwal_entries_total"] == 10
        assert figures["kvwal_recovered"] == 1
        assert figures["kvwal_cluster_members"] == 1
        assert figures['kvwal_last_sequence{business="jobs"}'] == 10
        assert figures["kvwal_fsync_seconds_count"] >= 1
        assert figures["kvwal_group_entries_sum"] == 10
        assert figures['kvwal_map_entries{map="jobs"}'] == 10
        assert 10 < figures['kvwal_map_bytes{map="jobs"}'] < figures["kvwal_heap_used_bytes"]
        assert figures["kvwal_heap_used_bytes"] < figures["process_resident_memory_bytes"]
        assert figures["kvwal_heap_max_bytes"] == pytest.approx(256 << 20, rel=0.1)


@pytest.mark.long
@needs_hazelcast
def test_many_maps_are_told_in_bounded_lines(tmp_path: Path) -> None:
    with running(tmp_path / "root") as node, node.client() as client:
        for number in range(MOST + 10):
            client.get_map(f"map-{number}").blocking().set("key", "x" * (number + 1))
        figures = node.figures()
        assert figures["kvwal_maps"] == MOST + 10
        assert figures['kvwal_map_entries{map="_rest"}'] == 10
        assert figures['kvwal_last_sequence{business="_rest"}'] == 10
        for name in ("kvwal_map_bytes{", "kvwal_log_bytes{"):
            assert len([line for line in figures if line.startswith(name)]) == MOST + 1


@pytest.mark.long
@needs_hazelcast
def test_python_asks_the_jvm_for_no_collections(tmp_path: Path) -> None:
    """JPype would, whenever the process has grown: all of memory is collected then, and Python's threads wait for it."""
    log = tmp_path / "gc.log"
    with running(tmp_path / "root", jvm=small_jvm(f"-Xlog:gc*:file={log}")) as node, node.client() as client:
        client.get_map("jobs").blocking().put_all({str(number): "x" * 10_000 for number in range(5_000)})
        assert "Pause Young" in log.read_text()
        assert "System.gc()" not in log.read_text()


class Named(Node):
    """A node that is told a host name instead of an address."""

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"


@pytest.mark.long
@needs_hazelcast
def test_a_node_listens_at_the_address_of_a_host_name(tmp_path: Path) -> None:
    node = Named(tmp_path / "root")
    node.start()
    try:
        with node.client() as client:
            client.get_map("jobs").blocking().set("job-1", 1)
    finally:
        assert node.stop() == 0


def test_an_unknown_host_name_is_refused(tmp_path: Path) -> None:
    found = kvwal("node", str(tmp_path / "root"), "--address", "no-such-host.invalid:5701", "--node", "node-1")
    assert found.code == LATER, "the name service may be down"
    assert "no-such-host.invalid" in found.err


@pytest.mark.long
@needs_hazelcast
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_node_does_not_start_beside_a_registration_of_another_cluster(tmp_path: Path, is_lost: bool) -> None:
    """With its root, or without it: the archive would give its maps without their entries."""
    archive = tmp_path / "archive"
    node = Node(tmp_path / "root")
    node.more = ["--archive", str(archive)]
    node.start()
    with api.connect(node.address, cluster=CLUSTER) as store:
        store.map("jobs").put_many({"job-1": "DONE", "job-2": "DONE"})
    assert node.stop() == 0
    with api.open(tmp_path / "other", cluster="other", archive=archive, node=node.name) as other:
        other.map("jobs")["job-1"] = "FAILED"
        other.archive()
    copied, own = (
        archive / registration_key(Place("default", name, "jobs", node.name), 1) for name in ("other", CLUSTER)
    )
    own.write_bytes(copied.read_bytes())
    if is_lost:
        shutil.rmtree(node.root)
    assert "number 1 of default/other/jobs/node-1, and was copied here" in failed_start(node, EXIT_CODES[Kind.DAMAGE])
