"""Contents of a cluster with a bucket: no member's disk matters, a killed client names nothing, the command line works."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kvwal
from kvwal.client.contents.calls import ContentCalls
from kvwal.client.store import ClusterStore
from kvwal.cluster.contents.requests import CLAIM_MS
from kvwal.entry import Entry
from kvwal.errors import ConfigError, ContentFailed, InvalidName
from kvwal.ports.clock import SYSTEM
from kvwal_archive.contents.files import ArchivedContents
from kvwal_archive.layout import PUT_FIRST
from kvwal_archive.objects import open_objects
from kvwal_archive.registry import registered
from kvwal_archive.verify import verify
from tests.repository.source import ROOT
from tests.support.archive import s3
from tests.support.cli import kvwal as command
from tests.support.cluster.links import members_of
from tests.support.cluster.nodes import CLUSTER, Cluster, cluster, needs_hazelcast, running
from tests.support.polling import until

pytestmark = needs_hazelcast
LARGE = bytes(range(256)) * (20 << 10)
"""5 MiB: above what is put from memory."""
KILLED = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
import kvwal
with kvwal.connect(sys.argv[1], cluster={CLUSTER!r}) as store:
    contents = store.content("killed")
    claim, _ = contents.written("never", b"put, and never named", {{}})
    print(claim.file, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def environment() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.server().environment().items():
            patch.setenv(name, value)
        yield patch


@pytest.fixture(scope="module")
def three(environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    url = f"{s3.bucket(s3.server())}/archive"
    with cluster(tmp_path_factory.mktemp("three"), 3, url=url) as made:
        yield made


@pytest.fixture
def store(three: Cluster) -> Iterator[ClusterStore]:
    with kvwal.connect(three.addresses, cluster=CLUSTER) as connected:
        yield connected


def archived(three: Cluster, business: str) -> ArchivedContents:
    return ArchivedContents(open_objects(three.url), "default", CLUSTER, business)


def calls_of(store: ClusterStore, business: str) -> ContentCalls:
    return store.business(business).content_calls


def put_in_block(store: ClusterStore, begun_ms: int) -> None:
    """Put a content and an item, as if the bytes had been put at this time of a member."""
    with store.business("late").transaction() as t:
        t.content().put("b", b"new")
        t.queue().put("item")
        t._claims.begun_ms = begun_ms


def test_bytes_are_in_the_bucket_and_on_no_members_disk(three: Cluster, store: ClusterStore) -> None:
    contents = store.content("placed")
    contents.put("small", b"a few bytes")
    contents.put("large", LARGE)
    sizes = archived(three, "placed").sizes()
    assert sorted(sizes.values()) == [11, len(LARGE)]
    assert all(file.endswith(PUT_FIRST) for file in sizes)
    assert not [path for node in three.nodes for path in node.root.rglob("content/*/*")]
    with contents.open("large", offset=256, length=3) as file:
        assert file.read() == b"\0\1\2"


def test_the_lines_of_the_page_run(three: Cluster) -> None:
    page = (ROOT / "docs" / "content.md").read_text()
    (lines,) = (
        lines for lines in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "connect(" in lines
    )
    names: dict[str, Any] = {}
    exec("import kvwal\n" + lines.replace('"node-1:5701"', f'"{three.addresses}", cluster="{CLUSTER}"'), names)
    assert names["rows"] == b"rows of part 1"


def test_a_killed_client_leaves_bytes_without_a_name(three: Cluster, store: ClusterStore) -> None:
    contents = store.content("killed")
    contents.put("a", b"a")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, three.addresses], capture_output=True, text=True, check=False
    )
    assert killed.returncode == -9, killed.stderr
    assert killed.stdout.strip() in archived(three, "killed").sizes()
    assert list(contents) == ["a"]


def test_bytes_that_were_put_too_long_ago_get_no_name(store: ClusterStore) -> None:
    contents = store.content("late")
    contents.put("a", b"old")
    calls, entry = calls_of(store, "late"), contents._entry("a")
    copied = Entry(b"b", entry.key_class, entry.value, entry.value_class, False, 0)
    now_ms = SYSTEM.wall_ms()
    for begun_ms in (now_ms - CLAIM_MS - 60_000, 0):
        with pytest.raises(ContentFailed, match="more than 24 hours ago"):
            calls.change([copied], begun_ms=begun_ms)
    with pytest.raises(ContentFailed):
        put_in_block(store, now_ms - CLAIM_MS - 60_000)
    assert (list(contents), len(store.business("late").queue())) == (["a"], 0)
    assert calls.change([copied], begun_ms=now_ms - CLAIM_MS + 60_000)
    assert list(contents) == ["a", "b"]


def test_a_copy_is_made_only_of_what_its_name_has_when_it_is_logged(store: ClusterStore) -> None:
    """Else it could name bytes that are collected already: see the decision."""
    contents = store.content("copied")
    contents.put("a", b"old")
    old = contents._entry("a")
    copied = Entry(b"b", old.key_class, old.value, old.value_class, False, 0)
    contents.put("a", b"new")
    assert calls_of(store, "copied").change([copied], [old]) is None
    contents.delete("a")
    assert calls_of(store, "copied").change([copied], [old]) is None
    assert list(contents) == []


def test_what_a_cluster_cannot_do_is_refused(store: ClusterStore) -> None:
    contents = store.content("refused")
    contents.put("a", b"a")
    with pytest.raises(ConfigError, match="in its archive only"):
        contents.repair("a")
    with pytest.raises(ConfigError, match="copies no content"), store.business("refused").transaction() as t:
        t.content().copy("a", "b")
    with pytest.raises(InvalidName, match="too long"):
        store.business("refused").content("n" * 120)
    assert list(contents) == ["a"]


def test_a_client_that_reaches_another_archive_is_refused(
    three: Cluster, environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with s3.own_server() as other, pytest.MonkeyPatch.context() as patch:
        s3.filesystem(other.server).mkdir(three.url.removeprefix("s3://").partition("/")[0])
        for name, value in other.server.environment().items():
            patch.setenv(name, value)
        with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
            contents = store.content("elsewhere")
            with pytest.raises(ConfigError, match="is not that archive"):
                contents.put("a", b"a")
            assert list(contents) == []


def test_a_cluster_without_an_archive_has_no_contents(tmp_path: Path) -> None:
    with (
        running(tmp_path / "root", more=["--archive", "none"]) as node,
        kvwal.connect(node.address, cluster=CLUSTER) as store,
    ):
        with pytest.raises(ConfigError, match="go to its archive, and it has none"):
            store.content("files").put("a", b"a")
        assert "files" not in store.map("files")


def test_the_commands_take_a_cluster_and_its_archive(three: Cluster, tmp_path: Path) -> None:
    names = ("--cluster", CLUSTER)
    (tmp_path / "in").write_bytes(LARGE)
    put = command("content", "put", three.location, "told/logs", "a", tmp_path / "in", "--attribute", "of=job", *names)
    assert (put.code, "the content told/logs is new in the cluster" in put.err) == (0, True), put.err
    (tmp_path / "b").write_bytes(b"b")
    assert command("content", "put", three.location, "told", "b", tmp_path / "b", *names).code == 0
    got = command("content", "get", three.location, "told/logs", "a", "-o", tmp_path / "out", *names)
    assert (got.code, (tmp_path / "out").read_bytes()) == (0, LARGE), got.err
    (listed,) = command("content", "list", three.location, "told/logs", "--json", *names).out.splitlines()
    assert (json.loads(listed)["attributes"], json.loads(listed)["timestamp"] > "0") == ({"of": "job"}, True)
    for prefix, code in (("a", 0), ("b", 1)):
        assert command("content", "list", three.location, "told/logs", "--prefix", prefix, *names).code == code
    figures = json.loads(command("content", "stats", three.location, "told", "--json", *names).out)
    assert (figures["contents"], figures["bytes"], figures["claim_files"]) == (1, 1, 2)
    assert "all sound" in command("content", "verify", three.location, "told/logs", *names).out
    refused = command("content", "verify", three.location, "told/logs", "--repair", *names)
    assert (refused.code, "nothing to mend them from" in refused.err) == (2, True)
    absent = command("content", "get", three.location, "told", "c", *names)
    assert (absent.code, "told has no content 'c' (there are: b)" in absent.err) == (1, True)
    assert command("content", "delete", three.location, "told", "b", *names).code == 0
    assert command("content", "get", three.location, "told", "b", *names).code == 1
    assert command("content", "list", three.location, "untold", *names).code == 2


@pytest.mark.long
def test_contents_outlive_a_lost_disk_and_then_all_of_them(three: Cluster) -> None:
    """The last test here: it loses the members' disks."""
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        contents = store.content("kept")
        contents.put("small", b"a few bytes", {"v": "1"})
        contents.put("large", LARGE)
        contents.put("gone", b"gone")
        contents.delete("gone")
        lost = three.nodes[-1]
        lost.kill()
        shutil.rmtree(lost.root)
        assert (contents.get("small"), contents.get("large") == LARGE) == (b"a few bytes", True)
        # Until both know of the loss, a write that waited for the lost member may be `CommitUnknown`.
        until(lambda: all(members_of(node) == 2 for node in three.nodes[:-1]) or None)
        contents.put("after", b"after")
    for node in three.nodes[:-1]:
        assert node.stop() == 0
    for node in three.nodes[:-1]:
        shutil.rmtree(node.root)
    told = command("content", "list", three.url, "kept", "--cluster", CLUSTER, "--format", "csv")
    assert [line.partition(",")[0] for line in told.out.splitlines()] == ["name", "after", "large", "small"], told.err
    for name in {place.node for place in registered(open_objects(three.url), "default", CLUSTER)}:
        (node,) = (node for node in three.nodes if node.name == name)
        kvwal.restore(three.url, node.root, cluster=CLUSTER, node=name, take_over=True)
    three.start()
    with kvwal.connect(three.addresses, cluster=CLUSTER) as store:
        contents = store.content("kept")
        assert {name: len(contents.get(name)) for name in contents} == {"after": 5, "large": len(LARGE), "small": 11}
        assert contents.stat("small").attributes == {"v": "1"}
    assert verify(open_objects(three.url)).findings == []
