"""A cluster with a token: members and clients that do not know it are let in nowhere, and no message shows it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hazelcast.client import HazelcastClient
from hazelcast.errors import HazelcastError
from hazelcast.security import BasicTokenProvider

import kvwal
from kvwal.cluster.token import find_token
from kvwal.errors import ClusterUnreachable, ConfigError
from tests.support.cluster.nodes import CLUSTER, Node, cluster, needs_hazelcast, running
from tests.support.polling import until

TOKEN = "correct-horse-battery-staple"
OTHER = "another-token-of-the-same-kind"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("token")
    (folder / "token").write_text(TOKEN + "\n")
    with running(folder / "root", config=f'token_file = "{folder / "token"}"\n') as node:
        yield node
        assert TOKEN not in node.log.read_text()


def enters(node: Node, **settings: Any) -> bool:
    """Whether a client of hazelcast-python-client is let in."""
    try:
        client = HazelcastClient(
            cluster_name=CLUSTER, cluster_members=[node.address], cluster_connect_timeout=0.1, **settings
        )
    except HazelcastError:
        return False
    client.shutdown()
    return True


def closed(node: Node, *sent: bytes) -> bytes:
    """What a connection hears that sends these bytes, up to its end."""
    with socket.create_connection((node.host, node.port)) as connection:
        for part in sent:
            connection.sendall(part)
        heard = b""
        try:
            while more := connection.recv(4096):
                heard += more
        except ConnectionResetError:
            pass
        return heard


@pytest.mark.long
@needs_hazelcast
def test_only_clients_with_the_token_are_let_in(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    assert enters(node, token_provider=BasicTokenProvider(TOKEN))
    assert not enters(node, token_provider=BasicTokenProvider(OTHER))
    assert not enters(node, creds_username="wrong", creds_password=TOKEN)
    assert not enters(node)
    with kvwal.connect(node.address, cluster=CLUSTER, token=TOKEN) as store:
        store.map("jobs")["a"] = 1
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    with kvwal.connect(node.address, cluster=CLUSTER) as store:
        assert store.map("jobs")["a"] == 1
    with pytest.raises(ClusterUnreachable, match="token") as refused:
        kvwal.connect(node.address, cluster=CLUSTER, token=OTHER)
    assert OTHER not in str(refused.value)


@needs_hazelcast
@pytest.mark.parametrize(
    "sent",
    [
        (b"HZC", bytes(100)),
        (b"GET / HTTP/1.1\r\n\r\n",),
        (b"KVT" + bytes(32), bytes(32)),
        (b"CP2", struct.pack("<iHiqi", 1 << 30, 0xC000, 0x010100, 1, -1)),
        (b"CP2", struct.pack("<iHiqi", 22, 0xE000, 0x010100, 1, -1)),
    ],
    ids=["a member of Hazelcast", "HTTP", "a member that guesses", "a gigabyte", "a put before it is authenticated"],
)
def test_nothing_is_taken_from_whom_does_not_know_the_token(node: Node, sent: tuple[bytes, ...]) -> None:
    assert TOKEN.encode() not in closed(node, *sent)


@needs_hazelcast
def test_a_member_that_guesses_is_told_of_in_the_log(node: Node) -> None:
    closed(node, b"KVT" + bytes(32), bytes(32))
    until(lambda: "did not prove that it knows this cluster's token" in node.log.read_text() or None)


@needs_hazelcast
def test_a_value_that_is_too_large_is_read_past(node: Node) -> None:
    with node.client(token_provider=BasicTokenProvider(TOKEN)) as client:
        jobs = client.get_map("tmp.jobs").blocking()
        with pytest.raises(HazelcastError, match=r"TooLarge.*16 MiB"):
            jobs.set("large", "x" * (17 << 20))
        jobs.set("small", "x" * (15 << 20))
        assert jobs.key_set() == ["small"]


@needs_hazelcast
@pytest.mark.long
def test_members_with_one_token_are_a_cluster_and_one_without_stays_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
    with cluster(tmp_path, 2) as two:
        with kvwal.connect([node.address for node in two.nodes], cluster=CLUSTER, token=TOKEN) as store:
            store.map("jobs").update({str(number): number for number in range(100)})
        first, second = two.nodes
        second.kill()
        monkeypatch.setenv("KVWAL_TOKEN", OTHER)
        second.spawn()
        until(lambda: "did not prove" in first.log.read_text() or None)
        second.kill()
        monkeypatch.setenv("KVWAL_TOKEN", TOKEN)
        second.start()
        with kvwal.connect([node.address for node in two.nodes], cluster=CLUSTER, token=TOKEN) as store:
            assert len(store.map("jobs")) == 100
        for node in two.nodes:
            assert TOKEN not in node.log.read_text()


@pytest.mark.parametrize("text", ["", "short", "with a blank in the middle of it", "x" * 300, "ä" * 20])
def test_what_cannot_be_a_token_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"16 to 256|cannot be read") as refused:
        find_token(str(path))
    assert not text or text not in str(refused.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        find_token(str(tmp_path / "token"))


def test_the_file_comes_before_the_environment(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"the-token-of-file-{name}\n")
    one, two = (str(tmp_path / name) for name in ("one", "two"))

    def found(named: str | None, **environment: str) -> str | None:
        token = find_token(named, environment)
        return None if token is None else token.shown.reveal()

    assert found(one, KVWAL_TOKEN_FILE=two, KVWAL_TOKEN=TOKEN) == "the-token-of-file-one"
    assert found(None, KVWAL_TOKEN_FILE=two, KVWAL_TOKEN=TOKEN) == "the-token-of-file-two"
    assert found(None, KVWAL_TOKEN=TOKEN) == TOKEN
    assert found(None) is None
    assert TOKEN not in repr(find_token(None, {"KVWAL_TOKEN": TOKEN}))
